"""What the JIT made of a loaded program: bytes in all, by function, and by C line, where the kernel shows them."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from labkit.compile.lines import Strings
from labkit.errors import resources
from labkit.kernel.jited import Jited, ProgCost, prog_cost, prog_jited
from labkit.kernel.translated import Translated, prog_translated

__all__ = ["JitForm", "jit_form"]

_COLUMN_BITS = 10  # BPF_LINE_INFO_LINE_NUM
_BPF_STATS = Path("/proc/sys/kernel/bpf_stats_enabled")


@dataclass(frozen=True)
class JitForm:
    """``functions`` are bytes of each; ``by_line`` bytes by (file, line); ``code`` the machine code itself, or b""."""

    cost: ProgCost
    functions: tuple[int, ...]
    by_line: Mapping[tuple[str, int], int]
    code: bytes

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What the kernel says of it, in words."""
        cost = self.cost
        found = [("id, tag", f"{cost.id}, {cost.tag}")]
        if cost.translated_bytes:
            found.append(("the kernel's own form", f"{cost.translated_bytes:,} bytes"))
        if cost.jited_bytes:
            found.append(("machine code", f"{cost.jited_bytes:,} bytes{self._by_function()}"))
        if cost.verified_insns:
            found.append(("instructions the verifier went through, on all ways", f"{cost.verified_insns:,}"))
        found.append(("loaded", _clock(cost.loaded_ns)))
        found.append(("runs", _runs(cost)))
        return tuple(found)

    def _by_function(self) -> str:
        if len(self.functions) < 2:
            return ""
        return f" in {len(self.functions)} functions: {' + '.join(f'{each:,}' for each in self.functions)}"


def _clock(loaded_ns: int) -> str:
    ago = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - loaded_ns
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - ago / 1e9))


def _runs(cost: ProgCost) -> str:
    if cost.runs:
        return f"{cost.runs:,}, {cost.run_ns / cost.runs:,.0f} ns each, counted while kernel.bpf_stats_enabled was 1"
    return "not counted: kernel.bpf_stats_enabled is 0" if _stats_off() else "none yet"


def _stats_off() -> bool:
    try:
        return _BPF_STATS.read_text(encoding="utf-8").strip() == "0"
    except OSError:
        return True


@resources("to read a program's machine code")
def jit_form(fd: int, btf: bytes) -> tuple[JitForm, str]:
    """What can be seen of it, and in one line why it isn't more: "" where all of it is shown."""
    cost, made = prog_cost(fd), prog_jited(fd)
    by_line = _by_line(made, prog_translated(fd), Strings(btf)) if made.lines and made.starts else {}
    return JitForm(cost, made.lengths, by_line, made.code), _why(cost, made, by_line)


def _why(cost: ProgCost, made: Jited, by_line: Mapping[tuple[str, int], int]) -> str:
    if cost.jited_bytes and by_line:
        return ""
    if cost.jited_bytes and not made.starts:
        return "The kernel hides the addresses of machine code from this process: it shows no bytes of single lines."
    if cost.jited_bytes:
        return "The program has no line records: it can't be told which line became which machine code."
    if cost.translated_bytes:
        return "There is no machine code: the JIT is off (net.core.bpf_jit_enable is 0), and the kernel interprets it."
    return (
        "The kernel shows this process neither its own form of the program nor the machine code, not even their lengths: "
        "that takes root outside of a sandbox (./env/lab --root)."
    )


def _by_line(made: Jited, shown: Translated, strings: Strings) -> dict[tuple[str, int], int]:
    """Bytes from each line record to the next one of its function, summed by line.

    Only differences of addresses are used. What comes before a function's first record belongs to that.
    """
    found: dict[tuple[str, int], int] = {}
    records = sorted(zip(made.lines, _places(shown, strings), strict=False))
    starts = sorted(zip(made.starts, made.lengths, strict=True))
    for start, length in starts:
        inside = [(address, place) for address, place in records if start <= address < start + length]
        edges = [start, *(address for address, _ in inside[1:]), start + length]
        for (_, place), begin, end in zip(inside, edges, edges[1:], strict=False):
            found[place] = found.get(place, 0) + end - begin
    return found


def _places(shown: Translated, strings: Strings) -> Iterator[tuple[str, int]]:
    for at in range(0, len(shown.line_info), shown.line_bytes or 1):
        _, file, _, column = struct.unpack_from("=4I", shown.line_info, at)
        yield strings[file], column >> _COLUMN_BITS
