"""The exercises of lesson 10: programs that end in their redirect, and still do their job."""

from __future__ import annotations

from collections.abc import Mapping

from labkit.lesson import redirect_frames as frames
from labkit.lesson.fast_path_trial import FastTrial, Shown, analysis_rows, counted, fast_switch, map_rows
from labkit.lesson.port_trial import STACK
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.redirect_case import COPIES, fill

__all__ = ["CHANGE_FIRST", "COUNT_FIRST", "ONE_HELPER"]

_SLOT = "the slot: eth->h_dest[4] & 7, for every packet, as it came"
_EMPTY = "the empty slot: such a packet passes; ports.redirect_map(slot, XDP_PASS) answers that by itself"

# ---- Count before, not behind --------------------------------------------------------------------------------------------


def _run_count(trial: FastTrial) -> list[Row]:
    """The bytecode; then packets to full slots and to empty ones, and what was counted of them."""
    if wrong := map_rows(trial, "ports", "asked"):
        return [*analysis_rows(trial.report), *wrong]
    fill(trial, {1: 1, 2: 2, 3: 3})
    rows = [
        case.row(trial)
        for case in (
            Shown("UDP from h1 to h2", 1, frames.udp(1, 2), "h2", _SLOT),
            Shown("TCP from h2 to h3", 2, frames.tcp(2, 3), "h3", _SLOT),
            Shown("ARP from h3, to everybody: slot 7, empty", 3, frames.arp(3), STACK, _EMPTY, empty=True),
        )
    ]
    del trial.program.maps["ports"][2]
    rows.append(Shown("UDP from h1 to h2, slot 2 emptied", 1, frames.udp(1, 2), STACK, _EMPTY, empty=True).row(trial))
    rows += _counts(counted(trial, "asked"), {2: 2 * COPIES, 3: COPIES, 7: COPIES})
    return [*analysis_rows(trial.report, _COUNTED), *rows]


_COUNTED = (
    "the counter: behind the redirect it is one thing too many. Count before: what the answer will be, you don't need"
)
_NONE = "the counter: asked[slot] grows by 1 for each packet, whatever becomes of it"


def _counts(seen: Mapping[int, int], expected: Mapping[int, int]) -> list[Row]:
    rows = []
    for slot, packets in expected.items():
        rows.append(Row(f"asked[{slot}]", str(packets), str(seen[slot]), seen[slot] == packets, _NONE))
    others = sum(count for slot, count in seen.items() if slot not in expected)
    rows.append(
        Row("all other slots of asked", "0", str(others), not others, "the counter: asked[slot], no other slot")
    )
    return rows


COUNT_FIRST = register(
    Exercise(
        "count-first",
        "Count before, not behind",
        "Input: any frame, at any port of a switch with three hosts. Send it, unaltered, out of the port in slot "
        "eth->h_dest[4] & 7 of ports; where that slot is empty, it passes. Add 1 to asked[slot] for each packet, whether it is "
        "sent or passes. And let the redirect be the program's last word: a tail call.",
        "count_first",
        (
            "Run the check: its first row names the line that breaks the tail call. What happens there?",
            "What you count doesn't depend on the answer. So it need not wait for it.",
            "Lookup and addition go above the call; then return ports.redirect_map(slot, XDP_PASS).",
        ),
        _run_count,
        fast_switch(3),
    )
)

# ---- Change before, not behind -------------------------------------------------------------------------------------------

_HOPS = {1: bytes.fromhex("0200000000a1"), 2: bytes.fromhex("0200000000a2"), 6: bytes.fromhex("0200000000a6")}
_MAC = "the MAC address: set_destination(eth, mac), with what next_hop has for the slot, before the redirect"
_BACK = (
    "what passes: it goes to the stack as it came. Keep its address before you change it, and put it back after the answer "
    "XDP_PASS"
)
_BOUND = (
    "the frame: behind the redirect it would be somebody else's. Change it before. After the answer XDP_PASS it is still "
    "yours, and can be changed back; after XDP_DROP it is gone, so ask for XDP_PASS, not for “anything but XDP_REDIRECT”"
)


def _run_change(trial: FastTrial) -> list[Row]:
    """The bytecode; packets that are sent have another address, and those that pass have their own."""
    if wrong := map_rows(trial, "ports", "next_hop"):
        return [*analysis_rows(trial.report), *wrong]
    fill(trial, {1: 1, 2: 2, 3: 3})
    for slot, mac in _HOPS.items():
        trial.program.maps["next_hop"][slot] = {"bytes": list(mac)}
    to_six = frames.udp(1, 2, "02:00:00:00:06:02")
    cases = [
        Shown("UDP from h1 to h2", 1, frames.udp(1, 2), "h2", _MAC, _HOPS[2]),
        Shown("UDP from h3 to h1", 3, frames.udp(3, 1), "h1", _MAC, _HOPS[1]),
        Shown(
            "UDP from h1 to h3, which next_hop doesn't have",
            1,
            frames.udp(1, 3),
            STACK,
            "who isn't in next_hop: passes",
        ),
        Shown("UDP to slot 6, in next_hop, empty in ports", 1, to_six, STACK, _BACK, empty=True),
    ]
    rows = [case.row(trial) for case in cases]
    del trial.program.maps["ports"][2]
    rows.append(Shown("UDP from h1 to h2, slot 2 emptied", 1, frames.udp(1, 2), STACK, _BACK, empty=True).row(trial))
    return [*analysis_rows(trial.report, _BOUND), *rows]


CHANGE_FIRST = register(
    Exercise(
        "change-first",
        "Change before, not behind",
        "Input: any frame, at any port of a switch with three hosts. Its slot is eth->h_dest[4] & 7. If next_hop has a MAC "
        "address for the slot, send the frame out of the port in that slot of ports with this address as its destination. Pass "
        "everything else, and what finds its slot of ports empty, as it came. The redirect is to be a tail call.",
        "change_first",
        (
            "Run the check: which two things stand behind the redirect?",
            "The address first, then the redirect. But then a packet whose slot is empty passes with the wrong address …",
            "After XDP_PASS nothing was sent, and the packet is yours: put the old address back. After any other answer, don't "
            "touch it.",
            "Keep the answer: int action = ports.redirect_map(slot, XDP_PASS); if (action == XDP_PASS) set_destination(eth, "
            "&before); return action;",
        ),
        _run_change,
        fast_switch(3),
    )
)

# ---- One helper ----------------------------------------------------------------------------------------------------------

_UPLINK = 7
_TO_UPLINK = "the uplink: it is in slot 7 of ports as well; a packet for it goes there by redirect_map()"
_OWN = "the slot: a host's is eth->h_dest[4], below 7; what is 7 or more isn't one of the switch's hosts"


def _run_one(trial: FastTrial) -> list[Row]:
    """The bytecode; hosts, the uplink, and a host that isn't there."""
    if wrong := map_rows(trial, "ports"):
        return [*analysis_rows(trial.report), *wrong]
    fill(trial, {1: 1, 2: 2, 3: _UPLINK})
    if "uplink" in trial.program.maps:
        trial.program.maps["uplink"][0] = trial.ends["h3"].peer.ifindex
    far = frames.udp(1, "10.9.9.9", "02:00:00:00:63:02")
    cases = [
        Shown("UDP from h1 to h2", 1, frames.udp(1, 2), "h2", _OWN),
        Shown("UDP from h2 to h1", 2, frames.udp(2, 1), "h1", _OWN),
        Shown("UDP from h1 to somebody far away", 1, far, "h3", _TO_UPLINK),
        Shown("ARP from h2, to everybody", 2, frames.arp(2), "h3", _TO_UPLINK),
        Shown("UDP to slot 5, which is empty", 1, frames.udp(1, 2, "02:00:00:00:05:02"), STACK, _EMPTY, empty=True),
    ]
    rows = [case.row(trial) for case in cases]
    del trial.program.maps["ports"][_UPLINK]
    rows.append(Shown("the same to somebody far away, slot 7 emptied", 1, far, STACK, _EMPTY, empty=True).row(trial))
    return [*analysis_rows(trial.report), *rows]


ONE_HELPER = register(
    Exercise(
        "one-helper",
        "One helper, not two",
        "Input: any frame, at any port of a switch with two hosts and an uplink. If eth->h_dest[4] is below 7, that is its slot "
        "of ports; else it goes to the uplink, whose interface is in slot 7 of ports. Where the slot is empty, it passes. "
        "Every redirect is to be a tail call, and by a map.",
        "one_helper",
        (
            "Run the check: both calls stand last, and it isn't enough. Which row says why?",
            "bpf_redirect() leaves its note for the second step, and there would be none. But a map can have any interface.",
            "Choose the slot, 7 for the uplink; then call ports.redirect_map() once.",
        ),
        _run_one,
        fast_switch(3),
    )
)
