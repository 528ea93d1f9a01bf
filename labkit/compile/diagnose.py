"""A refusal of the verifier, explained: the author's line, the one useful line of the log, its
meaning, a remedy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from labkit.compile.clang import snippet
from labkit.compile.lines import Place, places
from labkit.compile.messages import explain
from labkit.compile.registers import Path as LogPath
from labkit.compile.registers import last_path, place_at, registers_at_the_end
from labkit.compile.remarks import flat_of, remark_at
from labkit.compile.source import Flat, shown
from labkit.compile.verifier_messages import VERIFIER
from labkit.errors import Remark, VerifierError
from labkit.program.spec import FunctionSpec, ProgramSpec

__all__ = ["Summary", "summarise", "verifier_error"]

_INSTRUCTION = re.compile(r"^(\d+): \([0-9a-f]{2}\) ")
_NAMED = re.compile(r"\binsn (\d+)")
_NOISE = re.compile(  # instructions, states of registers, statistics
    r"^(?:;|\d+: |from \d+ to \d+|R\d+=|R\d+_w=|processed \d+ insns|verification time|"
    r"stack depth|mark_precise|(?:cur|old) state:|last_idx|regs=|parent |func#|Func#|caller:|"
    r"callee:|returning from|propagating|max_states|Live regs|-- BEGIN|-- END)"
)

_TELLING = re.compile(r"-W(?:return-type|incompatible-pointer-types)\b")  # warnings that explain a refusal


@dataclass(frozen=True)
class Summary:
    """What matters of a verifier's log: ``said`` its words, ``instruction`` the index it stopped
    at, if it says so.
    """

    said: str
    instruction: int | None
    lines: int


def summarise(log: str) -> Summary:
    """The useful line of a log: of its plain sentences, the last that the catalogue knows, else the
    last.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    sentences = [line for line in lines if not _NOISE.match(line)]
    known = [line for line in sentences if explain(VERIFIER, line)[0]]
    said = next(reversed(known or sentences), "")
    if known and said.endswith("offset is outside of the packet"):
        # the second half of "invalid access to packet, off=… size=…", which has the numbers
        said = next((line for line in reversed(known) if line != said), said)
    named = _NAMED.search(said)
    reached = [int(found[1]) for found in map(_INSTRUCTION.match, lines) if found]
    instruction = int(named[1]) if named else reached[-1] if reached else None
    return Summary(said, instruction, len(lines))


def verifier_error(spec: ProgramSpec, function: FunctionSpec, errno: int | None, log: str) -> VerifierError:
    """The error for a program that the kernel refused with ``errno`` and the verifier's ``log``
    (which may be empty).
    """
    summary, path, lines = summarise(log), last_path(log), places(function, spec.btf)
    place = place_at(lines, summary.instruction) if summary.instruction is not None else None
    meaning, remedy = explain(VERIFIER, summary.said)
    said = summary.said or "no reason given"
    detail = []
    if place:
        detail.append(snippet(place.line, place.text))
    if meaning:
        detail.append(f"that is: {meaning}")
    left_out = summary.lines - bool(summary.said)
    if left_out > 0:
        detail.append(f"({left_out} {'line' if left_out == 1 else 'lines'} of the log left out: see .log)")
    detail += [f"clang had warned: {text}" for text in spec.warnings if _TELLING.search(text)]
    remedy = remedy or _fallback(log)
    flat = flat_of(spec)
    return VerifierError(
        f"the verifier refuses {function.name}" + (f" ({place.file}:{place.line})" if place else "") + f": {said}",
        said=summary.said,
        meaning=meaning,
        line=place.line if place else None,
        source_line=place.text if place else "",
        log=log,
        tried=f"to load {function.name}, from {shown(Path(spec.path)) if spec.path else 'text in a cell'}",
        errno=errno,
        detail="\n".join(detail),
        remedy=remedy,
        remarks=(_remark(flat, place, path, lines, said, meaning, remedy),),
        code=path.code,
        registers=registers_at_the_end(path, summary.said, lines, flat.files[0].name),
    )


def _remark(
    flat: Flat, place: Place | None, path: LogPath, lines: list[Place], said: str, meaning: str, remedy: str
) -> Remark:
    """The refusal at its place in the text. Where a header's code was refused: at the text's own line that led there."""
    found = remark_at(flat, place.file if place else "", place.line if place else 0, said, meaning, remedy)
    if not found.header:
        return found
    own = (place_at(lines, index) for index in reversed(path.visited))
    led = next((each for each in own if each is not None and each.file == flat.files[0].name), None)
    return replace(found, line=led.line) if led is not None else found


def _fallback(log: str) -> str:
    if log:
        return "read .log from its end: the last instruction before the message is the one refused"
    return (
        "the kernel kept no log: look at the program's type, its flags, the device it is bound to "
        "and the kernel's "
        "version (`labkit doctor`)"
    )
