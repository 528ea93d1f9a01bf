"""The exercises of lesson 02, redirects: to the right port, past a missing peer, to everybody else. The router has a
module of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labkit.lesson import redirect_frames as frames
from labkit.lesson.port_trial import STACK, Passage, PortTrial
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.redirect_case import COPIES, Case, attempt, fill, missing_maps, switch

__all__ = ["MISSING_PEER", "NO_ECHO", "REDIRECT_BY_ADDRESS"]

# ---- To the right port ---------------------------------------------------------------------------------------------------

_SLOTS = {1: 6, 2: 7, 3: 1}  # no slot is its interface's index, and slot 0 is empty
_SHORT = "frames that are no whole IPv4 packet: they are the stack's; pass them"
_TYPE = "the EtherType: other packets have something else where IPv4 has its destination; compare with htons(ETH_P_IP)"
_UNKNOWN = "addresses that port_of doesn't have: its lookup gives NULL, and then the packet is the stack's"
_NOT_FOUND = (
    "the lookup: the address was not found. The key is ip->daddr as it is in the packet, in network byte order, and the "
    "EtherType is compared with htons(ETH_P_IP)"
)

_ALL_ABORTED = (
    "every packet, whatever it is, went to an empty slot of ports and was aborted: which address do you ask port_of for, "
    "and where does a packet go whose address it doesn't have?"
)


def _address_case(what: str, source: int, target: int, frame: bytes) -> Case:
    return Case(what, source, frame, (f"h{target}",), _NOT_FOUND)


def _by_address(case: Case, seen: Passage) -> str:
    wrong = set(seen.came) - set(case.to) - {STACK}
    if seen.verdicts.get("XDP_ABORTED"):
        asked = (
            case.look if case.to == (STACK,) else "slot 0 is empty here: which slot does port_of have for ip->daddr?"
        )
        return f"XDP_ABORTED: the slot of ports was empty. {asked[0].upper()}{asked[1:]}"
    if seen.verdicts.get("XDP_DROP"):
        return case.look if case.to == (STACK,) else "XDP_DROP: nothing is to be dropped here"
    if f"h{case.sender}" in wrong:
        return "the key: the sender got its own frames back, so the port was that of the source; ask with ip->daddr"
    if wrong and case.to != (STACK,):
        return "the slot: the frames came out of another's port; the slot is what port_of has, *slot, at that moment"
    return ""


def _run_by_address(trial: PortTrial) -> list[Row]:
    """Each to each, and what is the stack's; then the map changes, and so must the way."""
    if missing := missing_maps(trial, "ports", "port_of"):
        return missing
    ports, udp = trial.program.maps["port_of"], frames.udp
    fill(trial, _SLOTS)
    for number, slot in _SLOTS.items():
        ports[frames.key(frames.address(number))] = slot
    cases = [_address_case(f"UDP from h{a} to h{b}", a, b, udp(a, b)) for a in _SLOTS for b in _SLOTS if a != b]
    cases += [
        _address_case("TCP from h1 to h3", 1, 3, frames.tcp(1, 3)),
        Case("UDP to an address that port_of doesn't have", 1, udp(1, "10.0.9.2"), (STACK,), _UNKNOWN),
        Case("ARP, to everybody", 1, frames.arp(1), (STACK,), _TYPE),
        Case("IPv6, with h2's address where IPv4 has it", 1, frames.ipv6(1, 2), (STACK,), _TYPE),
        Case("IPv4 cut off before the destination", 1, frames.bare(1, 2), (STACK,), _SHORT),
        Case("bare Ethernet header, 14 bytes", 1, frames.bare(1, 2)[:14], (STACK,), _SHORT),
    ]
    rows = [attempt(trial, case, _by_address) for case in cases]
    ports[frames.key(frames.address(2))] = _SLOTS[3]
    moved = Case("UDP from h1 to h2, which has moved to h3's port", 1, udp(1, 2), ("h3",), _NOT_FOUND)
    del ports[frames.key(frames.address(3))]
    gone = Case("UDP from h1 to h3, taken out of port_of", 1, udp(1, 3), (STACK,), _UNKNOWN)
    rows += [attempt(trial, case, _by_address) for case in (moved, gone)]
    aborted = (trial.program.verdicts() or {}).get("XDP_ABORTED", 0)
    return [replace(row, look=_ALL_ABORTED) for row in rows] if aborted == COPIES * len(rows) else rows


REDIRECT_BY_ADDRESS = register(
    Exercise(
        "redirect-by-address",
        "Redirect by address, to the right port",
        "Input: any frame, at any port of a switch with three hosts. If it is IPv4 and port_of has its destination, send it, "
        "unaltered, out of the port in that slot of ports. Pass everything else: addresses that port_of doesn't have, ARP, "
        "IPv6, frames too short to tell. Both maps may change at any moment.",
        "redirect_by_address",
        (
            "Run the check first. At the moment every packet asks port_of for address 0. What should it ask for?",
            "Find the IPv4 header with the cursor of bpf/common/parse.h, as in lesson 01; pass if there is none.",
            "destination = ip->daddr, as it is; then the lookup. It gives NULL for an address it doesn't have: pass.",
            "Otherwise return verdict(ctx, ports.redirect_map(*slot, 0)).",
        ),
        _run_by_address,
        switch(3),
    )
)


# ---- A missing peer ------------------------------------------------------------------------------------------------------

_BIT = (
    "byte order: the last byte of an address says whether it is odd; this machine, which reads a number from the other "
    "end, takes the first for it; ask ntohl(ip->daddr) & 1"
)
_LAST_BIT = "the address: it is the destination's last bit that decides, ntohl(ip->daddr) & 1, and 0 means slot 0"
_MISS = (
    "the empty slot: the lower two bits of redirect_map's flags are the verdict for it: 0 is XDP_ABORTED, 3 XDP_TX; "
    "XDP_PASS gives the packet to the stack"
)
_FULL = "the full slot: redirect_map returns XDP_REDIRECT then, and that is the verdict"


def _by_bit(case: Case, seen: Passage) -> str:
    strangers = set(seen.came) - set(case.to) - {STACK}
    if seen.verdicts.get("XDP_ABORTED") and case.to != (STACK,):
        return "the flags: only 0 to 3 may stand in the lower bits, the rest makes redirect_map abort; give XDP_PASS"
    if case.to == (STACK,) and seen.verdicts.get("XDP_TX"):
        return _MISS
    if strangers and case.to == (STACK,):
        return "the other slot: a packet for a missing peer must not go to the one who is there; let it pass"
    if strangers:
        return _BIT if case.to == ("h3",) else _LAST_BIT
    return ""


def _parity(what: str, source: int, target: str, to: str, look: str) -> Case:
    return Case(what, source, frames.udp(source, target), (to,), look)


def _run_missing(trial: PortTrial) -> list[Row]:
    """Both there, one missing, both missing, both back; what isn't IPv4 passes all along."""
    if missing := missing_maps(trial, "ports"):
        return missing
    even, odd, ports = "10.1.2.4", "10.1.2.3", trial.program.maps["ports"]
    fill(trial, {2: 0, 3: 1})

    def tried(*cases: Case) -> list[Row]:
        return [attempt(trial, case, _by_bit) for case in cases]

    odd_to_even = frames.udp(1, even, src="10.0.1.3")
    rows = tried(
        Case("UDP to an even address, from an odd one", 1, odd_to_even, ("h2",), _FULL),
        _parity("UDP to an even address, from h1", 1, even, "h2", _FULL),
        _parity("UDP to an odd address, from h1", 1, odd, "h3", _FULL),
        _parity("UDP to an odd address, from h2", 2, odd, "h3", _FULL),
        _parity("UDP to an even address, from h3", 3, even, "h2", _FULL),
        Case("ARP, to everybody", 1, frames.arp(1), (STACK,), _TYPE),
    )
    del ports[1]
    rows += tried(
        _parity("UDP to an odd address, slot 1 empty", 1, odd, STACK, _MISS),
        _parity("UDP to an odd address from h2, slot 1 empty", 2, odd, STACK, _MISS),
        _parity("UDP to an even address, slot 1 empty", 1, even, "h2", _FULL),
    )
    del ports[0]
    rows += tried(_parity("UDP to an even address, both slots empty", 1, even, STACK, _MISS))
    fill(trial, {2: 0, 3: 1})
    rows += tried(
        _parity("UDP to an odd address, both back", 1, odd, "h3", _FULL),
        _parity("UDP to an even address, both back", 1, even, "h2", _FULL),
    )
    return rows


MISSING_PEER = register(
    Exercise(
        "missing-peer",
        "Survive a missing peer",
        "Input: any frame. IPv4 to an even address goes out of the port in slot 0 of ports, IPv4 to an odd one out of that "
        "in slot 1. Either slot may be empty at any moment: what was to go there passes to the stack, and the other slot's "
        "packets are as before. What isn't IPv4 passes.",
        "missing_peer",
        (
            "Run the check, and see which rows differ: those with an empty slot. Which verdict is named there?",
            "bpf_redirect_map(map, key, flags): what does it return if there is nothing at the key? See bpf/common/maps.h.",
            "The lower two bits of flags are returned then. Which number is XDP_PASS?",
        ),
        _run_missing,
        switch(3),
    )
)


# ---- Without echo --------------------------------------------------------------------------------------------------------

_HUB = {1: 2, 2: 0, 3: 5, 4: 3}
_ECHO = (
    "the echo: the sender got its own frames back; with BPF_F_EXCLUDE_INGRESS the kernel leaves out the port that a packet "
    "came in by"
)
_ONE = (
    "the number of copies: one port got the packet and the others did not. redirect_map keeps one target, that of the last "
    "call; BPF_F_BROADCAST means every port in the map"
)


def _by_copies(case: Case, seen: Passage) -> str:
    echoed = f"h{case.sender}" in seen.came
    if seen.verdicts.get("XDP_ABORTED"):
        return "the flags: without BPF_F_BROADCAST the key counts, and an empty slot aborts; join flags with |"
    if echoed and len(seen.came) > 1:
        return _ECHO
    if len(seen.came) == 1 and STACK not in seen.came and len(case.to) > 1:
        return _ONE
    if STACK in seen.came or seen.verdicts.get("XDP_DROP"):
        return "whom it concerns: every frame, of whatever kind and length, goes to all others; nothing passes or is dropped"
    return ""


def _others(what: str, sender: int, frame: bytes, ends: Sequence[int] = tuple(_HUB)) -> Case:
    return Case(what, sender, frame, tuple(f"h{each}" for each in ends if each != sender), _ECHO)


def _run_no_echo(trial: PortTrial) -> list[Row]:
    """Every port is a sender once; then frames of other kinds, and a port taken out of the map."""
    if missing := missing_maps(trial, "ports"):
        return missing
    fill(trial, _HUB)
    cases = [_others(f"UDP from h{a} to h{b}", a, frames.udp(a, b)) for a, b in ((1, 2), (2, 3), (3, 4), (4, 1))]
    cases += [
        _others("ARP from h3, to everybody", 3, frames.arp(3)),
        _others("bare Ethernet header from h2", 2, frames.bare(2, 1)[:14]),
    ]
    rows = [attempt(trial, case, _by_copies) for case in cases]
    del trial.program.maps["ports"][_HUB[4]]
    last = (
        _others("UDP from h1, h4 taken out of the map", 1, frames.udp(1, 2), (1, 2, 3)),
        _others("UDP from h4, itself taken out of the map", 4, frames.udp(4, 2), (1, 2, 3)),
    )
    return [*rows, *(attempt(trial, case, _by_copies) for case in last)]


NO_ECHO = register(
    Exercise(
        "no-echo",
        "Broadcast without an echo",
        "Input: any frame, at any port of a hub with four hosts. Send a copy of it, unaltered, out of every port in the map "
        "ports but the one it came in by.",
        "no_echo",
        (
            "Run the check: who gets a copy that shouldn't?",
            "redirect_map's flags know more than BPF_F_BROADCAST; join two of them with |.",
            "BPF_F_EXCLUDE_INGRESS, with its comment in bpf/broadcast.c.",
        ),
        _run_no_echo,
        switch(4),
    )
)
