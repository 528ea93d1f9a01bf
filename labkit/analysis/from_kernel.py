"""Code of a loaded program in the kernel's own form, where the kernel shows it.

The verifier leaves little of a program as it was. Calls of helpers become calls of functions at an address, and
bpf_redirect_map one of the map's own function, where the map's type is known; lookups in arrays become a few
instructions of arithmetic; fields of the context become fields of the kernel's structures; ways that can't be taken are
gone. What can still be told: the ways, the moves, the stack, and by the kernel's list of symbols what each call is. It
takes privilege over the whole machine: in a sandbox the kernel shows nothing.
"""

from __future__ import annotations

import struct

from labkit.analysis.code import Callee, Code, Line, Origin, build
from labkit.analysis.helpers import MAP_LOOKUP, REDIRECT, REDIRECT_MAP, TAIL_CALL, helper_name
from labkit.analysis.instruction import SLOT_BYTES, decode
from labkit.analysis.opcodes import Kind
from labkit.compile.lines import Strings
from labkit.errors import PrivilegeError, resources
from labkit.kernel.translated import CALL_BASE, Translated, prog_translated, symbols
from labkit.program.program import Program

__all__ = ["code_of_program"]

# Symbols of the kernel that the helper's call may have become: net/core/filter.c, kernel/bpf/{dev,cpu}map.c, net/xdp/xskmap.c.
_HELPERS = {
    "bpf_xdp_redirect_map": REDIRECT_MAP,
    "dev_map_redirect": REDIRECT_MAP,
    "dev_hash_map_redirect": REDIRECT_MAP,
    "cpu_map_redirect": REDIRECT_MAP,
    "xsk_map_redirect": REDIRECT_MAP,
    "bpf_xdp_redirect": REDIRECT,
    "bpf_map_lookup_elem": MAP_LOOKUP,
}
_COLUMN_BITS = 10  # BPF_LINE_INFO_LINE_NUM


@resources("to read a program back")
def code_of_program(program: Program) -> Code:
    """What the kernel made of ``program``. Raises PrivilegeError where it doesn't show that, AnalysisError."""
    shown = prog_translated(program.fd)
    calls = _calls(shown.instructions) if shown.instructions else {}
    names = symbols(calls.values()) if calls else {}
    if not shown.instructions or (calls and not names):
        raise PrivilegeError(
            "The kernel doesn't show its own form of a program to this process.",
            tried="to read a program back",
            on=program.name,
            remedy="it takes root outside of a sandbox: ./env/lab --root",
        )
    return build(
        program.name,
        shown.instructions,
        origin=Origin.KERNEL,
        helpers={slot: _callee(offset, names) for slot, offset in calls.items()},
        lines=_lines(shown, Strings(program.spec.btf)),
    )


def _calls(code: bytes) -> dict[int, int]:
    """Slots of calls into the kernel, each with its offset from the symbol they are relative to."""
    found = decode(code, translated=True)
    return {
        slot: each.imm
        for slot, each in found.items()
        if each.kind is Kind.CALL and each.operation in ("helper", "kfunc")
    }


def _callee(offset: int, names: dict[int, str]) -> Callee:
    if offset == TAIL_CALL:  # shown with its number: it is no call in the kernel
        return Callee(helper_name(TAIL_CALL), helper=TAIL_CALL)
    name = names.get(offset, f"{CALL_BASE}{offset:+}")
    return Callee(name, helper=_HELPERS.get(name))


def _lines(shown: Translated, strings: Strings) -> dict[int, Line]:
    found = {}
    for at in range(0, len(shown.line_info), shown.line_bytes or 1):
        slot, file, text, column = struct.unpack_from("=4I", shown.line_info, at)
        if column >> _COLUMN_BITS and slot * SLOT_BYTES < len(shown.instructions):
            found[slot] = Line(strings[file], column >> _COLUMN_BITS, strings[text])
    return found
