"""The exercises on redirects: each plausible mistake is seen, and the first place to look leads to its cause.

That stubs fail and solutions pass, tests/kernel/test_exercises.py shows for every exercise.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import labkit as lk
from labkit import lesson
from labkit.lesson import redirect_frames as frames
from labkit.lesson.port_trial import STACK, PortTrial
from labkit.lesson.star import star

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = ROOT / "notebooks" / "solutions"
ALL = ("redirect-by-address", "missing-peer", "no-echo", "router")


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


def edited(id: str, *changes: tuple[str, str]) -> str:
    text = (SOLUTIONS / f"{lesson.exercise(id).function}.c").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def wrong(result: lesson.CheckResult) -> list[str]:
    return [row.what for row in result.rows if not row.good]


@pytest.mark.parametrize("id", ALL)
def test_the_stub_fails_for_a_reason_that_is_named(id: str) -> None:
    result = lk.check(id)
    assert not result.passed
    assert result.error is None, "it loads: what is wrong are the packets"
    assert result.looks


@pytest.mark.parametrize("id", ALL)
def test_the_solution_passes(id: str) -> None:
    result = lk.check(id, edited(id), strict=True)
    assert result.passed
    assert len(result.rows) >= 8


FIND = "slot = port_of.lookup(&destination);"
SEND = "slot ? ports.redirect_map(*slot, 0) : XDP_PASS"
MISS = "ports.redirect_map(ntohl(ip->daddr) & 1, XDP_PASS)"
FLAGS = "BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS"
EVERYBODY = f"ports.redirect_map(0, {FLAGS})"
REDIRECTED = "if (ports.redirect_map(fib.ifindex, XDP_PASS) != XDP_REDIRECT)"
DMAC = "__builtin_memcpy(eth->h_dest, fib.dmac, ETH_ALEN)"
SMAC = "__builtin_memcpy(eth->h_source, fib.smac, ETH_ALEN)"

OTHER = "ports.redirect_map(!(ntohl(ip->daddr) & 1), XDP_PASS)"
ALL_FOUR = ", ".join(f"ports.redirect_map({slot}, 0)" for slot in (0, 2, 3, 5))
NO_CARRY = "ip->check = htons(ntohs(ip->check) + 0x0100);\n\tip->ttl--"
NO_HOP = "if (!ip || ip->ttl <= 1)\n\t\treturn verdict(ctx, "
ABORT = "if (ports.redirect_map(fib.ifindex, 0) != XDP_REDIRECT)\n\t\treturn verdict(ctx, XDP_ABORTED);\n\tif (0)"

MISTAKES = [
    # exercise, [what is changed], a row that differs, and a word of the first place to look
    ("redirect-by-address", [("= ip->daddr", "= ntohl(ip->daddr)")], "h1 to h2", "in network byte order"),
    ("redirect-by-address", [("= ip->daddr", "= ip->saddr")], "h1 to h2", "that of the source"),
    ("redirect-by-address", [("htons(ETH_P_IP)", "ETH_P_IP")], "h2 to h3", "htons(ETH_P_IP)"),
    ("redirect-by-address", [("eth && eth->h_proto == htons(ETH_P_IP)", "eth")], "IPv6", "the EtherType"),
    ("redirect-by-address", [(SEND, "ports.redirect_map(slot ? *slot : 0, 0)")], "doesn't have", "gives NULL"),
    ("redirect-by-address", [(SEND, "slot ? ports.redirect_map(*slot, 0) : XDP_DROP")], "doesn't have", "gives NULL"),
    ("redirect-by-address", [(SEND, "slot ? XDP_REDIRECT : XDP_PASS")], "the map ports", "XDP_REDIRECT alone"),
    ("redirect-by-address", [(SEND, "slot ? bpf_redirect(*slot, 0) : XDP_PASS")], "the map ports", "no slot"),
    ("redirect-by-address", [(SEND, "slot ? XDP_TX : XDP_PASS")], "the map ports", "XDP_TX"),
    ("redirect-by-address", [(SEND, "slot ? ports.redirect_map(7, 0) : XDP_PASS")], "h1 to h3", "the slot"),
    ("redirect-by-address", [("if (!ip)\n\t\treturn verdict(ctx, XDP_PASS)", "if (!ip)\n\t\treturn verdict(ctx, XDP_DROP)")],
     "ARP", "the EtherType"),
    ("redirect-by-address", [("port_of", "where")], "the map port_of", "port_of.lookup"),
    ("missing-peer", [(MISS, "ports.redirect_map(ntohl(ip->daddr) & 1, XDP_DROP)")], "slot 1 empty", "the empty slot"),
    ("missing-peer", [(MISS, "ports.redirect_map(ntohl(ip->daddr) & 1, XDP_TX)")], "slot 1 empty", "3 XDP_TX"),
    ("missing-peer", [(MISS, "ports.redirect_map(ntohl(ip->daddr) & 1, XDP_REDIRECT)")], "odd address, from", "the flags"),
    ("missing-peer", [(MISS, "ports.redirect_map(ip->daddr & 1, XDP_PASS)")], "odd address, from h1", "byte order"),
    ("missing-peer", [(MISS, "ports.redirect_map(ntohl(ip->saddr) & 1, XDP_PASS)")], "from an odd one", "the address"),
    ("missing-peer", [(MISS, f"(ports.redirect_map(ntohl(ip->daddr) & 1, 0) ?: {OTHER})")],
     "odd address, slot 1 empty", "the other slot"),
    ("missing-peer", [("if (!ip)\n\t\treturn verdict(ctx, XDP_PASS)", "if (!ip)\n\t\treturn verdict(ctx, XDP_DROP)")],
     "ARP", "the EtherType"),
    ("missing-peer", [(MISS, "XDP_PASS")], "the map ports", "nothing is sent by it"),
    ("no-echo", [(FLAGS, "BPF_F_BROADCAST")], "h1 to h2", "the echo"),
    ("no-echo", [(FLAGS, "BPF_F_EXCLUDE_INGRESS")], "h1 to h2", "the number of copies"),
    ("no-echo", [(EVERYBODY, f"({ALL_FOUR})")],
     "h1 to h2", "the number of copies"),
    ("no-echo", [(EVERYBODY, "XDP_PASS")], "the map ports", "nothing is sent by it"),
    ("no-echo", [(EVERYBODY, "XDP_REDIRECT")], "the map ports", "XDP_REDIRECT alone"),
    ("no-echo", [(FLAGS, "BPF_F_BROADCAST & BPF_F_EXCLUDE_INGRESS")], "h2 to h3", "the number of copies"),
    ("no-echo", [("ctx, " + EVERYBODY, f"ctx, ctx->data_end - ctx->data < 60 ? XDP_DROP : {EVERYBODY}")],
     "bare Ethernet", "whom it concerns"),
    ("router", [(DMAC, "(void)0")], "to which MAC", "the destination's MAC"),
    ("router", [(SMAC, "(void)0")], "from which MAC", "the source's MAC"),
    ("router", [("h_dest, fib.dmac", "h_dest, fib.smac"), ("h_source, fib.smac", "h_source, fib.dmac")],
     "to which MAC", "the other way round"),
    ("router", [("decrease_ttl(ip)", "(void)0")], "TTL there", "the TTL"),
    ("router", [("decrease_ttl(ip)", "ip->ttl--")], "header checksum", "the header's checksum"),
    ("router", [("decrease_ttl(ip)", NO_CARRY)], "0xff80", "the header's checksum"),
    ("router", [(" || ip->ttl <= 1", "")], "TTL 1", "the last hop"),
    ("router", [("ip->ttl <= 1", "ip->ttl <= 2")], "TTL 2", "who forwards"),
    ("router", [("\tfib.tot_len = ntohs(ip->tot_len);\n", "")], "1,200 bytes", "the length"),
    ("router", [("fib.tot_len = ntohs(ip->tot_len)", "fib.tot_len = ip->tot_len")], "client to server", "who forwards"),
    ("router", [(REDIRECTED, ABORT)],
     "not in ports", "the port"),
    ("router", [("fib.ipv4_src = ip->saddr", "decrease_ttl(ip);\n\tfib.ipv4_src = ip->saddr"),
                ("\tdecrease_ttl(ip);\n\t__b", "\t__b")], "not in ports", "the order"),
    ("router", [("htons(ETH_P_IP)", "ETH_P_IP")], "client to server", "who forwards"),
    ("router", [("return verdict(ctx, XDP_REDIRECT)", "return verdict(ctx, XDP_TX)")], "client to server", "XDP_TX"),
    ("router", [(f"{NO_HOP}XDP_PASS)", f"{NO_HOP}XDP_DROP)")],
     "ARP", "the last hop"),
    ("router", [("redirect_map(fib.ifindex, XDP_PASS)", "redirect_map(0, XDP_PASS)")], "client to server", "who forwards"),
    ("router", [("decrease_ttl(ip);", "decrease_ttl(ip);\n\tip->tos = 4;")], "the rest", "the header's checksum"),
]  # fmt: skip


@pytest.mark.parametrize(("id", "changes", "row", "look"), MISTAKES, ids=[f"{m[0]}-{m[3]}" for m in MISTAKES])
def test_a_mistake_is_seen_and_its_cause_named(id: str, changes: list[tuple[str, str]], row: str, look: str) -> None:
    result = lk.check(id, edited(id, *changes))
    assert result.error is None, str(result)
    assert any(row in what for what in wrong(result)), str(result)
    assert look in result.looks[0], str(result)
    assert len(result.looks) <= 4, result.looks


@pytest.mark.parametrize("id", ALL)
def test_a_program_that_passes_everything_is_no_answer(id: str) -> None:
    """Least of all a router: the stack would forward everything, and ping work."""
    maps = "LAB_DEVMAP(ports, 64);\nLAB_HASH(port_of, u32, u32, 8);\n"
    use = "u32 zero = 99; port_of.lookup(&zero); ports.redirect_map(63, XDP_PASS);"
    text = (
        f'#include "common/verdict.h"\n{maps}int all(struct xdp_md *ctx) {{ {use} return verdict(ctx, XDP_PASS); }}\n'
    )
    result = lk.check(id, text)
    assert result.error is None, str(result)
    assert not result.passed


def test_hints_go_from_a_nudge_to_nearly_the_answer() -> None:
    for id in ALL:
        hints = lesson.exercise(id).hints
        assert len(hints) >= 3
        assert len(set(hints)) == len(hints)


def test_a_port_trial_counts_exactly() -> None:
    """By taps, by the program and by the drivers of both ends; to a host, to the stack, and to nobody."""
    source = '#include "common/verdict.h"\nLAB_DEVMAP(ports, 2);\n'
    source += "int out(struct xdp_md *ctx) { return verdict(ctx, ports.redirect_map(1, XDP_PASS)); }\n"
    with PortTrial(lk.compile(text=source), None, star("switch", "h1", "h2"), "switch") as trial:
        far, copies = trial.ends["h2"], 31
        seen = trial.send("h1", frames.udp(1, 2), copies)
        assert seen.only({STACK: copies})
        trial.program.maps["ports"][1] = far.peer
        before = far.statistics()["rx_packets"]
        seen = trial.send("h1", frames.udp(1, 2), copies)
        assert seen.only({"h2": copies}), seen.words
        assert seen.verdicts == {"XDP_REDIRECT": copies}
        assert far.statistics()["rx_packets"] - before == copies
        assert far.peer.driver_statistics()["tx_queue_0_xdp_xmit"] == copies
        next(link for link in trial.lab.attached if link.interface is far).close()
        seen = trial.send("h1", frames.udp(1, 2), copies)
        assert (dict(seen.came), seen.refused) == ({}, copies), seen.words


def test_frames_that_no_whole_ipv4_packet_fits() -> None:
    assert len(frames.bare(1, 2)) < 14 + 20
    assert frames.overflowing(1, 2)[24:26] == b"\xff\x80"
    assert frames.ipv6(1, 2)[30:34] == frames.udp(1, 2)[30:34]
    assert frames.ipv6(1, 2)[12:14] == b"\x86\xdd"
