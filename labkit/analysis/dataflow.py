"""The better detector: is every bpf_redirect_map the last thing that its program does?

What has to hold. A driver that leaves out ``xdp_do_redirect()`` has the helper act at once: when it returns XDP_REDIRECT
the frame is on its way, and when it could not be queued the helper has only XDP_DROP to say so. From then on the frame
isn't the program's. So for each call, and for each of these two results: on every way from the call to the program's
end, in whatever function the call is, nothing happens that somebody outside could see, and the program's result is that
of the call. After one of the other answers (the slot is empty: 0, 2 or 3) nothing was sent, and the program may do what
it likes.

How it is shown. Each call is followed twice, with r0 exactly 4 and exactly 1, on all ways (labkit.analysis.explore):
registers and stack are known numbers or unknown, so moves of both widths, sign extensions, shifts, spills and the
conditional jumps on the result itself are simply computed. A 32-bit move of the result keeps it, as it has no upper half,
and the driver reads 32 bits of r0 anyway (``u32 bpf_prog_run_xdp()``): the comparison is of those.

What counts as visible: any call into the kernel; a store anywhere but to the program's own stack, which dies with it; an
atomic operation; and a read of what may be the frame, which is another's by then. It is sound for programs that the
kernel's verifier accepts, and says no wherever it can't tell. It speaks of the one program: whether that is all that the
driver runs is another question (a dispatcher that calls it goes on after it; bpf_tail_call leads to programs not seen).
"""

from __future__ import annotations

from dataclasses import dataclass

from labkit.analysis.code import Code
from labkit.analysis.explore import Place, Walk, search, steps, walk
from labkit.analysis.helpers import REDIRECT_MAP, helper_name
from labkit.analysis.instruction import Instruction
from labkit.analysis.opcodes import Kind
from labkit.analysis.state import CONTEXT, MAP, STACK, Pointer, State
from labkit.analysis.transfer import address
from labkit.uapi import XdpAction

__all__ = ["BINDING", "Break", "bound_ways", "dataflow"]

# Results of bpf_redirect_map after which its caller is bound: the frame is gone.
BINDING = (XdpAction.REDIRECT, XdpAction.DROP)


@dataclass(frozen=True)
class Break:
    """Why a call is no tail call: ``reason`` a sentence, ``slot`` where, ``path`` the slots from the call to there, both
    included, ``result`` the call's result on that path.
    """

    reason: str
    slot: int
    path: tuple[int, ...]
    result: XdpAction


def dataflow(code: Code, slot: int, known: Walk) -> Break | None:
    """None where the call at ``slot`` is a tail call, else the first way found that breaks it.

    ``known`` is a walk through the whole program. A call that it doesn't reach breaks nothing.
    """
    for result in BINDING:
        for place, state in known.states.items():
            if place.slot == slot:
                found = _follow(code, place, state, result)
                if found is not None:
                    return found
    return None


def _follow(code: Code, call: Place, state: State, result: XdpAction) -> Break | None:
    start, after = call.at(code.instructions[call.slot].following), state.after_helper(int(result))
    reasons: dict[Place, str] = {}

    def stop(place: Place, state: State, each: Instruction) -> bool:
        reason = _visible(code, place, state, each) or _ending(place, state, each, result)
        if reason:
            reasons.setdefault(place, reason)
        return bool(reasons)  # one is enough

    way = search(code, start, after, stop)
    if way is None:  # too many ways to keep apart
        walked = walk(code, {start: after}, stop)
        way = walked.path_to(next(iter(reasons))) if reasons else ()
    if not way:
        return None
    return Break(reasons[way[-1]], way[-1].slot, (call.slot, *(place.slot for place in way)), result)


def _visible(code: Code, place: Place, state: State, each: Instruction) -> str:
    """What somebody outside could see of an instruction; "" for nothing."""
    if each.kind is Kind.CALL and code.callees[place.slot].target is None:
        return f"calls {code.callees[place.slot].name}"
    if each.kind is Kind.PACKET_LOAD:
        return "reads the packet, which may be gone"
    if each.kind is Kind.ATOMIC:
        return f"does an atomic operation ({each.operation})"
    if each.kind in (Kind.LOAD, Kind.STORE):
        return _memory(address(state, each), each.kind is Kind.STORE)
    return ""


def _memory(where: object, writes: bool) -> str:
    memory = where.memory if isinstance(where, Pointer) else ""
    if memory == STACK or (memory in (CONTEXT, MAP) and not writes):
        return ""
    if writes:
        return f"writes to the {memory}" if memory else "writes to memory that isn't its stack: packet or map"
    return "reads memory that may be the packet, which may be gone"


def _ending(place: Place, state: State, each: Instruction, result: XdpAction) -> str:
    if each.kind is not Kind.EXIT or place.calls:
        return ""
    if place.root:
        return "returns to the helper that called this function, which goes on"
    value = state.registers[0]
    if isinstance(value, int):
        value &= 0xFFFFFFFF
        if value == result:
            return ""
        other = f"XDP_{XdpAction(value).name}" if value in list(XdpAction) else str(value)
        return f"returns {other} where {helper_name(REDIRECT_MAP)} returned XDP_{result.name}"
    return "returns something else than the result, or what can't be told"


def bound_ways(code: Code, slot: int, known: Walk) -> frozenset[tuple[int, int]]:
    """Steps from slot to slot that can follow the call at ``slot`` while its caller is bound by the result: the ways of
    its tail. ``known`` is a walk through the whole program.
    """
    found: set[tuple[int, int]] = set()
    after = code.instructions[slot].following
    for place, state in known.states.items():
        if place.slot != slot:
            continue
        found.add((slot, after))
        for result in BINDING:
            walked = walk(code, {place.at(after): state.after_helper(int(result))})
            for at, there in walked.states.items():
                found |= {(at.slot, to.slot) for to, _ in steps(code, at, there, code.instructions[at.slot])}
    return frozenset(found)
