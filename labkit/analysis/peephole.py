"""The detector of 2020: what one look at the instructions behind a call can tell.

"bpf, xdp: add naive bpf_redirect_map() tail call detection" (Björn Töpel, RFC for bpf-next, June 2020) taught the
verifier this: the call is a tail call if the next instruction is an exit; or if it is a jump for ``r0 > 0`` (signed, of
either width, against the number 0) to a place of which the same holds. Anything else, a move of r0 even, and it isn't.
Which jump that is comes from the AF_XDP program that libbpf brought along then: "sent? then go to the exit; else look
further".

Its author called it naive, and it is in two ways. It misses most of what compilers write. And, in a program with
functions, it takes the exit of any of them for the end of the program: what the caller does after it, it never sees.
"""

from __future__ import annotations

from labkit.analysis.code import Code
from labkit.analysis.opcodes import Kind

__all__ = ["peephole"]


def peephole(code: Code, slot: int) -> bool:
    """Whether the detector of 2020 takes the call at ``slot`` for a tail call."""
    seen = set()
    slot += 1
    while slot in code.instructions and slot not in seen:  # the patch would go round in a circle for ever
        seen.add(slot)
        each = code.instructions[slot]
        if each.kind is Kind.EXIT:
            return True
        positive = each.operation == "sgt" and not each.by_register and each.dst == 0 and each.imm == 0
        if each.kind is not Kind.BRANCH or not positive or each.target is None:
            return False
        slot = each.target
    return False
