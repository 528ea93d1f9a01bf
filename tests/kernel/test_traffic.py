"""Traffic of sockets and raw frames: exact counts, each checked against a counter that the sender doesn't keep."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import labkit as lk
from labkit.errors import CaptureError, StateError, TrafficError
from labkit.interface import Interface
from labkit.kernel.mmsg import DatagramBatch
from labkit.observe.protocols import read_protocols
from labkit.traffic import frames
from labkit.traffic.capture import Capture, capture
from labkit.traffic.ping import ping
from labkit.traffic.raw import send_frames
from labkit.traffic.sink import UdpSink
from labkit.traffic.tcp import tcp_transfer
from labkit.traffic.udp import send_udp
from labkit.traffic.waiting import Probe, Waiting, Walk, waiting_in


class Since:
    """Counters of an interface and of its host's protocols, as they grew since this was made."""

    def __init__(self, interface: Interface) -> None:
        self._interface = interface
        self._before = self._read()

    def _read(self) -> dict[str, int]:
        return self._interface.statistics() | self._interface.run(read_protocols)

    def __getitem__(self, name: str) -> int:
        return self._read()[name] - self._before[name]

    def await_(self, name: str, value: int) -> None:
        """The counter reaches ``value``, within a second, and not more."""
        until = time.monotonic() + 1
        while self[name] < value and time.monotonic() < until:
            time.sleep(0.001)
        assert self[name] == value


@pytest.fixture
def near(lab: lk.Lab) -> Interface:
    return lab["client"]["eth0"]


@pytest.fixture
def far(lab: lk.Lab) -> Interface:
    return lab["server"]["eth0"]


def eventfds() -> int:
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:[eventfd]"
        except OSError:
            continue
    return found


@pytest.fixture(autouse=True)
def no_eventfd_left() -> Iterator[None]:
    before = eventfds()
    yield
    assert eventfds() == before


# Frames


def test_frames_are_counted_exactly(near: Interface, far: Interface) -> None:
    sent, arrived = Since(near), Since(far)
    report = send_frames(near, frames.udp(near, far), 10_007)
    assert (report.sent, report.failed, dict(report.failures)) == (10_007, 0, {})
    assert (report.kind, report.interface, report.frame_bytes) == ("frames", "client eth0", 64)
    assert sent["tx_packets"] == 10_007
    arrived.await_("rx_packets", 10_007)
    arrived.await_("UdpNoPorts", 10_007)


def test_several_frames_take_turns(near: Interface, far: Interface) -> None:
    given = [frames.udp(near, far, payload=bytes([number])) for number in range(3)]
    with Capture(far) as seen:
        assert send_frames(near, given).sent == 3
        assert send_frames(near, given, 7).sent == 7
        seen.wait(10)
    assert [frame[42] for frame in seen.frames] == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]


def test_frames_for_another_mac_arrive_but_are_not_taken_in(near: Interface, far: Interface) -> None:
    """RD-05: the interface counts them, IP doesn't."""
    arrived, right = Since(far), frames.udp(near, far)
    wrong = bytes.fromhex("02000000aaaa") + right[6:]
    send_frames(near, wrong, 23)
    arrived.await_("rx_packets", 23)
    assert arrived["IpInReceives"] == 0
    send_frames(near, right, 19)
    arrived.await_("rx_packets", 42)
    arrived.await_("IpInReceives", 19)


def test_a_rate_is_kept(near: Interface, far: Interface) -> None:
    report = send_frames(near, frames.udp(near, far), 997, rate_pps=5000)
    assert report.sent == 997
    assert 0.19 < report.seconds < 2
    assert report.pps < 5300


def test_time_that_is_up_leaves_the_rest_not_tried(near: Interface, far: Interface) -> None:
    sent = Since(near)
    report = send_frames(near, frames.udp(near, far), 1009, rate_pps=100, timeout_s=0.1)
    assert report.sent + report.failed == 1009
    assert report.failures == {"not tried: the time limit of 0.1 s was reached": report.failed}
    assert 5 < report.sent < 100
    assert sent["tx_packets"] == report.sent


def test_the_lab_can_stop_what_sends(lab: lk.Lab, near: Interface, far: Interface) -> None:
    found: list[Any] = []
    frame = frames.udp(near, far)
    sender = threading.Thread(target=lambda: found.append(send_frames(near, frame, 1009, rate_pps=50)))
    sent, until = Since(near), time.monotonic() + 2
    sender.start()
    while sent["tx_packets"] < 3 and time.monotonic() < until:
        time.sleep(0.001)
    lab.traffic.stop()
    sender.join(2)
    assert not sender.is_alive()
    assert found[0].sent + found[0].failures["not tried: the lab stopped its traffic"] == 1009
    assert 3 <= found[0].sent == sent["tx_packets"] < 500
    assert lab.traffic.running == []


def test_refused_frames_are_counted_by_name(near: Interface, far: Interface) -> None:
    """PY-09: the errno says little, the report says it in words."""
    arrived = Since(far)
    given = [frames.udp(near, far, size=1515), frames.udp(near, far), bytes(13)]
    report = send_frames(near, given, 7)
    assert (report.sent, report.failed) == (2, 5)
    assert report.failures == {
        "longer than the MTU of client eth0, 1500 bytes": 3,
        "no Ethernet frame: shorter than its header": 2,
    }
    arrived.await_("rx_packets", 2)


@pytest.mark.parametrize("how", ["frames", "udp"])
@pytest.mark.parametrize(
    ("down", "name"), [("near", "interface client eth0 is down"), ("far", "peer server eth0 is down")]
)
def test_a_link_that_is_down_is_named(near: Interface, far: Interface, how: str, down: str, name: str) -> None:
    """At once, and after the kernel has noticed that the carrier is gone and answers otherwise."""
    {"near": near, "far": far}[down].set_down()
    sent, until = Since(near), time.monotonic() + 1.2
    while time.monotonic() < until:
        report = send_frames(near, frames.udp(near, far), 11) if how == "frames" else send_udp(near.host, far.host, 11)
        assert (report.sent, report.failed, report.failures) == (0, 11, {name: 11})
        time.sleep(0.05)
    assert sent["tx_packets"] == 0
    for each in (near, far):
        each.set_up()
    arrived = Since(far)
    deadline = time.monotonic() + 2
    while send_frames(near, frames.udp(near, far)).sent == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    arrived.await_("rx_packets", 1)


# UDP and sinks


def test_udp_reaches_the_socket_that_reads(lab: lk.Lab, near: Interface, far: Interface) -> None:
    sent, arrived = Since(near), Since(far)
    with UdpSink(far.host) as sink:
        report = send_udp(near.host, far.host, 20_011, size=100)
        assert report.sent == 20_011
        assert sink.wait(20_011) == 20_011
        assert (sink.drops, sink.queued()) == (0, 0)
        assert lab.sinks == [sink]
    assert lab.sinks == []
    assert sent["tx_packets"] == arrived["rx_packets"] == arrived["UdpInDatagrams"] == 20_011
    assert arrived["rx_bytes"] == 20_011 * 100
    assert "20,011 received, closed" in repr(sink)


def test_closing_takes_what_still_waits(near: Interface, far: Interface) -> None:
    with UdpSink(far.host) as sink:
        send_udp(near.host, far.host, 5003)
    assert sink.received == 5003
    sink.close()


def test_a_socket_nobody_reads_fills_up_and_every_datagram_is_found(near: Interface, far: Interface) -> None:
    arrived = Since(far)
    with UdpSink(far.host, read=False) as sink:
        assert send_udp(near.host, far.host, 2003).sent == 2003
        arrived.await_("rx_packets", 2003)
        waiting = sink.queued()
        assert 0 < waiting < 2003
        assert [sink.queued() for _ in range(3)] == [waiting] * 3, "looking takes nothing"
        assert waiting + sink.drops == 2003
        assert arrived["UdpRcvbufErrors"] == sink.drops
        assert arrived["UdpInDatagrams"] == sink.received == 0
        assert sink.drain() == waiting == sink.received
        assert sink.queued() == 0
        assert arrived["UdpInDatagrams"] == waiting


@pytest.mark.parametrize("how", [Probe, Walk])
@pytest.mark.parametrize("sizes", [(42,), (64,), (42, 64), (64, 42), (42, 42, 1514, 43, 42)])
def test_waiting_datagrams_are_counted_whatever_their_size(
    near: Interface, far: Interface, sizes: tuple[int, ...], how: type[Waiting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a probe and by a walk; empty ones too, which a look past them can't see; and again after some were taken."""
    monkeypatch.setattr("labkit.traffic.sink.waiting_in", how)
    with UdpSink(far.host, read=False, receive_buffer=4 << 20) as sink:
        expected = 0
        for count in (97, 1, 101, 0, 3):
            if count:
                send_frames(near, [frames.udp(near, far, size=size) for size in sizes], count)
            expected += count
            until = time.monotonic() + 1
            while sink.queued() < expected and time.monotonic() < until:
                time.sleep(0.001)
            assert sink.queued() == sink.queued() == expected
        assert sink.drops == 0
        whole, sink._batch = sink._batch, DatagramBatch(2)
        assert sink._take() == 2
        sink._batch = whole
        assert sink.queued() == expected - 2
        assert sink.drain() == expected - 2, "the truth: what reading finds"
        send_frames(near, [frames.udp(near, far, size=size) for size in sizes], 7)
        until = time.monotonic() + 1
        while sink.queued() < 7 and time.monotonic() < until:
            time.sleep(0.001)
        assert sink.queued() == 7


def test_a_long_queue_is_counted_at_once(near: Interface, far: Interface) -> None:
    with UdpSink(far.host, read=False, receive_buffer=64 << 20) as sink:
        send_udp(near.host, far.host, 20_011)
        assert sink.queued() == 20_011
        began = time.perf_counter()
        for _ in range(10):
            sink.queued()
        assert time.perf_counter() - began < 1, "and not with the square of the length"
        assert sink.drain() == 20_011


def test_where_no_probe_is_allowed_the_queue_is_walked(
    near: Interface, far: Interface, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with far.host.socket() as queue:
        probe = waiting_in(queue)
        probe.close()
        assert isinstance(probe, Probe), "this kernel has the tracepoint"
    monkeypatch.setattr("labkit.traffic.waiting.Probe", refused)
    with UdpSink(far.host, read=False) as sink:
        send_udp(near.host, far.host, 101)
        assert sink.queued() == 101
        assert isinstance(sink._waiting, Walk)


def test_looking_while_a_reader_takes_loses_nothing(near: Interface, far: Interface) -> None:
    with UdpSink(far.host) as sink:
        looked: list[int] = []
        ended = threading.Event()

        def look() -> None:
            while not ended.is_set():
                looked.append(sink.queued())

        watcher = threading.Thread(target=look)
        watcher.start()
        send_udp(near.host, far.host, 10_007)
        assert sink.wait(10_007) == 10_007
        ended.set()
        watcher.join()
        assert sink.queued() == 0
        assert max(looked) <= 10_007


def test_answers_of_a_closed_port_cost_no_datagram(near: Interface, far: Interface) -> None:
    sent, arrived = Since(near), Since(far)
    report = send_udp(near.host, far.host, 5003, dport=7)
    assert (report.sent, report.failed) == (5003, 0)
    assert sent["tx_packets"] == sent["UdpOutDatagrams"] == 5003
    arrived.await_("UdpNoPorts", 5003)
    assert sent["IcmpInDestUnreachs"] > 0


def test_what_does_not_fit_the_mtu_is_refused_and_not_cut(near: Interface, far: Interface) -> None:
    sent = Since(near)
    report = send_udp(near.host, far.host, 11, size=1515)
    assert report.failures == {"longer than the MTU of client eth0, 1500 bytes": 11}
    assert send_udp(near.host, far.host, 13, size=1514).sent == 13
    assert sent["tx_packets"] == 13


def test_a_taken_port_is_told(lab: lk.Lab, far: Interface) -> None:
    with UdpSink(far.host, 5000):
        with pytest.raises(TrafficError, match=r"Port 5000 of server.*\n.*\n.*EADDRINUSE"):
            UdpSink(far.host, 5000)
        assert len(lab.sinks) == 1
    with UdpSink(far.host, 5000, read=False, receive_buffer=1 << 20) as sink:
        assert sink.receive_buffer == 2 << 20


def test_the_lab_closes_what_was_left_open() -> None:
    with lk.Lab(lk.Topology.pair(), name="open-ends") as lab:
        sink = UdpSink(lab["server"])
        quiet = UdpSink(lab["server"], 10, read=False)
        running = Capture(lab["client"]["eth0"])
        send_udp(lab["client"], lab["server"], 101)
    assert sink.closed
    assert quiet.closed
    assert running.closed
    assert sink.received == 101
    assert (sink.queued(), sink.drain(), sink.receive_buffer, quiet.drops) == (0, 0, 0, 0)


def test_a_fan_has_a_sink_at_every_server() -> None:
    with lk.Lab(lk.Topology.fanout(3), name="fan") as lab:
        for number, count in enumerate((101, 103, 107), start=1):
            server = lab[f"server{number}"]
            arrived = Since(server["eth0"])
            with UdpSink(server) as sink:
                assert send_udp(lab["client"], server, count).interface == f"client eth{number - 1}"
                assert sink.wait(count) == count
            assert arrived["rx_packets"] == count


def test_no_route_is_an_error_of_its_own() -> None:
    with (
        lk.Lab(lk.Topology.fanout(2), name="no-route") as lab,
        pytest.raises(TrafficError, match=r"server1 has no way to 10\.0\.2\.2"),
    ):
        send_udp(lab["server1"], lab["server2"], 1)


def test_udp_and_ping_go_through_a_router() -> None:
    with lk.Lab(lk.Topology.router(), name="routed") as lab:
        client, server = lab["client"], lab["server"]
        arrived = Since(lab["router"]["eth0"])
        with UdpSink(server) as sink:
            send_udp(client, server, 1009)
            assert sink.wait(1009) == 1009
            assert send_frames(client["eth0"], frames.udp(client, server), 13).sent == 13
            assert sink.wait(1022) == 1022, "a built frame is addressed to the router, and goes on"
        assert arrived["rx_packets"] == arrived["IpForwDatagrams"] == 1022
        assert ping(client, server, 3).received == 3


def test_neighbours_and_routes_outlive_a_link_that_went_down() -> None:
    with lk.Lab(lk.Topology.router(), name="down-and-up") as lab:
        for each in lab.interfaces:
            each.set_down()
            each.set_up()
        arrived = Since(lab["server"]["eth0"])
        assert ping(lab["client"], lab["server"], 5).received == 5
        assert arrived["rx_packets"] == 5, "and no ARP among them"


# TCP


@pytest.mark.parametrize("nbytes", [1, 65_537, 1_000_003])
def test_tcp_brings_every_byte_back(near: Interface, far: Interface, nbytes: int) -> None:
    sent = Since(near)
    report = tcp_transfer(near.host, far.host, nbytes)
    assert (report.bytes_sent, report.bytes_echoed, report.intact) == (nbytes, nbytes, True)
    assert report.failed == 0
    assert report.sent == sent["tx_packets"]
    assert report.received == sent["rx_packets"]
    assert "bytes back, intact" in str(report)


def test_tcp_that_meets_a_drop_says_so(lab: lk.Lab, near: Interface, far: Interface, verdicts: lk.ProgramSpec) -> None:
    program = lab.load(verdicts, "drop")
    program.attach(far)
    report = tcp_transfer(near.host, far.host, 1009, timeout_s=0.3)
    assert report.failures == {"no connection: nothing answered": 1}
    assert (report.bytes_echoed, report.intact, report.received) == (0, False, 0)
    assert (program.verdicts() or {})["XDP_DROP"] == report.sent >= 1


def test_a_taken_tcp_port_is_told(near: Interface, far: Interface) -> None:
    with far.host.socket(socket.AF_INET, socket.SOCK_STREAM) as taken:
        taken.bind((far.ip, 5001))
        taken.listen()
        with pytest.raises(TrafficError, match="EADDRINUSE"):
            tcp_transfer(near.host, far.host, 10)
    assert tcp_transfer(near.host, far.host, 10).intact


# Ping


def test_ping_counts_requests_and_answers(near: Interface, far: Interface) -> None:
    here, there = Since(near), Since(far)
    report = ping(near.host, far.host, 17)
    assert (report.sent, report.received, report.failed) == (17, 17, 0)
    assert len(report.rtt_s) == 17
    assert all(0 < each < 1 for each in report.rtt_s)
    assert there["IcmpInEchos"] == here["IcmpInEchoReps"] == 17
    assert here["tx_packets"] == 17
    assert here["tx_bytes"] == 17 * 98


def test_a_long_ping_goes_in_fragments(near: Interface, far: Interface) -> None:
    here, there = Since(near), Since(far)
    assert ping(near.host, far.host, 5, size=4000).received == 5
    assert here["IpFragCreates"] == here["tx_packets"] == 15
    assert there["IpReasmOKs"] == 5


def test_pings_that_are_dropped_are_no_error(
    lab: lk.Lab, near: Interface, far: Interface, verdicts: lk.ProgramSpec
) -> None:
    program = lab.load(verdicts, "drop")
    program.attach(far)
    report = ping(near.host, far.host, 3, timeout_s=0.05)
    assert (report.sent, report.received, report.rtt_s) == (3, 0, ())
    assert (program.verdicts() or {})["XDP_DROP"] == 3


# Capture


def test_a_capture_tells_own_frames_from_received_ones(near: Interface, far: Interface) -> None:
    """PY-09: ten sent out of an interface are not ten received there."""
    with Capture(near) as incoming, Capture(near, direction="out") as outgoing, Capture(near, direction="both") as all_:
        send_frames(near, frames.udp(near, far, dport=7), 11)
        send_frames(far, frames.udp(far, near, dport=7), 13)
        outgoing.wait(11)
        incoming.wait(13)
        until = time.monotonic() + 1
        while len(all_.frames) < len(incoming.frames) + len(outgoing.frames) and time.monotonic() < until:
            time.sleep(0.005)
    udp_in = [frame for frame in incoming.frames if frame[23] == 17]
    udp_out = [frame for frame in outgoing.frames if frame[23] == 17]
    assert (len(udp_in), len(udp_out)) == (13, 11)
    assert not any(frame.outgoing for frame in incoming.frames)
    assert all(frame.outgoing for frame in outgoing.frames)
    assert sum(frame.outgoing for frame in all_.frames) == len(outgoing.frames)
    assert udp_in[0] == frames.udp(far, near, dport=7)
    assert incoming.drops == outgoing.drops == 0


def test_a_capture_shows_vlan_tags_that_the_stack_took_out(near: Interface, far: Interface) -> None:
    """MD-05: the tag is beside the frame, in the socket's auxiliary data."""
    tagged = frames.vlan(frames.udp(near, far), 10, priority=5)
    with Capture(far) as seen:
        send_frames(near, [tagged, frames.vlan(tagged, 20)], 2)
        seen.wait(2)
    assert seen.frames == [tagged, frames.vlan(tagged, 20)]


def test_a_program_sees_the_tag_in_the_frame(lab: lk.Lab, near: Interface, far: Interface) -> None:
    """MD-05: with VLAN offload off on lab links, and always from a packet socket."""
    source = """\
#include <uapi/linux/bpf.h>
#include <uapi/linux/if_ether.h>
#include "common/verdict.h"

int tagged(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;
	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return verdict(ctx, XDP_ABORTED);
	return verdict(ctx, eth->h_proto == htons(ETH_P_8021Q) ? XDP_DROP : XDP_PASS);
}
"""
    program = lab.load(lk.compile(text=source))
    program.attach(far)
    plain = frames.udp(near, far)
    arrived = Since(far)
    assert send_frames(near, [frames.vlan(plain, 10), plain], 23).sent == 23
    arrived.await_("rx_packets", 23)
    until = time.monotonic() + 1
    while sum((program.verdicts() or {}).values()) < 23 and time.monotonic() < until:
        time.sleep(0.001)
    found = program.verdicts() or {}
    assert {name: count for name, count in found.items() if count} == {"XDP_DROP": 12, "XDP_PASS": 11}


def test_a_capture_ends_by_count_or_by_time(near: Interface, far: Interface) -> None:
    began = time.monotonic()
    assert capture(far, seconds=0.05) == []
    assert time.monotonic() - began < 1
    with Capture(far, most=5) as seen:
        send_frames(near, frames.udp(near, far), 11)
        assert seen.wait(5) == 5
    assert len(seen.frames) == 5
    frame = frames.udp(near, far)
    sender = threading.Thread(target=lambda: send_frames(near, frame, 101, rate_pps=100))
    sender.start()
    assert len(capture(far, 7, seconds=5)) == 7
    sender.join()


def test_frames_come_with_the_time_they_came(near: Interface, far: Interface) -> None:
    before = time.time_ns()
    with Capture(far) as seen:
        send_frames(near, frames.udp(near, far), 3)
        seen.wait(3)
    times = [frame.time_ns for frame in seen.frames]
    assert before <= times[0] <= times[1] <= times[2] <= time.time_ns()


# The ledger, and misuse


@pytest.mark.parametrize(
    "send",
    [
        lambda a, b: send_frames(a["eth0"], frames.udp(a, b), 1009),
        lambda a, b: send_udp(a, b, 1009),
        lambda a, b: ping(a, b, 7),
        lambda a, b: tcp_transfer(a, b, 100_003),
    ],
    ids=["frames", "udp", "ping", "tcp"],
)
@pytest.mark.parametrize("read", [None, True, False], ids=["no socket", "read", "not read"])
def test_the_ledger_finds_every_packet(lab: lk.Lab, send: Callable[..., Any], read: bool | None) -> None:
    if read is None:
        send(lab["client"], lab["server"])
        assert lab.ledger().unaccounted == 0
        return
    with UdpSink(lab["server"], read=read):
        send(lab["client"], lab["server"])
        assert lab.ledger().unaccounted == 0
    assert lab.ledger().unaccounted == 0, "and when the socket is closed"


def test_the_ledger_finds_fragments(lab: lk.Lab) -> None:
    ping(lab["client"], lab["server"], 3, size=4000)
    assert lab.ledger().unaccounted == 0


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda c, s: send_frames(c["eth0"], frames.udp(c, s), -1), "packets can't be -1"),
        (lambda c, s: send_frames(c["eth0"], frames.udp(c, s), 0), "packets can't be 0"),
        (lambda c, s: send_frames(c["eth0"], frames.udp(c, s), True), "packets can't be True"),
        (lambda c, s: send_frames(c["eth0"], frames.udp(c, s), 1.5), "packets can't be 1.5"),
        (lambda c, s: send_frames(c["eth0"], frames.udp(c, s), 1, rate_pps=0), "rate_pps can't be 0"),
        (lambda c, s: send_frames(c["eth0"], frames.udp(c, s), 1, timeout_s=-2), "timeout_s can't be -2"),
        (lambda c, s: send_frames(c["eth0"], []), "no frame to send"),
        (lambda c, s: send_frames(c["eth0"], ["text"]), "Not everything given is a frame"),
        (lambda c, s: send_frames(c, frames.udp(c, s)), "is not an interface"),
        (lambda c, s: send_udp(c, s, 0), "packets can't be 0"),
        (lambda c, s: send_udp(c, s, False), "packets can't be False"),
        (lambda c, s: send_udp(c, s, 1, size=41), "size can't be 41"),
        (lambda c, s: send_udp(c, s, 1, size=70_000), "size can't be 70000"),
        (lambda c, s: send_udp(c, s, 1, dport=0), "dport can't be 0"),
        (lambda c, s: send_udp(c, s, 1, rate_pps="fast"), "rate_pps can't be 'fast'"),
        (lambda c, s: send_udp(c, "server", 1), "'server' can't be the destination"),
        (lambda c, s: send_udp(c, c, 1), "both client"),
        (lambda c, s: UdpSink("server"), "is not a host"),
        (lambda c, s: UdpSink(s, 65_536), "port can't be 65536"),
        (lambda c, s: UdpSink(s, receive_buffer=1), "receive_buffer can't be 1"),
        (lambda c, s: ping(c, s, 0), "count can't be 0"),
        (lambda c, s: ping(c, s, size=41), "size can't be 41"),
        (lambda c, s: ping(c, s, interval_s=0), "interval_s can't be 0"),
        (lambda c, s: tcp_transfer(c, s, 0), "nbytes can't be 0"),
        (lambda c, s: tcp_transfer(c, s, 1, port=70_000), "port can't be 70000"),
        (lambda c, s: capture(s["eth0"], 0), "packets can't be 0"),
        (lambda c, s: capture(s["eth0"], seconds=0), "timeout_s can't be 0"),
        (lambda c, s: capture(s, 1), "is not an interface"),
    ],
)
def test_misuse_is_refused_in_words(lab: lk.Lab, ask: Callable[..., Any], message: str) -> None:
    client, server = lab["client"], lab["server"]
    before = client["eth0"].statistics()["tx_packets"]
    with pytest.raises(TrafficError) as caught:
        ask(client, server)
    assert message in str(caught.value)
    assert "tried:" in str(caught.value)
    assert lab.sinks == []
    assert client["eth0"].statistics()["tx_packets"] == before


def test_a_direction_that_is_none_is_refused(far: Interface) -> None:
    with pytest.raises(CaptureError, match="direction can't be 'up'"):
        Capture(far, direction="up")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ask",
    [
        lambda c, s, frame: send_frames(c["eth0"], frame),
        lambda c, s, frame: send_udp(c, s, 1),
        lambda c, s, frame: UdpSink(s),
        lambda c, s, frame: ping(c, s, 1),
        lambda c, s, frame: tcp_transfer(c, s, 1),
        lambda c, s, frame: Capture(s["eth0"]),
    ],
)
def test_a_closed_lab_sends_nothing(ask: Callable[..., Any]) -> None:
    with lk.Lab(lk.Topology.pair(), name="closed") as lab:
        client, server = lab["client"], lab["server"]
        frame = frames.udp(client, server)
    with pytest.raises(StateError, match="closed"):
        ask(client, server, frame)
