"""The redirecting programs of the lessons on the real kernel: every packet found again, by two counters at least."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit.kernel.cpus import possible_cpus
from labkit.observe.protocols import read_protocols
from labkit.program.ring import RingMap
from labkit.uapi import AttachType, ProgType, XdpAction

BPF = Path(__file__).resolve().parents[2] / "bpf"
N, FEW = 1_009, 7  # primes
MODES = ["native", "generic"]
LONGEST_QUEUE = 16_384  # of a CPU map: longer than any test's traffic, so that none of it is lost there

# 3 µs a packet: slower than any sender, so that its ring fills up.
SLOW = """\
#include "common/verdict.h"

int slow(struct xdp_md *ctx)
{
	u64 until = bpf_ktime_get_ns() + 3000;
	int i;

	for (i = 0; i < 1000; i++)
		if (bpf_ktime_get_ns() > until)
			break;
	return verdict(ctx, XDP_DROP);
}
"""


@cache
def compiled(file: str) -> lk.ProgramSpec:
    return lk.compile(path=BPF / file)


@pytest.fixture
def router() -> Iterator[lk.Lab]:
    """client ── router ── server."""
    with lk.Lab(lk.Topology.router(), name="test") as made:
        yield made


@pytest.fixture
def fan() -> Iterator[lk.Lab]:
    """Four servers around the client, which stands in for a switch."""
    with lk.Lab(lk.Topology.fanout(4), name="test") as made:
        yield made


def mac(interface: lk.Interface) -> dict[str, list[int]]:
    """A ``struct mac`` of bpf/common/rewrite.h."""
    return {"bytes": list(bytes.fromhex(interface.mac.replace(":", "")))}


def eventually(read: Callable[[], Any], wanted: Any) -> Any:
    """What ``read`` gives once it is ``wanted``, or after a generous deadline."""
    until = time.monotonic() + 5.0
    while (found := read()) != wanted and time.monotonic() < until:
        time.sleep(0.002)
    return found


def count(program: lk.Program, verdict: str) -> int:
    found = program.verdicts()
    assert found is not None
    return found[verdict]


class Receiver:
    """A program at an interface that counts what arrives there, and the driver's own count beside it."""

    def __init__(self, lab: lk.Lab, interface: lk.Interface, function: str, verdicts: lk.ProgramSpec) -> None:
        self.interface, self.verdict = interface, f"XDP_{function.upper()}"
        self.program = lab.load(verdicts, function)
        self.link = self.program.attach(interface)
        self._before = interface.statistics()["rx_packets"]

    def took(self, wanted: int) -> bool:
        """Whether exactly ``wanted`` packets arrived, by both counters."""
        both = eventually(self._both, (wanted, wanted))
        assert both == (wanted, wanted), f"{self.interface.where}: program, driver"
        return True

    def _both(self) -> tuple[int, int]:
        driver = self.interface.statistics()["rx_packets"] - self._before
        return count(self.program, self.verdict), driver


@pytest.mark.parametrize("mode", MODES)
def test_redirect_ifindex(router: lk.Lab, verdicts: lk.ProgramSpec, mode: str) -> None:
    middle = router["router"]
    receiver = Receiver(router, router["server"]["eth0"], "drop", verdicts)
    program = router.load(compiled("redirect_ifindex.c"))
    program.maps["out"][0] = middle["eth1"].ifindex
    program.attach(middle["eth0"], mode=mode)
    lk.send_frames(router["client"]["eth0"], lk.udp(router["client"], router["server"]), N)
    assert receiver.took(N)
    assert count(program, "XDP_REDIRECT") == N


@pytest.mark.parametrize("mode", MODES)
def test_redirect_devmap_reaches_the_next_hops_stack(router: lk.Lab, verdicts: lk.ProgramSpec, mode: str) -> None:
    client, middle, server = router["client"], router["router"], router["server"]
    receiver = Receiver(router, server["eth0"], "pass", verdicts)
    program = router.load(compiled("redirect_devmap.c"))
    program.maps["ports"][3] = middle["eth1"]
    program.maps["next_hop"][3] = mac(server["eth0"])
    program.maps["choice"][0] = {"slot": 3}
    program.attach(middle["eth0"], mode=mode)
    with lk.UdpSink(server) as sink:
        lk.send_frames(client["eth0"], lk.udp(client, server), N)
        assert sink.wait(N) == N
    assert receiver.took(N)
    assert count(program, "XDP_REDIRECT") == N


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("miss", [XdpAction.ABORTED, XdpAction.DROP, XdpAction.PASS])
def test_redirect_devmap_misses_as_its_flags_say(router: lk.Lab, mode: str, miss: XdpAction) -> None:
    client, middle, server = router["client"], router["router"], router["server"]
    program = router.load(compiled("redirect_devmap.c"))
    program.maps["choice"][0] = {"slot": 5, "miss": miss}
    program.attach(middle["eth0"], mode=mode)
    with lk.UdpSink(server) as sink:
        lk.send_frames(client["eth0"], lk.udp(client, server), N)
        delivered = N if miss == XdpAction.PASS else 0  # the kernel of the host in the middle forwards what passes
        assert sink.wait(delivered) == delivered
        assert eventually(lambda: count(program, f"XDP_{miss.name}"), N) == N
        assert sink.received == delivered
    if mode == "native":
        assert middle["eth0"].driver_statistics()["rx_queue_0_xdp_drops"] == N - delivered


@pytest.mark.parametrize("mode", MODES)
def test_broadcast_has_no_echo(fan: lk.Lab, verdicts: lk.ProgramSpec, mode: str) -> None:
    switch, servers = fan["client"], [fan[f"server{i}"]["eth0"] for i in (1, 2, 3, 4)]
    receivers = [Receiver(fan, each, "drop", verdicts) for each in servers]
    program = fan.load(compiled("broadcast.c"))
    for slot, port in enumerate(switch.interfaces.values()):
        program.maps["ports"][slot] = port
    program.attach(switch["eth0"], mode=mode)
    lk.send_frames(servers[0], lk.udp(servers[0], switch["eth0"]), N)
    assert [each.took(wanted) for each, wanted in zip(receivers, (0, N, N, N), strict=True)]
    assert count(program, "XDP_REDIRECT") == N


def test_broadcast_says_nothing_of_a_peer_that_can_not_receive(fan: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    """In native mode the kernel leaves it out: no error, no drop, not even a tracepoint."""
    switch, servers = fan["client"], [fan[f"server{i}"]["eth0"] for i in (1, 2, 3, 4)]
    receivers = [Receiver(fan, each, "drop", verdicts) for each in servers]
    receivers[2].link.close()
    program = fan.load(compiled("broadcast.c"))
    for slot, port in enumerate(switch.interfaces.values()):
        program.maps["ports"][slot] = port
    program.attach(switch["eth0"])
    lk.send_frames(servers[0], lk.udp(servers[0], switch["eth0"]), N)
    assert [each.took(wanted) for each, wanted in zip(receivers, (0, N, 0, N), strict=True)]
    assert count(program, "XDP_REDIRECT") == N
    assert switch["eth0"].driver_statistics()["rx_queue_0_drops"] == 0
    assert switch["eth2"].statistics()["tx_dropped"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_egress_decides_at_the_way_out(router: lk.Lab, verdicts: lk.ProgramSpec, mode: str) -> None:
    client, middle, server = router["client"], router["router"], router["server"]
    receiver = Receiver(router, server["eth0"], "pass", verdicts)
    spec = compiled("egress.c")
    program = router.load(spec, "to_port")
    egress = router.load(spec, "egress", maps=program.maps, expected_attach_type=AttachType.XDP_DEVMAP)
    egress.maps["leaving"][0] = {"least_bytes": 60, "closed_port": 7777, "source": mac(middle["eth1"])}
    program.maps["ports"][0] = middle["eth1"], egress
    assert program.maps["ports"][0] == {"ifindex": middle["eth1"].ifindex, "id": egress.id}
    program.attach(middle["eth0"], mode=mode)
    short, closed = 101, 103
    with lk.Capture(server["eth0"]) as capture:
        lk.send_frames(client["eth0"], lk.udp(client, server, size=59), short)
        lk.send_frames(client["eth0"], lk.udp(client, server, size=64, dport=7777), closed)
        lk.send_frames(client["eth0"], lk.udp(client, server, size=60), N)
        assert receiver.took(N)
        capture.wait(N, 5.0)
    assert {frame[6:12].hex(":") for frame in capture.frames} == {middle["eth1"].mac}
    assert len(capture.frames) == N
    assert count(program, "XDP_REDIRECT") == N + short + closed, "the first program knows nothing of it"
    assert (count(egress, "XDP_PASS"), count(egress, "XDP_DROP")) == (N, short + closed)


@pytest.mark.parametrize("mode", MODES)
def test_tx_back(lab: lk.Lab, verdicts: lk.ProgramSpec, mode: str) -> None:
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    receiver = Receiver(lab, client, "pass", verdicts)
    program = lab.load(compiled("tx_back.c"))
    program.attach(server, mode=mode)
    with lk.Capture(client) as capture:
        lk.send_frames(client, lk.udp(client, server), N)
        assert receiver.took(N)
        capture.wait(N, 5.0)
    ends = {(frame[0:6].hex(":"), frame[6:12].hex(":")) for frame in capture.frames}
    assert ends == {(client.mac, server.mac)}
    assert count(program, "XDP_TX") == N


def spread(lab: lk.Lab, mode: str, action: XdpAction) -> tuple[lk.Program, lk.Program]:
    """spread_cpus at the server over every CPU, with on_cpu on each."""
    program = lab.load(compiled("spread_cpus.c"))
    on_cpu = lab.load(compiled("on_cpu.c"), expected_attach_type=AttachType.XDP_CPUMAP)
    on_cpu.maps["action"][0] = action
    for cpu in range(possible_cpus()):
        program.maps["cpus"][cpu] = {"qsize": LONGEST_QUEUE, "fd": on_cpu}
    program.maps["cpus_in_use"][0] = possible_cpus()
    program.attach(lab["server"]["eth0"], mode=mode)
    return program, on_cpu


@pytest.mark.parametrize("mode", MODES)
def test_spread_cpus_by_flow(lab: lk.Lab, mode: str) -> None:
    """What was meant for a CPU ran there, whichever it was; many flows go to all of them, one to one."""
    client, server = lab["client"], lab["server"]
    program, on_cpu = spread(lab, mode, XdpAction.DROP)
    flows = [lk.udp(client, server, sport=10_000 + i) for i in range(61)]
    for frame in flows:
        lk.send_frames(client["eth0"], frame, FEW)
    total = FEW * len(flows)
    assert eventually(lambda: count(on_cpu, "XDP_DROP"), total) == total
    assert count(program, "XDP_REDIRECT") == total
    meant = [program.maps["packets_to_cpu"][cpu] for cpu in range(possible_cpus())]
    assert on_cpu.maps["verdicts"].per_cpu(XdpAction.DROP) == meant
    assert all(packets and packets % FEW == 0 for packets in meant)


@pytest.mark.parametrize("mode", MODES)
def test_on_cpu_passes(lab: lk.Lab, mode: str) -> None:
    client, server = lab["client"], lab["server"]
    program, on_cpu = spread(lab, mode, XdpAction.PASS)
    with lk.UdpSink(server) as sink:
        lk.send_frames(client["eth0"], lk.udp(client, server), N)
        assert sink.wait(N) == N
    assert count(program, "XDP_REDIRECT") == count(on_cpu, "XDP_PASS") == N


@pytest.mark.parametrize("mode", MODES)
def test_on_cpu_redirects(lab: lk.Lab, verdicts: lk.ProgramSpec, mode: str) -> None:
    client, server = lab["client"], lab["server"]
    receiver = Receiver(lab, client["eth0"], "drop", verdicts)
    program, on_cpu = spread(lab, mode, XdpAction.REDIRECT)
    on_cpu.maps["ports"][0] = server["eth0"]
    lk.send_frames(client["eth0"], lk.udp(client, server), N)
    assert receiver.took(N)
    assert count(program, "XDP_REDIRECT") == count(on_cpu, "XDP_REDIRECT") == N


def holding(lab: lk.Lab, hold_ns: int) -> tuple[lk.Program, lk.Program]:
    """hold_back at the router's eth0, towards eth1, and its watch at the tracepoint."""
    middle, spec = lab["router"], compiled("hold_back.c")
    program = lab.load(spec, "hold_back")
    watch = lab.load(spec, "see_drops", maps=program.maps, type=ProgType.RAW_TRACEPOINT)
    program.maps["ports"][0] = middle["eth1"]
    watch.maps["watched"][{"netns": middle.inode, "ifindex": middle["eth1"].ifindex}] = 1
    watch.maps["hold_ns"][0] = hold_ns
    watch.watch("xdp_devmap_xmit")
    program.attach(middle["eth0"])
    return program, watch


def test_hold_back_counts_what_the_driver_counts(router: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    client, middle, server = router["client"], router["router"], router["server"]
    receiver = Receiver(router, server["eth0"], "drop", verdicts)
    program, watch = holding(router, 0)
    lk.generate(client["eth0"], lk.udp(client, server), N)
    assert receiver.took(N)
    assert watch.maps["taken"][0] == {"sent": N, "dropped": 0}
    assert count(program, "XDP_REDIRECT") == N
    server["eth0"].set_down()
    lk.generate(client["eth0"], lk.udp(client, server), N)
    taken = {"sent": N, "dropped": N}
    assert eventually(lambda: watch.maps["taken"][0], taken) == taken
    assert middle["eth1"].statistics()["tx_dropped"] == N


def test_hold_back_drops_early_once_it_has_seen_a_loss(router: lk.Lab) -> None:
    client, middle, server = router["client"], router["router"], router["server"]
    router.load(lk.compile(text=SLOW)).attach(server["eth0"])
    program, watch = holding(router, 1_000_000)
    sent, until = 0, time.monotonic() + 20.0
    while not count(program, "XDP_DROP") and time.monotonic() < until:
        other = lk.Generator(middle["eth1"], lk.udp(middle, server), 5_003)
        other.start()  # keeps the slow receiver busy, on a CPU of its own
        sent += lk.generate(client["eth0"], lk.udp(client, server), 5_003).sent
        other.wait()
    seen = eventually(lambda: count(program, "XDP_DROP") + count(program, "XDP_REDIRECT"), sent)
    assert seen == sent
    early = count(program, "XDP_DROP")
    assert early > 0
    assert middle["eth0"].driver_statistics()["rx_queue_0_xdp_drops"] == early
    assert watch.maps["taken"][0]["dropped"] > 0


def test_hold_back_is_bounded(router: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    """Whatever is asked for, a loss closes the road for 10 ms at the most."""
    client, server = router["client"], router["server"]
    program, watch = holding(router, 1 << 62)
    server["eth0"].set_feature("gro", True)
    server["eth0"].set_down()
    lk.generate(client["eth0"], lk.udp(client, server), FEW)
    assert eventually(lambda: watch.maps["until_ns"][0] > 0, True)
    assert watch.maps["until_ns"][0] <= time.monotonic_ns() + 10_000_000
    lost = eventually(lambda: watch.maps["taken"][0]["dropped"] - count(program, "XDP_REDIRECT"), 0)
    assert lost == 0
    assert count(program, "XDP_REDIRECT") > 0


@pytest.fixture
def routed(router: lk.Lab, verdicts: lk.ProgramSpec) -> Callable[[str], list[lk.Program]]:
    """router.c at both interfaces of the host in the middle, which share their map of ports."""

    def start(mode: str) -> list[lk.Program]:
        for end in (router["client"]["eth0"], router["server"]["eth0"]):
            router.load(verdicts, "pass").attach(end)
        ports = list(router["router"].interfaces.values())
        first = router.load(compiled("router.c"))
        programs = [first, router.load(compiled("router.c"), maps=first.maps)]
        for port, program in zip(ports, programs, strict=True):
            first.maps["ports"][port.ifindex] = port
            program.attach(port, mode=mode)
        return programs

    return start


def forwarded_by_the_stack(lab: lk.Lab) -> int:
    return lab["router"].run(read_protocols)["IpForwDatagrams"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("there", [("client", "server"), ("server", "client")], ids="->".join)
def test_router_forwards_both_ways(
    router: lk.Lab, routed: Callable[[str], list[lk.Program]], mode: str, there: tuple[str, str]
) -> None:
    programs = routed(mode)
    sender, receiver = router[there[0]], router[there[1]]
    assert lk.ping(sender, receiver, FEW).received == FEW
    with lk.UdpSink(receiver) as sink:
        assert lk.send_udp(sender, receiver, N).sent == N
        assert sink.wait(N) == N
    assert lk.tcp_transfer(sender, receiver, 1_000_003).intact
    redirected = sum(count(program, "XDP_REDIRECT") for program in programs)
    assert programs[0].maps["answers"][0] == redirected
    assert redirected >= 2 * FEW + N
    assert sum(count(program, "XDP_PASS") for program in programs) == 0
    assert forwarded_by_the_stack(router) == 0, "the stack had nothing to do"


@pytest.mark.parametrize("mode", MODES)
def test_router_rewrites_what_a_router_rewrites(
    router: lk.Lab, routed: Callable[[str], list[lk.Program]], mode: str
) -> None:
    client, middle, server = router["client"], router["router"], router["server"]
    routed(mode)
    checksums = set()
    with lk.Capture(server["eth0"]) as capture:
        for ttl in (2, 64, 255):
            lk.send_frames(client["eth0"], lk.udp(client, server, ttl=ttl), FEW)
        capture.wait(3 * FEW, 5.0)
    for frame in capture.frames:
        assert (frame[0:6].hex(":"), frame[6:12].hex(":")) == (server["eth0"].mac, middle["eth1"].mac)
        words = sum(struct.unpack("!10H", frame[14:34]))
        assert words % 0xFFFF == 0, "the header's checksum is right"
        checksums.add((frame[22], frame[24:26]))
    assert sorted(ttl for ttl, _ in checksums) == [1, 63, 254]
    assert len(capture.frames) == 3 * FEW


@pytest.mark.parametrize("mode", MODES)
def test_router_leaves_an_expired_ttl_to_the_stack(
    router: lk.Lab, routed: Callable[[str], list[lk.Program]], mode: str
) -> None:
    client, server = router["client"], router["server"]
    programs = routed(mode)
    few = 5  # the kernel answers six of a kind at once, then one a second (icmp_ratelimit)
    with lk.Capture(client["eth0"]) as capture:
        lk.send_frames(client["eth0"], lk.udp(client, server, ttl=1), few)
        capture.wait(few, 5.0)
    assert [(frame[34], frame[35]) for frame in capture.frames] == [(11, 0)] * few, "ICMP time exceeded, in transit"
    assert count(programs[0], "XDP_PASS") == few
    assert sum(programs[0].maps["answers"].read().values()) == count(programs[1], "XDP_REDIRECT") == 0


@pytest.mark.parametrize("mode", MODES)
def test_router_leaves_what_it_can_not_do_to_the_stack(
    router: lk.Lab, routed: Callable[[str], list[lk.Program]], mode: str
) -> None:
    """Too large for the next link, no such port in the map, for the router itself."""
    client, middle, server = router["client"], router["router"], router["server"]
    programs = routed(mode)
    middle["eth1"].set_mtu(1000)
    with lk.UdpSink(server) as sink:
        lk.send_frames(client["eth0"], lk.udp(client, server, size=1200), FEW)
        assert sink.wait(FEW) == FEW, "put together again from the stack's fragments"
    assert programs[0].maps["answers"][8] == FEW, "BPF_FIB_LKUP_RET_FRAG_NEEDED"
    middle["eth1"].set_mtu(1500)
    del programs[0].maps["ports"][middle["eth1"].ifindex]
    assert lk.ping(client, server, FEW).received == FEW
    assert lk.ping(client, middle["eth0"], FEW).received == FEW
    assert count(programs[0], "XDP_PASS") == 3 * FEW
    assert count(programs[0], "XDP_REDIRECT") == 0


@pytest.fixture
def watched(router: lk.Lab, verdicts: lk.ProgramSpec) -> Callable[[str], tuple[lk.Program, Receiver]]:
    """A redirect by a map, and a program that watches that map."""

    def start(file: str) -> tuple[lk.Program, Receiver]:
        receiver = Receiver(router, router["server"]["eth0"], "drop", verdicts)
        program = router.load(compiled("redirect_devmap.c"))
        program.maps["ports"][0] = router["router"]["eth1"]
        program.attach(router["router"]["eth0"])
        watch = router.load(compiled(file), type=ProgType.RAW_TRACEPOINT)
        watch.maps["watched_map"][0] = program.maps["ports"].id
        return watch, receiver

    return start


def test_per_packet_watch_counts_one_map(router: lk.Lab, watched: Callable[[str], tuple[lk.Program, Receiver]]) -> None:
    client, server = router["client"], router["server"]
    watch, receiver = watched("per_packet_watch.c")
    with watch.watch("xdp_redirect") as running:
        lk.generate(client["eth0"], lk.udp(client, server), N)  # redirects too, by a map of its own
        assert receiver.took(N)
        assert watch.maps["redirected"][0] == N
    assert running.closed
    lk.generate(client["eth0"], lk.udp(client, server), N)
    assert receiver.took(2 * N)
    assert watch.maps["redirected"][0] == N


def test_log_watch_writes_a_line_a_packet(
    router: lk.Lab, watched: Callable[[str], tuple[lk.Program, Receiver]]
) -> None:
    client, server = router["client"], router["server"]
    watch, receiver = watched("log_watch.c")
    journal = watch.maps["journal"]
    assert isinstance(journal, RingMap)
    assert journal.drain() == []
    many = 20_011  # more than it holds: a line takes 24 of its 262,144 bytes
    with watch.watch("xdp_redirect"):
        for _ in range(3):  # so that it goes round
            lk.send_frames(client["eth0"], lk.udp(client, server), N)
            assert eventually(lambda: watch.maps["lines"][0] % N, 0) == 0
            lines = [struct.unpack("=QII", line) for line in journal.drain()]
            assert len(lines) == N
            assert {index for _, index, _ in lines} == {0}
            assert {cpu for _, _, cpu in lines} <= set(range(possible_cpus()))
        lk.generate(client["eth0"], lk.udp(client, server), many)
        assert receiver.took(3 * N + many)
    kept = len(journal.drain())
    assert watch.maps["lines"][0] == 3 * N + kept
    assert watch.maps["lines"][1] == many - kept > 0
    with pytest.raises(lk.MapError, match=r"drain\(\)"):
        journal[0]


def test_watch_names_what_is_wrong(router: lk.Lab) -> None:
    watch = router.load(compiled("per_packet_watch.c"), type=ProgType.RAW_TRACEPOINT)
    with pytest.raises(lk.FeatureError, match="no tracepoint xdp_redirect_map"):
        watch.watch("xdp_redirect_map")
    with pytest.raises(lk.AttachError, match="arguments beyond"):
        watch.watch("xdp_exception")  # has three arguments, the program reads the sixth
    with pytest.raises(lk.AttachError, match="RAW_TRACEPOINT"):
        router.load(compiled("pass.c")).watch("xdp_redirect")
