"""The exercises of lesson 01, the early-drop hook."""

from __future__ import annotations

import ipaddress
import sys
from dataclasses import dataclass, replace
from functools import cache

from labkit.errors import LabError
from labkit.lesson import odd_frames
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.trial import Seen, Trial
from labkit.uapi import MapType

__all__ = ["DROP_UDP_PORT", "LOW_TTL", "SOURCE_BUDGET", "Case"]


@dataclass(frozen=True)
class Case:
    """One kind of frame and what should become of it: ``drop`` or pass."""

    what: str
    frame: bytes
    drop: bool
    look: str

    def row(self, seen: Seen) -> Row:
        """What was seen, beside what should have been."""
        if self.drop:
            good = seen.dropped == seen.sent and seen.answer == "XDP_DROP"
        else:
            good = seen.passed == seen.sent and not seen.altered
        look = "the frame itself: what passes must stay as it is" if seen.altered else self.look
        return Row(f"{seen.sent} × {self.what}", "dropped" if self.drop else "passed", seen.words, good, look)


_NOTHING = (
    "nothing at all is dropped, so the conditions are never met; the EtherType, for one, is in network byte order: "
    "compare with htons(ETH_P_IP)"
)
_EVERYTHING = "everything is dropped, whatever it is: which way out do the frames take that should pass?"


def _try_all(trial: Trial, cases: tuple[Case, ...]) -> list[Row]:
    """A row for each case. A program that treats all frames alike is told so, and not sixteen single things."""
    seen = [trial.send(case.frame) for case in cases]
    rows = [case.row(each) for case, each in zip(cases, seen, strict=True)]
    alike = ""
    if all(each.passed == each.sent and not each.altered for each in seen):
        alike = _NOTHING
    elif all(each.dropped == each.sent for each in seen):
        alike = _EVERYTHING
    return [replace(row, look=alike) for row in rows] if alike else rows


_SHORT = (
    "short frames: a frame that ends before the header you want is not yours to judge, so pass it (veth does not pad)"
)
_TYPE = "the EtherType: the bytes of ARP, IPv6 or a VLAN tag mean something else than IPv4's at the same place"
_ORDER = "byte order: a port in a packet is in network order; compare with htons(9999)"
_OPTIONS = "IPv4 options: the header is ip->ihl * 4 bytes long, and not always 20"
_FRAGMENT = "fragments: only the first one holds a UDP header; see is_later_fragment in bpf/common/parse.h"
_PORTS = "the conditions: the protocol must be UDP, and it is the destination port that counts"


@cache
def _port_cases() -> tuple[Case, ...]:
    udp = odd_frames.udp
    return (
        Case("UDP to port 9999", udp(), True, _ORDER),
        Case("UDP to port 9999, no payload: 42 bytes", udp(payload=0), True, _SHORT),
        Case("UDP to port 9999, behind IPv4 options", udp(options=odd_frames.nops()), True, _OPTIONS),
        Case("UDP to port 9999, first fragment", udp(flags="MF"), True, _FRAGMENT),
        Case("UDP to port 53", udp(dport=53), False, _PORTS),
        Case("UDP from port 9999 to port 53", udp(dport=53, sport=9999), False, _PORTS),
        Case("UDP to port 3879 (9999 backwards)", udp(dport=3879), False, _ORDER),
        Case("UDP to port 53, 9999 among IPv4 options", odd_frames.options_look_alike(), False, _OPTIONS),
        Case("TCP to port 9999", odd_frames.tcp(9999), False, _PORTS),
        Case("ping (ICMP echo)", odd_frames.ping(), False, _PORTS),
        Case("later fragment of UDP", odd_frames.later_fragment(), False, _FRAGMENT),
        Case("ARP, 42 bytes", odd_frames.arp(), False, _SHORT),
        Case("UDP cut off after two bytes", udp()[:36], False, _SHORT),
        Case("bare Ethernet header, 14 bytes", udp()[:14], False, _SHORT),
        Case("IPv6, 17 and 9999 where IPv4 has them", odd_frames.ipv6_look_alike(), False, _TYPE),
        Case("UDP to port 9999 in VLAN 10", odd_frames.tagged(), False, _TYPE),
    )


DROP_UDP_PORT = register(
    Exercise(
        "drop-udp-port",
        "Drop UDP to port 9999, and nothing else",
        "Input: any frame. Drop it (XDP_DROP) if it is IPv4, untagged, UDP, with destination port 9999. Pass everything "
        "else: other ports and protocols, ARP, IPv6, VLAN-tagged frames, later fragments (they have no UDP header), "
        "and frames too short to tell.",
        "drop_udp_port",
        (
            "Run the check first and read its table: it names the kinds of frame that came out differently.",
            "The fixed numbers 23 and 36 are right only for Ethernet + IPv4 without options. bpf/common/parse.h has a "
            "cursor that goes from header to header: cursor_begin, next_eth, next_ipv4, next_udp.",
            "Each next_…() returns NULL where the frame ends too early: pass then. Compare eth->h_proto with "
            "htons(ETH_P_IP), and udp->dest with htons(9999).",
            "Between IPv4 and UDP, pass if ip->protocol != IPPROTO_UDP or is_later_fragment(ip).",
        ),
        lambda trial: _try_all(trial, _port_cases()),
    )
)


_COMPARE = "the comparison: 0 and 1 are too low, 2 is not"
_ENOUGH = "how much you check: the whole IPv4 header, 20 bytes, and no more than that"


@cache
def _ttl_cases() -> tuple[Case, ...]:
    udp, options = odd_frames.udp, odd_frames.nops()
    return (
        Case("IPv4, TTL 1", udp(ttl=1), True, _COMPARE),
        Case("IPv4, TTL 0", udp(ttl=0), True, _COMPARE),
        Case("IPv4, TTL 1, header only: 34 bytes", odd_frames.ipv4(b"", ttl=1, proto=253), True, _ENOUGH),
        Case("IPv4, TTL 1, with options", udp(ttl=1, options=options), True, "the TTL is before the options"),
        Case("IPv4, TTL 2", udp(ttl=2), False, _COMPARE),
        Case("IPv4, TTL 64", udp(), False, _COMPARE),
        Case("IPv6, 1 where IPv4 has its TTL", odd_frames.ipv6_low(), False, _TYPE),
        Case("ARP, 42 bytes", odd_frames.arp(), False, _TYPE),
        Case("IPv4 cut off after 6 bytes", udp(ttl=1)[:20], False, _SHORT),
        Case("bare Ethernet header, 14 bytes", udp()[:14], False, _SHORT),
    )


LOW_TTL = register(
    Exercise(
        "low-ttl",
        "Make the verifier accept it, and keep it right",
        "Input: any frame. Drop IPv4 packets whose TTL is 0 or 1; pass everything else, frames too short to tell among it.",
        "low_ttl",
        (
            "Read the verifier's line: which offset did the program read, and how many bytes (r=) had it made sure of?",
            "The check covers the Ethernet header, 14 bytes. The TTL is in the IPv4 header behind it, byte 22 of the frame.",
            "(void *)(ip + 1) is the first byte behind the IPv4 header: compare that with end.",
        ),
        lambda trial: _try_all(trial, _ttl_cases()),
    )
)

_BURSTS = (("10.0.1.1", 7), ("10.0.1.77", 101), ("10.0.1.200", 257), ("10.0.1.1", 3))
_BUDGET = 100
_PER_CPU = (MapType.PERCPU_HASH, MapType.LRU_PERCPU_HASH, MapType.PERCPU_ARRAY)


def _run_budget(trial: Trial) -> list[Row]:
    """Bursts from several sources, ARP after them, then a look into the map."""
    rows, totals = [], dict.fromkeys((source for source, _ in _BURSTS), 0)
    for source, copies in _BURSTS:
        left = max(0, _BUDGET - totals[source])
        totals[source] += copies
        seen = trial.send(odd_frames.udp(src=source), copies, ask=False)
        expected = min(copies, left)
        good = seen.passed == expected and seen.dropped == copies - expected
        rows.append(
            Row(
                f"{copies} from {source}",
                f"{expected} passed, {copies - expected} dropped",
                f"{seen.passed} passed, {seen.dropped} dropped",
                good,
                "the key: each source needs a counter of its own; packet 100 still passes, packet 101 does not",
            )
        )
    seen = trial.send(odd_frames.arp(), 5, ask=False)
    rows.append(Row("5 × ARP, afterwards", "5 passed", f"{seen.passed} passed", seen.passed == 5, _TYPE))
    return [*_aborted(trial), *rows, *_look_into_map(trial, totals)]


def _aborted(trial: Trial) -> list[Row]:
    """A row for packets that the program gave up on, first of all: they look like drops everywhere else."""
    packets = (trial.program.verdicts() or {}).get("XDP_ABORTED", 0)
    if not packets:
        return []
    look = (
        "XDP_ABORTED: the lookup gave NULL. Either nothing makes the entry of a new source (lookup_or_try_init does), "
        "or the map has no room for another"
    )
    return [Row("packets that the program aborted", "0", str(packets), False, look)]


def _look_into_map(trial: Trial, totals: dict[str, int]) -> list[Row]:
    held = trial.program.maps.get("packets_by_source")
    if held is None:
        look = 'the map\'s name: the check reads "packets_by_source"'
        return [Row("the map packets_by_source", "there", "not used by the program", False, look)]
    if held.spec.type in _PER_CPU:
        look = "the map's type: every CPU would have a budget of its own; one for all of them is LAB_HASH"
        return [Row("the map packets_by_source", "one counter a source", "one for each CPU", False, look)]
    try:
        found = {key: value for key, value in held.read().items() if isinstance(key, int)}
    except LabError as error:
        return [
            Row("the map packets_by_source", "readable", error.message, False, "the map's type: LAB_HASH, u32 → u64")
        ]
    rows = []
    for source, packets in totals.items():
        key = int.from_bytes(ipaddress.ip_address(source).packed, sys.byteorder)
        swapped = int(ipaddress.ip_address(source))
        seen = f"{found[key]} packets" if key in found else "no entry"
        look = "the counter: count every packet of a source, the dropped ones too"
        if key not in found:
            look = (
                "byte order: the key is there, but converted; use ip->saddr as it is"
                if swapped in found
                else "the key: ip->saddr, as it is in the packet"
            )
        rows.append(Row(f"the map's entry for {source}", f"{packets} packets", seen, found.get(key) == packets, look))
    return rows


SOURCE_BUDGET = register(
    Exercise(
        "source-budget",
        "A budget for each source",
        "Input: any frame. Each IPv4 source address may send 100 packets; what it sends after that is dropped. Anything "
        "that is not IPv4 passes. The map packets_by_source (LAB_HASH, key: the source address as it is in the packet, "
        "value: a u64) counts every packet of a source, passed or dropped.",
        "source_budget",
        (
            "At the moment every packet, ARP too, has the same key: 0. What should the key be?",
            "Find the IPv4 header with the cursor of bpf/common/parse.h; pass the packet if there is none.",
            "source = ip->saddr; then look up, count and judge as before.",
        ),
        _run_budget,
    )
)
