"""The ledger where tracing programs are withheld: the same names where a counter tells them, else unaccounted and a note."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit import lesson, sandbox
from labkit.errors import PrivilegeError, TrafficError
from labkit.observe.drops import DropWatch
from labkit.observe.observer import Observer
from labkit.uapi import AttachType

N = 1_009  # prime
_SYS_ADMIN, _PERFMON = 21, 38  # include/uapi/linux/capability.h
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def no_tracing_for_this_thread() -> Iterator[None]:
    """For a while this thread lacks what the kernel asks for with a tracing program, and has what XDP needs."""
    head = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0), 8)  # _LINUX_CAPABILITY_VERSION_3, this thread
    held = ctypes.create_string_buffer(24)  # effective, permitted, inheritable of 0 to 31, then of 32 to 63
    assert _libc.capget(head, held) == 0
    words = list(struct.unpack("=6I", held.raw))
    words[0] &= ~(1 << _SYS_ADMIN)
    words[3] &= ~(1 << (_PERFMON - 32))
    fewer = ctypes.create_string_buffer(struct.pack("=6I", *words), 24)
    assert _libc.capset(head, fewer) == 0
    try:
        yield
    finally:
        assert _libc.capset(head, held) == 0


@contextmanager
def withheld() -> Iterator[None]:
    """Observers made meanwhile are refused their probes, by the kernel itself."""
    watch = Observer._watch

    def refused(self: Observer, start: Callable[[], Any], without: str) -> Any:
        with no_tracing_for_this_thread():
            return watch(self, start, without)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Observer, "_watch", refused)
        yield


@pytest.fixture
def deaf() -> Iterator[lk.Lab]:
    """client ── server, and no probe."""
    with withheld(), lk.Lab(lk.Topology.pair(), name="test") as made:
        yield made


def udp(lab: lk.Lab, **how: int) -> bytes:
    return bytes(lk.udp(lab["client"], lab["server"], **how))


def generate(lab: lk.Lab, frame: bytes, **how: Any) -> None:
    assert lk.generate(lab["client"]["eth0"], frame, N, **how).sent == N


def with_byte(frame: bytes, at: int, value: int) -> bytes:
    return frame[:at] + bytes([value]) + frame[at + 1 :]


def with_checksum(frame: bytes) -> bytes:
    """The frame with the right checksum in its IPv4 header."""
    header = frame[14:24] + bytes(2) + frame[26:34]
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return frame[:24] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + frame[26:]


def towards(lab: lk.Lab, address: str) -> bytes:
    frame = udp(lab)
    return with_checksum(frame[:30] + socket.inet_aton(address) + frame[34:])


def ran(lab: lk.Lab, host: str, *words: str, given: str = "") -> None:
    done = partial(subprocess.run, words, input=given, text=True, check=True)
    lab[host].run(done)


# ---- What is told by counters: the same names and numbers as with the probes ------------------------------------------

Scenario = Callable[[lk.Lab, lk.ProgramSpec], object]
Both = Callable[..., tuple[lk.Ledger, lk.Ledger]]


@pytest.fixture
def both(verdicts: lk.ProgramSpec) -> Both:
    """Ledgers of one scenario: with the probes, and where the kernel refuses them."""

    def once(scenario: Scenario, topology: lk.Topology, settle_s: float) -> lk.Ledger:
        with lk.Lab(topology, name="test") as lab:
            kept = scenario(lab, verdicts)
            ledger = lab.ledger(settle_s)
            if isinstance(kept, lk.UdpSink):
                kept.close()
            return ledger

    def run(
        scenario: Scenario, topology: lk.Topology | None = None, settle_s: float = 5.0
    ) -> tuple[lk.Ledger, lk.Ledger]:
        seen = once(scenario, topology or lk.Topology.pair(), 5.0)
        with withheld():
            return seen, once(scenario, topology or lk.Topology.pair(), settle_s)

    return run


def attached(function: str, mode: str = "native") -> Scenario:
    def scenario(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
        lab.load(verdicts, function).attach(lab["server"]["eth0"], mode=mode)
        generate(lab, udp(lab))

    return scenario


def tcp_wrong(lab: lk.Lab, _: lk.ProgramSpec) -> None:
    frame = bytes(lk.tcp(lab["client"], lab["server"]))
    generate(lab, with_byte(frame, 50, frame[50] ^ 0xFF))


def icmp_wrong(lab: lk.Lab, _: lk.ProgramSpec) -> None:
    frame = bytes(lk.icmp(lab["client"], lab["server"]))
    generate(lab, with_byte(frame, 36, frame[36] ^ 0xFF))


def tc_drop(lab: lk.Lab, _: lk.ProgramSpec) -> None:
    with lesson.places.tc_drop(lab, lab["server"]["eth0"]):
        generate(lab, udp(lab))
        lab.ledger()  # whoever counts is looked at here first; its count outlives it


def firewall(hook: str, verdict: str) -> Scenario:
    rules = f"table ip t {{ chain c {{ type filter hook {hook} priority raw; udp dport 9999 {verdict}\n }}\n }}"

    def scenario(lab: lk.Lab, _: lk.ProgramSpec) -> None:
        ran(lab, "server", "nft", "-f", "-", given=rules)
        generate(lab, udp(lab))

    return scenario


def wrong_checksum_at_a_socket(lab: lk.Lab, _: lk.ProgramSpec) -> lk.UdpSink:
    sink = lk.UdpSink(lab["server"])
    generate(lab, with_byte(udp(lab), 41, udp(lab)[41] ^ 0xFF))
    return sink


SAME: dict[str, tuple[Scenario, str]] = {
    "no socket": (lambda lab, _: generate(lab, udp(lab)), "NO_SOCKET"),
    "UDP checksum": (lambda lab, _: generate(lab, with_byte(udp(lab), 41, udp(lab)[41] ^ 0xFF)), "UDP_CSUM"),
    "UDP checksum at a socket": (wrong_checksum_at_a_socket, "UDP_CSUM"),
    "TCP checksum": (tcp_wrong, "TCP_CSUM"),
    "ICMP checksum": (icmp_wrong, "ICMP_CSUM"),
    "IP checksum": (lambda lab, _: generate(lab, with_byte(udp(lab), 24, udp(lab)[24] ^ 0xFF)), "IP_CSUM"),
    "no IP header": (lambda lab, _: generate(lab, udp(lab), size=33), "IP_INHDR"),
    "not version 4": (lambda lab, _: generate(lab, with_byte(udp(lab), 14, 0x55)), "IP_INHDR"),
    "wrong options": (lambda lab, _: generate(lab, with_byte(udp(lab), 14, 0x4F)), "IP_INHDR"),
    "length below the header's": (lambda lab, _: generate(lab, with_checksum(with_byte(udp(lab), 17, 10))), "IP_INHDR"),
    "cut short": (lambda lab, _: generate(lab, udp(lab), size=41), "PKT_TOO_SMALL"),
    "no such protocol": (lambda lab, _: generate(lab, with_checksum(with_byte(udp(lab), 23, 253))), "IP_NOPROTO"),
    "not our address": (lambda lab, _: generate(lab, towards(lab, "172.31.9.9")), "IP_INADDRERRORS"),
    "wrong MAC": (lambda lab, _: generate(lab, bytes.fromhex("020000000909") + udp(lab)[6:]), "OTHERHOST"),
    "VLAN tag": (lambda lab, _: generate(lab, bytes(lk.vlan(udp(lab), 10))), "OTHERHOST"),
    "unknown ethertype": (lambda lab, _: generate(lab, udp(lab)[:12] + b"\x88\xb5" + bytes(50)), "UNHANDLED_PROTO"),
    "IPv6": (lambda lab, _: generate(lab, bytes(lk.udp6(lab["client"], lab["server"]))), "IPV6DISABLED"),
    "TC": (tc_drop, "TC_INGRESS"),
    "firewall that counts": (firewall("prerouting", "counter drop"), "NETFILTER_DROP"),
    "firewall that counts, further up": (firewall("input", "counter drop"), "NETFILTER_DROP"),
    "XDP_DROP": (attached("drop"), "XDP_DROP"),
    "XDP_ABORTED": (attached("aborted"), "XDP_ABORTED"),
    "unknown verdict": (attached("strange"), "unknown verdict"),
    "XDP_DROP, uncounted": (attached("silent_drop"), "XDP drop (driver)"),
    "XDP_PASS": (attached("pass"), "NO_SOCKET"),
    "XDP_TX ENXIO": (attached("tx"), "XDP_TX ENXIO"),
    "XDP_DROP, generic": (attached("drop", "generic"), "XDP_DROP"),
    "XDP_ABORTED, generic": (attached("aborted", "generic"), "XDP_ABORTED"),
    "XDP_PASS, generic": (attached("pass", "generic"), "NO_SOCKET"),
    "XDP_TX, generic": (attached("tx", "generic"), "OTHERHOST"),
}


@pytest.mark.parametrize(("scenario", "name"), SAME.values(), ids=SAME)
def test_the_same_name(both: Both, scenario: Scenario, name: str) -> None:
    seen, told = both(scenario)
    for ledger in (seen, told):
        assert ledger.losses == {name: N}, ledger
        assert ledger.unaccounted == 0, ledger
        assert [row.packets for row in ledger.rows if (row.kind, row.where) == ("sent", "client eth0")] == [N]
        assert all(check.agrees for check in ledger.checks), ledger
    assert seen.notes == ()
    if name != "TC_INGRESS":
        assert [row.where for row in seen.rows if row.kind == "loss"] == [
            row.where for row in told.rows if row.kind == "loss"
        ]


def short_lived(lab: lk.Lab, _: lk.ProgramSpec) -> None:
    generate(lab, with_checksum(with_byte(udp(lab), 22, 1)))


def no_route(lab: lk.Lab, _: lk.ProgramSpec) -> None:
    generate(lab, towards(lab, "172.31.9.9"))


def too_big(lab: lk.Lab, _: lk.ProgramSpec) -> None:
    lab["router"].run(partial(subprocess.run, ["ip", "link", "set", "eth1", "mtu", "600"], check=True))
    frame = udp(lab, size=1000)
    generate(lab, with_checksum(with_byte(frame, 20, frame[20] | 0x40)))  # don't fragment


def forbidden(lab: lk.Lab, _: lk.ProgramSpec) -> None:
    rules = "table ip t { chain c { type filter hook forward priority 0; counter drop\n }\n }"
    ran(lab, "router", "nft", "-f", "-", given=rules)
    generate(lab, udp(lab))


@pytest.mark.parametrize(
    ("scenario", "name"),
    [(short_lived, "IP_INHDR"), (no_route, "IP_INNOROUTES"), (too_big, "PKT_TOO_BIG"), (forbidden, "NETFILTER_DROP")],
    ids=["TTL expired", "no route", "larger than the next MTU", "firewall that counts"],
)
def test_the_same_name_at_a_router(both: Both, scenario: Scenario, name: str) -> None:
    for ledger in both(scenario, lk.Topology.router()):
        assert ledger.losses == {name: N}, ledger
        assert ledger.unaccounted == 0, ledger


def test_fragments_joined_and_fragments_without_the_rest(both: Both) -> None:
    def scenario(lab: lk.Lab, _: lk.ProgramSpec) -> lk.UdpSink:
        ran(lab, "server", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ipfrag_time")
        first = udp(lab, size=3000)
        second = first[:18] + b"\x12\x34" + first[20:]  # another datagram, by the identification in its header
        sink = lk.UdpSink(lab["server"])
        for piece in (*lk.fragments(first, 1500), lk.fragments(second, 1500)[0]):
            lk.send_frames(lab["client"]["eth0"], piece, 1)
        # Were the setting not taken, it would be the kernel's default of 30 s: longer than that, to tell the two apart.
        until(lambda: "FRAG_REASM_TIMEOUT" in lab.ledger(0.01).losses, 40.0, lambda: lab.ledger(0.01))
        return sink

    for ledger in both(scenario):
        assert ledger.losses == {"FRAG_REASM_TIMEOUT": 1}, ledger
        assert [row.packets for row in ledger.rows if row.where.startswith("server ") and row.kind == "delivered"] == [
            1,
            2,
        ]
        assert ledger.unaccounted == 0, ledger


def test_what_generic_xdp_gives_to_a_cpu(deaf: lk.Lab) -> None:
    """Nobody sees its queue: what went there is not taken for packets that the host itself sent, nor the other way round."""
    program = deaf.load(lk.compile(path="bpf/to_cpu.c"))
    program.maps["cpus"][0] = 2048
    program.attach(deaf["server"]["eth0"], mode="generic")
    generate(deaf, udp(deaf))
    ledger = deaf.ledger()
    replies = deaf.ledger().delivered  # ICMP tells the client that nobody is at that port
    assert ledger.losses == {"NO_SOCKET": N}, ledger
    assert ledger.sent == N + replies, ledger
    assert ledger.unaccounted == 0, ledger


def test_a_full_socket_buffer(deaf: lk.Lab) -> None:
    with lk.UdpSink(deaf["server"], read=False) as sink:
        generate(deaf, udp(deaf))
        ledger = deaf.ledger()
        assert ledger.in_flight == sink.queued() > 0
        assert ledger.losses == {"SOCKET_RCVBUFF": N - sink.queued()} == {"SOCKET_RCVBUFF": sink.drops}
        assert ledger.unaccounted == 0


def test_what_arrives_is_delivered(deaf: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    deaf.load(verdicts, "pass").attach(deaf["server"]["eth0"])
    with lk.UdpSink(deaf["server"]) as sink:
        generate(deaf, udp(deaf), rate_pps=50_000)
        assert deaf.ledger().delivered == sink.received == N
    assert lk.ping(deaf["client"], deaf["server"], 7).received == 7
    assert lk.tcp_transfer(deaf["client"], deaf["server"], 500_009).intact
    ledger = deaf.ledger(settle_s=5)
    assert ledger.unaccounted == 0, ledger
    assert ledger.lost <= 2  # a last segment may go down with its closed socket


def test_segments_for_a_host_without_a_tcp_socket(both: Both) -> None:
    """SYN there, RST back: neither end has a socket, so all of them are lost, and none is delivered to TCP."""
    for ledger in both(lambda lab, _: generate(lab, bytes(lk.tcp(lab["client"], lab["server"])))):
        assert (ledger.sent, ledger.delivered, ledger.losses) == (2 * N, 0, {"NO_SOCKET": 2 * N}), ledger


def test_what_tcp_refuses_beside_a_socket_is_told_by_the_note(deaf: lk.Lab) -> None:
    """A closed port of a host that has another one open: TCP took the segments, and no counter tells what it did then."""
    with deaf["server"].socket(kind=socket.SOCK_STREAM) as listener:
        listener.bind((deaf["server"].ip, 5001))
        listener.listen()
        generate(deaf, bytes(lk.tcp(deaf["client"], deaf["server"])))
        ledger = deaf.ledger()
    assert (ledger.sent, ledger.delivered, ledger.losses) == (2 * N, N, {"NO_SOCKET": N}), ledger
    assert any("what TCP or ICMP refuses shows as delivered to them" in note for note in ledger.notes)


def test_the_count_of_a_rule_stays_when_the_rule_is_gone(deaf: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    for lost in (N, 2 * N):  # the second table takes the first one's name, and its numbers
        firewall("prerouting", "counter drop")(deaf, verdicts)
        assert deaf.ledger().losses == {"NETFILTER_DROP": lost}
        ran(deaf, "server", "nft", "delete", "table", "ip", "t")
    ledger = deaf.ledger()
    assert (ledger.losses, ledger.unaccounted) == ({"NETFILTER_DROP": 2 * N}, 0)


# ---- What has another name, as no counter tells the reason -------------------------------------------------------------


def test_an_error_that_udp_gives_no_reason_for(both: Both) -> None:
    frame_of = lambda lab: with_byte(with_byte(udp(lab), 39, 4), 38, 0)  # noqa: E731  shorter than a UDP header
    seen, told = both(lambda lab, _: generate(lab, frame_of(lab)))
    assert seen.losses == {"PKT_TOO_SMALL": N}
    assert told.losses == {"UdpInErrors": N}
    assert seen.unaccounted == told.unaccounted == 0


def test_a_redirect_that_is_refused(deaf: lk.Lab) -> None:
    generator = lk.Generator(deaf["client"]["eth0"], udp(deaf), seconds=20).start()
    until(lambda: deaf.ledger(0.01).sent >= N)
    deaf["server"]["eth0"].set_feature("gro", False)
    until(lambda: "redirect refused" in deaf.ledger(0.01).losses)
    report = generator.stop()
    ledger = deaf.ledger()
    taken = deaf["client"]["eth0"].driver_statistics()["tx_queue_0_xdp_xmit"]
    assert ledger.losses == {"NO_SOCKET": taken, "redirect refused": report.sent - taken}
    assert ledger.unaccounted == 0
    assert any("has no reason" in note for note in ledger.notes)


def test_a_redirect_by_a_program_that_is_refused(both: Both) -> None:
    """The peer has neither a program nor GRO: the driver of the interface that redirects counts it, in both modes."""
    redirecting = lk.compile(
        text='#include <uapi/linux/bpf.h>\n#include "common/verdict.h"\nBPF_DEVMAP(out, 1);\n'
        "int away(struct xdp_md *ctx) { return verdict(ctx, out.redirect_map(0, 0)); }\n"
    )

    def scenario(lab: lk.Lab, _: lk.ProgramSpec) -> None:
        program, out = lab.load(redirecting, "away"), lab["router"]["eth1"]
        lab["server"]["eth0"].set_feature("gro", False)
        out.run(partial(program.maps["out"].__setitem__, 0, out.ifindex))
        program.attach(lab["router"]["eth0"])
        generate(lab, udp(lab))

    for ledger, word in zip(both(scenario, lk.Topology.router()), ("EOPNOTSUPP", "refused"), strict=True):
        assert ledger.losses == {f"redirect {word}": N}, ledger
        assert ledger.unaccounted == 0

    def missed(lab: lk.Lab, _: lk.ProgramSpec) -> None:
        lab.load(redirecting, "away").attach(lab["router"]["eth0"])
        generate(lab, udp(lab))

    for ledger in both(missed, lk.Topology.router()):
        assert ledger.losses == {"XDP_ABORTED": N}, ledger
        assert ledger.unaccounted == 0


ELSEWHERE = """\
#include "common/verdict.h"

LAB_CPUMAP(cpus, 2);
LAB_DEVMAP_PROGRAMS(ports, 4);

int to_cpu(struct xdp_md *ctx) { return verdict(ctx, cpus.redirect_map(1, 0)); }
int there(struct xdp_md *ctx) { return verdict(ctx, XDP_DROP); }
int to_port(struct xdp_md *ctx) { return verdict(ctx, ports.redirect_map(0, 0)); }
int to_all(struct xdp_md *ctx) { return verdict(ctx, ports.redirect_map(0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS)); }
"""


def to_another_cpu(queue: int, *, counted: bool) -> Scenario:
    def scenario(lab: lk.Lab, _: lk.ProgramSpec) -> None:
        spec = lk.compile(text=ELSEWHERE)
        program = lab.load(spec, "to_cpu")
        there = lab.load(spec, "there", expected_attach_type=AttachType.XDP_CPUMAP)
        program.maps["cpus"][1] = (queue, there) if counted else queue
        program.attach(lab["server"]["eth0"])
        assert lk.generate(lab["client"]["eth0"], udp(lab), 100_003 if counted else N).sent

    return scenario


def test_another_cpu(both: Both) -> None:
    for ledger in both(to_another_cpu(16_384, counted=False)):
        assert ledger.losses == {"NO_SOCKET": N}, ledger
        assert ledger.unaccounted == 0, ledger


def test_another_cpus_queue_that_is_full(both: Both) -> None:
    for ledger in both(to_another_cpu(1, counted=True)):
        assert {"cpumap XDP_DROP", "cpumap queue full"} <= set(ledger.losses), ledger
        assert ledger.losses.get("cpumap drop", 0) == 0
        assert ledger.lost == 100_003
        assert ledger.unaccounted == 0, ledger


def test_a_program_at_the_way_out(both: Both) -> None:
    def scenario(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
        spec = lk.compile(text=ELSEWHERE)
        program = lab.load(spec, "to_port")
        guard = lab.load(spec, "there", expected_attach_type=AttachType.XDP_DEVMAP)
        program.maps["ports"][0] = lab["router"]["eth1"], guard
        program.attach(lab["router"]["eth0"])
        lab.load(verdicts, "pass").attach(lab["server"]["eth0"])
        generate(lab, udp(lab))

    for ledger in both(scenario, lk.Topology.router()):
        assert ledger.losses == {"devmap XDP_DROP": N}, ledger
        assert ledger.unaccounted == 0, ledger


@pytest.mark.parametrize("peer_up", [True, False])
def test_a_broadcast(both: Both, peer_up: bool) -> None:
    def scenario(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
        program = lab.load(lk.compile(text=ELSEWHERE), "to_all")
        for slot in range(3):
            program.maps["ports"][slot] = lab["client"][f"eth{slot}"]
        program.attach(lab["client"]["eth0"])
        for name in ("server2", "server3"):
            lab.load(verdicts, "drop").attach(lab[name]["eth0"])
        if not peer_up:
            lab["server3"]["eth0"].set_down()
        frame = lk.udp(lab["server1"], lab["client"]["eth0"])
        assert lk.generate(lab["server1"]["eth0"], frame, N).sent == N

    expected = {"XDP_DROP": 2 * N} if peer_up else {"XDP_DROP": N, "redirect ENXIO": N}
    for ledger in both(scenario, lk.Topology.fanout(3)):
        assert (ledger.sent, ledger.copies, ledger.losses) == (N, N, expected), ledger
        assert ledger.unaccounted == 0, ledger


# ---- What no counter tells: unaccounted, and a note ---------------------------------------------------------------------


def impossible_source(lab: lk.Lab, _: lk.ProgramSpec) -> None:
    frame = udp(lab)
    generate(lab, with_checksum(frame[:26] + socket.inet_aton("127.0.0.1") + frame[30:]))


UNTOLD: dict[str, tuple[Scenario, str, str]] = {
    "firewall": (firewall("prerouting", "drop"), "NETFILTER_DROP", "firewall rule"),
    "generic program without a count": (
        attached("silent_drop", "generic"),
        "XDP drop (generic)",
        "generic XDP program",
    ),
    "impossible source": (impossible_source, "IP_LOCALNET", "address"),
}


@pytest.mark.parametrize(("scenario", "name", "noted"), UNTOLD.values(), ids=UNTOLD)
def test_untold(both: Both, scenario: Scenario, name: str, noted: str) -> None:
    seen, told = both(scenario, settle_s=0.2)
    assert seen.losses == {name: N}
    assert seen.unaccounted == 0
    assert (told.sent, told.losses, told.unaccounted, told.in_flight) == (N, {}, N, 0)
    assert any(noted in note for note in told.notes)


def test_a_neighbour_that_never_answers_is_unaccounted_and_not_on_its_way(both: Both) -> None:
    def scenario(lab: lk.Lab, _: lk.ProgramSpec) -> None:
        server = lab["server"]
        ran(lab, "router", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/neigh/eth1/retrans_time_ms")
        generate(lab, towards(lab, server.ip.rpartition(".")[0] + ".77"))
        entry = partial(subprocess.run, ["ip", "neigh"], capture_output=True, text=True, check=True)
        until(lambda: "FAILED" in lab["router"].run(entry).stdout)

    seen, told = both(scenario, lk.Topology.router(), settle_s=0.2)
    assert seen.unaccounted == 0, seen
    assert set(seen.losses) <= {"NEIGH_FAILED", "NEIGH_QUEUEFULL"}
    assert seen.lost == N
    assert (told.losses, told.in_flight) == ({}, 0)
    assert told.unaccounted > 0
    assert any("neighbour" in note for note in told.notes)


def until(condition: Callable[[], object], seconds: float = 20.0, seen: Callable[[], object] = str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain; {seen()}"
        time.sleep(0.005)


# ---- The notes, and what goes on working ----------------------------------------------------------------------------------


def test_the_kernel_really_refuses(deaf: lk.Lab) -> None:
    with no_tracing_for_this_thread(), pytest.raises(PrivilegeError):
        DropWatch([deaf["client"].inode])
    notes = deaf.ledger().notes
    assert len(notes) == 2
    assert not any("instructor" in note for note in notes), "nobody withheld them: this process lacks the privilege"


def test_several_senders_have_one_note_and_no_refused_redirect(deaf: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    """The driver loses some of its own count then: what it did not count is not called refused."""
    deaf.load(verdicts, "drop").attach(deaf["server"]["eth0"])
    for _ in range(2):
        lk.generate(deaf["client"]["eth0"], udp(deaf), 100_003, threads=2)
    ledger = deaf.ledger(settle_s=0.2)
    assert ["several senders" in note for note in ledger.notes].count(True) == 1
    assert set(ledger.losses) <= {"XDP_DROP", "ring full"}


def test_lanes_of_a_race_balance(deaf: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    dropping, server = deaf.load(verdicts, "drop"), deaf["server"]["eth0"]
    lanes: dict[str, Any] = {
        "XDP": lambda: dropping.attach(server),
        "generic": lambda: dropping.attach(server, mode="generic"),
        "TC": lambda: lesson.places.tc_drop(deaf, server),
        "socket": lambda: lk.UdpSink(deaf["server"], read=False),
    }
    found = lesson.race(deaf, lanes, udp(deaf), packets=5_003, runs=2)
    assert found.unaccounted == 0
    assert found["TC"].ledger.losses == {"TC_INGRESS": 5_003}


def test_a_lane_that_loses_packets_namelessly_is_no_lane(deaf: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    lanes = {"silent": lambda: deaf.load(verdicts, "silent_drop").attach(deaf["server"]["eth0"], mode="generic")}
    with pytest.raises(TrafficError, match="'silent', 1,009 of 1,009 packets are unaccounted for"):
        lesson.race(deaf, lanes, udp(deaf), packets=N, runs=1)


def test_without_drop_reasons_costs_nothing_and_counters_go_on(deaf: lk.Lab) -> None:
    with deaf.observer.without_drop_reasons():
        generate(deaf, udp(deaf))
        assert deaf.ledger().losses == {"NO_SOCKET": N}


# ---- In a real sandbox ------------------------------------------------------------------------------------------------------

_SCRIPT = """\
import json
import labkit as lk

with lk.Lab(lk.Topology.pair(), name="inside") as lab:
    client, server = lab["client"], lab["server"]
    frame = bytes(lk.udp(client, server))
    lk.generate(client["eth0"], frame, 1009)
    wrong = bytes.fromhex("020000000909") + frame[6:]
    lk.generate(client["eth0"], wrong, 2003)
    ledger = lab.ledger()
    print(json.dumps({"losses": ledger.losses, "unaccounted": ledger.unaccounted, "notes": ledger.notes}))
"""


@pytest.mark.parametrize("tracing", [True, False])
def test_in_a_sandbox(tracing: bool) -> None:
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    home.chmod(0o777)
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        with open(os.devnull) as nothing, open(home / "out", "wb") as out, open(home / "err", "wb") as err:
            streams = (nothing.fileno(), out.fileno(), err.fileno())
            words = [sys.executable, "-c", _SCRIPT]
            with sandbox.start(
                words, tracing=tracing, streams=streams, environment=environment, directory="/"
            ) as running:
                status = running.wait()
        assert status == 0, (home / "err").read_text()
        found = json.loads((home / "out").read_text())
    finally:
        shutil.rmtree(home)
    assert (found["losses"], found["unaccounted"]) == ({"NO_SOCKET": 1009, "OTHERHOST": 2003}, 0)
    withheld_probes = [note for note in found["notes"] if note.startswith("The instructor withheld tracing programs: ")]
    assert withheld_probes == found["notes"]
    assert len(withheld_probes) == (0 if tracing else 2)
