"""What the editor says: remarks, registers, versions and differences, as the page wants them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from labkit.compile.remarks import warnings_of
from labkit.compile.stopping import CompileStopped
from labkit.errors import CompileError, LabError, Remark, VerifierError
from labkit.program.reuse import Handover
from labkit.widgets.editor_versions import Version

__all__ = ["NOTHING_SAID", "accepted", "cleaned", "diff_lines", "goes_on", "good", "refused", "version_rows"]

NOTHING_SAID: dict[str, Any] = {
    "kind": "",
    "headline": "",
    "remarks": [],
    "registers": [],
    "code": "",
    "log": "",
    "maps": [],
}
_LOG_CHARACTERS = 40_000


def cleaned(text: str) -> str:
    """``text`` without what can't be sent to a browser: half characters."""
    return text.encode("utf-8", "replace").decode("utf-8")


def goes_on(running: Version | None) -> str:
    """What a failure did not touch."""
    if running is None:
        return "Nothing runs there yet."
    return f"Version {running.number} goes on running, untouched."


def refused(error: BaseException) -> dict[str, Any]:
    """Why a text does not run."""
    if not isinstance(error, Exception):
        return _found("", "The cell was interrupted.", ())
    if not isinstance(error, LabError):
        said = Remark("error", f"{type(error).__name__}: {error}", remedy="run the cell again")
        return _found("bad", "Something else went wrong.", (said,))
    if isinstance(error, VerifierError):
        rows = [
            {"name": each.name, "state": each.state, "words": each.words, "named": each.named}
            | {"line": each.line, "text": each.text}
            for each in error.registers
        ]
        found = _found("bad", "It compiles; the verifier refuses it.", error.remarks, error.log)
        return {**found, "registers": rows, "code": error.code}
    if isinstance(error, CompileStopped):
        return _found("", "Stopped: the compiler was ended, and a fresh one takes its place.", ())
    if isinstance(error, CompileError):
        remarks = error.remarks or (
            Remark("error", error.message, error.line, error.column, remedy=error.remedy, meaning=error.detail),
        )
        errors = sum(each.kind == "error" for each in remarks)
        return _found("bad", f"Not compiled: {errors} error{'s' if errors != 1 else ''}.", remarks, error.log)
    words = Remark("error", error.message, meaning=error.detail, remedy=error.remedy)
    return _found("bad", "It does not run.", (words,))


def good(headline: str) -> dict[str, Any]:
    """Something that went as it was wanted."""
    return _found("good", headline, ())


def accepted(version: Version, *, new: bool, seconds: float) -> dict[str, Any]:
    """What happened when a version was put in place."""
    if not new:
        return _found("good", f"Version {version.number} runs already: the text is the same.", ())
    said = f"Version {version.number} runs, {seconds:.2f} s after the key."
    return {**_found("good", said, warnings_of(version.spec)), "maps": _maps(version.handover)}


def _found(kind: str, headline: str, remarks: Sequence[Remark], log: str = "") -> dict[str, Any]:
    if len(log) > _LOG_CHARACTERS:
        half = _LOG_CHARACTERS // 2
        log = f"{log[:half]}\n… {len(log) - _LOG_CHARACTERS:,} characters left out …\n{log[-half:]}"
    told = [{name: _clean(value) for name, value in vars(each).items()} for each in remarks]
    words = {"kind": kind, "headline": cleaned(headline), "log": cleaned(log.rstrip())}
    return {**NOTHING_SAID, **words, "remarks": told}


def _clean(value: Any) -> Any:
    if isinstance(value, tuple):
        return [cleaned(each) for each in value]
    return cleaned(value) if isinstance(value, str) else value


def _maps(maps: Handover) -> list[dict[str, str]]:
    """Each map, what became of it, and why."""
    rows = [{"name": name, "fate": "goes on", "why": "same name and shape"} for name in maps.kept]
    lost = dict(maps.lost)
    for name in maps.fresh:
        why = f"the one before could not be kept: {lost.pop(name)}" if name in lost else "new in this version"
        rows.append({"name": name, "fate": "starts empty", "why": why})
    return rows + [{"name": name, "fate": "not kept", "why": why} for name, why in lost.items()]


def version_rows(versions: Sequence[Version], running: Version | None) -> list[dict[str, Any]]:
    """The versions for the page, the latest first."""
    rows = []
    for each in reversed(versions):
        try:
            verdicts = each.verdicts()
        except LabError:  # a map that was closed by other hands, or that this thread may not read
            verdicts = None
        rows.append(
            {
                "number": each.number,
                "name": each.name,
                "tag": each.tag,
                "time": time.strftime("%H:%M:%S", time.localtime(each.time_s)),
                "running": each is running,
                "verdicts": None
                if verdicts is None
                else [[name.removeprefix("XDP_"), count] for name, count in verdicts.items()],
            }
        )
    return rows


def diff_lines(diff: str) -> list[list[str]]:
    """A unified diff as [sign, text]: "+", "-", " " for lines, "@" for the places."""
    found = []
    for line in diff.split("\n")[2:]:  # the first two name the two sides
        sign = line[:1] or " "
        found.append(["@", line] if sign == "@" else [sign, line[1:]])
    return [[sign, cleaned(text)] for sign, text in found]
