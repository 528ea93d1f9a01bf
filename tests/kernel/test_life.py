"""One packet's life: its stations in order, its end, and what is no part of it."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import labkit as lk
from labkit.kernel import bpf
from labkit.observe.life import marked
from labkit.observe.life_probes import TRACEPOINTS, LifeProbes
from labkit.uapi import AttachType

# To the interface in slot 0, addressed to the server's end of the second link as a router would; to a CPU.
REDIRECT = """\
#include "common/parse.h"
#include "common/verdict.h"

LAB_DEVMAP(out, 1);
LAB_CPUMAP(cpus, 64);
BPF_ARRAY(cpu, u32, 1);

int redirect(struct xdp_md *ctx) { return verdict(ctx, out.redirect_map(0, 0)); }

int to_server(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);

	if (!eth)
		return verdict(ctx, XDP_ABORTED);
	eth->h_dest[4] = 2;
	eth->h_dest[5] = 2;
	return verdict(ctx, out.redirect_map(0, 0));
}

int to_cpu(struct xdp_md *ctx)
{
	u32 zero = 0, *chosen = cpu.lookup(&zero);

	return verdict(ctx, chosen ? cpus.redirect_map(*chosen, 0) : XDP_ABORTED);
}
"""
GENERATED = ["xdp_redirect", "xdp_devmap_xmit"]
BY_SOCKET = ["net_dev_queue", "net_dev_start_xmit"]
ORIGIN = {"generator": GENERATED, "socket": BY_SOCKET}
ORIGINS = pytest.mark.parametrize("how", ["generator", "socket"])
# What the machine may do a little earlier or later, or not at all.
BESIDE = ("napi_poll", "consume_skb", "sock_recv_length", "netif_rx", "napi_gro_receive_entry")


@pytest.fixture(scope="module")
def redirects() -> lk.ProgramSpec:
    return lk.compile(text=REDIRECT)


@pytest.fixture
def router() -> Iterator[lk.Lab]:
    with lk.Lab(lk.Topology.router(), name="test") as made:
        yield made


def way(life: lk.Life) -> list[str]:
    """The steps of the packet itself, without what is beside its way."""
    return [each.what for each in life.events if each.what not in BESIDE]


def check_times(life: lk.Life) -> None:
    times = [each.time_ns for each in life.events if each.time_ns is not None]
    assert times[0] == 0
    assert times == sorted(times)
    assert all((each.time_ns is None) == (each.what == "xdp_verdict") == (each.cpu is None) for each in life.events)


@ORIGINS
@pytest.mark.parametrize("mode", ["native", "generic"])
def test_a_packet_that_a_program_drops(lab: lk.Lab, verdicts: lk.ProgramSpec, how: str, mode: str) -> None:
    client, server = lab["client"], lab["server"]
    program = lab.load(verdicts, "drop")
    program.attach(server["eth0"], mode=mode)
    life = lk.life(lab, lk.udp(client, server), via=client["eth0"], how=how)
    check_times(life)
    counts = program.verdicts()
    assert counts is not None
    assert counts["XDP_DROP"] == 1, "one packet was sent, and no other"
    assert life.end == "dropped by the program"
    freed = ["kfree_skb"] if mode == "generic" or how == "socket" else []
    assert way(life) == [*ORIGIN[how], *["netif_receive_skb"] * (mode == "generic"), "xdp_verdict", *freed]
    verdict = next(each for each in life.events if each.what == "xdp_verdict")
    assert (verdict.where, verdict.detail["verdict"]) == ("server eth0", "XDP_DROP")
    assert "no event" in verdict.says
    assert not life.answer
    assert not life.notes


@ORIGINS
def test_a_program_that_keeps_no_count(lab: lk.Lab, verdicts: lk.ProgramSpec, how: str) -> None:
    client, server = lab["client"], lab["server"]
    lab.load(verdicts, "silent_drop").attach(server["eth0"])
    life = lk.life(lab, lk.udp(client, server), via=client["eth0"], how=how)
    assert life.end == "dropped by the program"
    assert "the driver's count" in next(each.says for each in life.events if each.what == "xdp_verdict")


@ORIGINS
@pytest.mark.parametrize("mode", ["native", "generic"])
def test_a_packet_that_reaches_a_socket(lab: lk.Lab, verdicts: lk.ProgramSpec, how: str, mode: str) -> None:
    client, server = lab["client"], lab["server"]
    lab.load(verdicts, "pass").attach(server["eth0"], mode=mode)
    with lk.UdpSink(server, read=False) as sink:
        life = lk.life(lab, lk.udp(client, server), via=client["eth0"], how=how)
        assert sink.drain() == 1, "its checksum is right though the payload is marked"
    check_times(life)
    passed = ["xdp_verdict", "netif_receive_skb"] if mode == "native" else ["netif_receive_skb", "xdp_verdict"]
    assert way(life) == [*ORIGIN[how], *passed, "sk_data_ready"]
    assert life.end == "delivered to a socket"
    ready = next(each for each in life.events if each.what == "sk_data_ready")
    assert (ready.host, ready.detail["port"]) == ("server", 9999)


def test_a_process_reads_it(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    with lk.UdpSink(server, read=False) as sink:
        lk.life(lab, lk.udp(client, server), via=client["eth0"])
        assert sink.drain() == 1
    with lk.UdpSink(server) as sink:
        life = lk.life(lab, lk.udp(client, server, payload=bytes(23)), via=client["eth0"], how="socket")
        assert sink.wait(1) == 1
    assert life.end == "delivered to a socket"
    assert [each.detail["bytes"] for each in life.events if each.what == "sock_recv_length"] in ([23], [])


@ORIGINS
def test_a_closed_port_answers(lab: lk.Lab, how: str) -> None:
    client, server = lab["client"], lab["server"]
    life = lk.life(lab, lk.udp(client, server), via=client["eth0"], how=how)
    check_times(life)
    assert way(life) == [*ORIGIN[how], "netif_receive_skb", "icmp_send", "kfree_skb"]
    assert life.end == "dropped: NO_SOCKET"
    answer = [each.what for each in life.answer if each.what not in BESIDE]
    assert answer == ["net_dev_queue", "net_dev_start_xmit", "netif_receive_skb"]
    assert {each.host for each in life.answer[:2]} == {"server"}
    assert life.answer[-1].host == "client"


@ORIGINS
def test_an_echo_is_no_way_back_of_the_request(lab: lk.Lab, how: str) -> None:
    """The reply carries the request's payload, and all the bytes the packet is known by."""
    client, server = lab["client"], lab["server"]
    life = lk.life(lab, lk.icmp(client, server, payload=os.urandom(29)), via=client["eth0"], how=how)
    assert life.end == "taken by server's stack"
    assert {each.host for each in life.events} == {"client", "server"}
    assert life.events[-1].host == "server"
    assert life.answer[-1].host == "client"


def test_a_reset_is_an_answer(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    life = lk.life(lab, lk.tcp(client, server), via=client["eth0"])
    assert way(life) == [*GENERATED, "netif_receive_skb", "tcp_send_reset", "kfree_skb"]
    assert life.end == "dropped: NO_SOCKET"
    assert life.answer


@ORIGINS
def test_a_wrong_address(lab: lk.Lab, how: str) -> None:
    client, server = lab["client"], lab["server"]
    wrong = bytes.fromhex("020000000909") + lk.udp(client, server)[6:]
    life = lk.life(lab, wrong, via=client["eth0"], how=how)
    assert way(life) == [*ORIGIN[how], "netif_receive_skb", "kfree_skb"]
    assert life.end == "dropped: OTHERHOST"
    assert not life.answer


def aimed(lab: lk.Lab, spec: lk.ProgramSpec, function: str) -> lk.Program:
    program, out = lab.load(spec, function), lab["router"]["eth1"]
    out.run(partial(program.maps["out"].__setitem__, 0, out.ifindex))
    return program


@ORIGINS
@pytest.mark.parametrize("receiver", [False, True])
def test_a_redirect_and_the_program_at_its_end(
    router: lk.Lab, redirects: lk.ProgramSpec, verdicts: lk.ProgramSpec, how: str, receiver: bool
) -> None:
    client, server = router["client"], router["server"]
    aimed(router, redirects, "to_server").attach(router["router"]["eth0"])
    if receiver:
        router.load(verdicts, "pass").attach(server["eth0"])
    with lk.UdpSink(server, read=False):
        life = lk.life(router, lk.udp(client, server), via=client["eth0"], how=how)
    check_times(life)
    if receiver:
        passed = ["xdp_redirect", "xdp_devmap_xmit", "xdp_verdict", "netif_receive_skb", "sk_data_ready"]
        assert way(life) == [*ORIGIN[how], *passed]
        assert life.end == "delivered to a socket"
        redirect = next(each for each in life.events if each.what == "xdp_redirect" and each.host == "router")
        assert (redirect.interface, redirect.detail["to"], redirect.detail["map"]) == ("eth0", "router eth1", "devmap")
    else:
        assert way(life) == [*ORIGIN[how], "xdp_redirect_err"]
        assert life.end == "redirect refused: EOPNOTSUPP"
        assert "(-95)" in next(each.says for each in life.events if each.what == "xdp_redirect_err")


def test_the_kernel_forwards_it(router: lk.Lab) -> None:
    client, server = router["client"], router["server"]
    with lk.UdpSink(server, read=False):
        life = lk.life(router, lk.udp(client, server), via=client["eth0"])
    assert way(life) == [*GENERATED, "netif_receive_skb", *BY_SOCKET, "netif_receive_skb", "sk_data_ready"]
    assert not life.answer, "what a router sends on is the packet, no answer to it"


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_an_empty_slot_aborts(lab: lk.Lab, redirects: lk.ProgramSpec, mode: str) -> None:
    client, server = lab["client"], lab["server"]
    lab.load(redirects, "redirect").attach(server["eth0"], mode=mode)
    life = lk.life(lab, lk.udp(client, server), via=client["eth0"])
    assert life.end == "aborted by the program"
    exception = next(each for each in life.events if each.what == "xdp_exception")
    assert exception.where == "server eth0"
    assert exception.time_ns is not None
    assert "xdp_verdict" not in way(life), "the exception has told it already"


def test_a_number_that_is_no_verdict(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    client, server = lab["client"], lab["server"]
    lab.load(verdicts, "strange").attach(server["eth0"])
    life = lk.life(lab, lk.udp(client, server), via=client["eth0"])
    assert life.end == "dropped: unknown return code 42"


@ORIGINS
@pytest.mark.parametrize("receiver", [False, True])
def test_sent_back_by_xdp_tx(lab: lk.Lab, verdicts: lk.ProgramSpec, how: str, receiver: bool) -> None:
    client, server = lab["client"], lab["server"]
    lab.load(verdicts, "tx").attach(server["eth0"])
    if receiver:
        lab.load(verdicts, "drop").attach(client["eth0"])
    life = lk.life(lab, lk.udp(client, server), via=client["eth0"], how=how)
    check_times(life)
    assert way(life) == [*ORIGIN[how], "xdp_verdict", "xdp_bulk_tx", *["xdp_verdict"] * receiver]
    assert life.end == ("dropped by the program" if receiver else "XDP_TX refused: ENXIO")
    places = [each.where for each in life.events if each.what == "xdp_verdict"]
    assert places == ["server eth0", *["client eth0"] * receiver]


@ORIGINS
def test_through_a_cpu_map(lab: lk.Lab, redirects: lk.ProgramSpec, how: str) -> None:
    client, server = lab["client"], lab["server"]
    cpu = max(os.sched_getaffinity(0))
    program = lab.load(redirects, "to_cpu")
    program.maps["cpus"][cpu] = 192
    program.maps["cpu"][0] = cpu
    program.attach(server["eth0"])
    with lk.UdpSink(server, read=False):
        life = lk.life(lab, lk.udp(client, server), via=client["eth0"], how=how)
    check_times(life)
    through = ["xdp_redirect", "xdp_cpumap_enqueue", "xdp_cpumap_kthread", "netif_receive_skb", "sk_data_ready"]
    assert way(life) == [*ORIGIN[how], *through]
    assert next(each.cpu for each in life.events if each.what == "xdp_cpumap_kthread") == cpu
    assert life.end == "delivered to a socket"


@pytest.mark.parametrize("verdict", ["XDP_PASS", "XDP_DROP"])
def test_a_program_in_a_cpu_map(lab: lk.Lab, redirects: lk.ProgramSpec, verdicts: lk.ProgramSpec, verdict: str) -> None:
    client, server = lab["client"], lab["server"]
    second = lab.load(verdicts, verdict[4:].lower(), expected_attach_type=AttachType.XDP_CPUMAP)
    program = lab.load(redirects, "to_cpu")
    program.maps["cpus"][0] = 192, second
    program.attach(server["eth0"])
    life = lk.life(lab, lk.udp(client, server), via=client["eth0"])
    steps = way(life)
    assert steps[: len(GENERATED) + 2] == [*GENERATED, "xdp_redirect", "xdp_cpumap_enqueue"]
    assert steps[4:6] == ["xdp_verdict", "xdp_cpumap_kthread"]
    assert life.end == ("dropped by the program" if verdict == "XDP_DROP" else "dropped: NO_SOCKET")


def test_a_program_in_a_device_map(router: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    client, middle, server = router["client"], router["router"], router["server"]
    spec = lk.compile(text=REDIRECT.replace("LAB_DEVMAP(", "LAB_DEVMAP_PROGRAMS("))
    last = router.load(verdicts, "drop", expected_attach_type=AttachType.XDP_DEVMAP)
    program = router.load(spec, "redirect")
    program.maps["out"][0] = middle["eth1"], last
    program.attach(middle["eth0"])
    router.load(verdicts, "pass").attach(server["eth0"])
    life = lk.life(router, lk.udp(client, server), via=client["eth0"])
    assert way(life)[:4] == [*GENERATED, "xdp_redirect", "xdp_verdict"]
    assert life.end == "dropped by the program"


def test_other_packets_of_the_lab_and_of_other_labs_are_not_taken_for_it(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    """A neighbour's lab is busy meanwhile, and the same frame waits in the socket already."""
    client, server = lab["client"], lab["server"]
    with lk.Lab(lk.Topology.pair(), name="neighbour") as other, lk.UdpSink(server, read=False) as sink:
        frame = lk.udp(other["client"], other["server"])
        busy = lk.Generator(other["client"]["eth0"], frame, rate_pps=10_000, seconds=60).start()
        try:
            lk.send_frames(client["eth0"], lk.udp(client, server), 7)
            assert sink.queued() == 7
            life = lk.life(lab, lk.udp(client, server), via=client["eth0"])
        finally:
            busy.stop()
    assert way(life) == [*GENERATED, "netif_receive_skb", "sk_data_ready"]
    assert not life.answer
    assert not life.notes


@pytest.mark.parametrize(("packets", "fits"), [(101, True), (1_009, False)])
def test_what_finds_no_room_is_counted(lab: lk.Lab, verdicts: lk.ProgramSpec, packets: int, fits: bool) -> None:
    client, server = lab["client"], lab["server"]
    lab.load(verdicts, "drop").attach(server["eth0"])
    sent, mark = marked(bytes(lk.udp(client, server)))
    with LifeProbes([host.inode for host in lab.hosts.values()], [], mark) as probes:
        lk.send_frames(client["eth0"], [sent] * packets)
        assert lab.ledger().losses == {"XDP_DROP": packets}
        found = probes.read()
        assert (probes.lost == 0) == fits
    assert all(each.marked for each in found if each.what == "net_dev_start_xmit")
    if fits:
        assert sum(each.what == "net_dev_start_xmit" for each in found) == packets
    else:
        assert len(found) >= 256


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_one_program_at_both_ends(lab: lk.Lab, verdicts: lk.ProgramSpec, mode: str) -> None:
    """It counts the packet and the answer in one map: each verdict has its place."""
    client, server = lab["client"], lab["server"]
    program = lab.load(verdicts, "pass")
    program.attach(server["eth0"], mode=mode)
    program.attach(client["eth0"], mode=mode)
    life = lk.life(lab, lk.udp(client, server), via=client["eth0"])
    assert [each.where for each in life.events if each.what == "xdp_verdict"] == ["server eth0"]
    assert [each.where for each in life.answer if each.what == "xdp_verdict"] == ["client eth0"]
    assert not life.notes


def test_while_a_generator_runs(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    frame = lk.udp(client, server)
    with_traffic = lk.Generator(client["eth0"], frame, rate_pps=1_000, seconds=60).start()
    try:
        with pytest.raises(lk.StateError, match=r"lab\.traffic\.stop"):
            lk.life(lab, frame, via=client["eth0"])
    finally:
        with_traffic.stop()
    assert lk.life(lab, frame, via=client["eth0"]).events


@pytest.mark.parametrize(
    ("change", "words"),
    [({"via": "eth0"}, "no interface"), ({"how": "pigeon"}, '"socket"'), ({"frame": b"short"}, "30 bytes")],
)
def test_what_cannot_be_followed(lab: lk.Lab, change: dict[str, object], words: str) -> None:
    client, server = lab["client"], lab["server"]
    given: dict[str, object] = {"frame": lk.udp(client, server), "via": client["eth0"], **change}
    with pytest.raises(lk.TrafficError, match=words):
        lk.life(lab, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [64, 65, 137, 1499])
def test_a_marked_datagram_keeps_its_checksum(lab: lk.Lab, size: int) -> None:
    client, server = lab["client"], lab["server"]
    frame = lk.udp(client, server, size=size)
    sent, mark = marked(bytes(frame))
    assert len(sent) == size
    assert sent[:-16] == frame[:-16]
    assert sent[-16:] == mark.bytes != frame[-16:]
    with lk.UdpSink(server, read=False) as sink:
        lk.send_frames(client["eth0"], [sent] * 7)
        assert sink.queued() == 7
        assert sink.drain() == 7, "the kernel checks the sum when somebody reads"
        assert sink.drops == 0


def test_a_payload_of_its_own_is_left_alone(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    for frame in (lk.udp(client, server, payload=b"GET /index.html HTTP/1.0"), lk.tcp(client, server)):
        sent, mark = marked(bytes(frame))
        assert sent == frame
        assert mark.bytes == frame[-16:]


def test_with_a_vlan_tag(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    client, server = lab["client"], lab["server"]
    lab.load(verdicts, "pass").attach(server["eth0"])
    life = lk.life(lab, lk.vlan(lk.udp(client, server), 7), via=client["eth0"], how="socket")
    assert way(life)[:4] == [*BY_SOCKET, "xdp_verdict", "netif_receive_skb"]
    assert life.end.startswith("dropped: ")


@pytest.mark.parametrize("missing", TRACEPOINTS)
def test_a_missing_tracepoint_costs_one_kind_of_event(
    lab: lk.Lab, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    real: Callable[[str, int], int] = bpf.raw_tracepoint_open

    def without(name: str, prog_fd: int) -> int:
        if name == missing:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return real(name, prog_fd)

    monkeypatch.setattr(bpf, "raw_tracepoint_open", without)
    client, server = lab["client"], lab["server"]
    life = lk.life(lab, lk.udp(client, server), via=client["eth0"])
    assert [missing in note for note in life.notes] == [True]
    assert missing not in way(life)
    assert len(way(life)) >= 4
    assert life.answer
    assert missing in life._repr_html_()


def test_no_tracepoint_at_all(lab: lk.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: str, prog_fd: int) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(bpf, "raw_tracepoint_open", refused)
    with pytest.raises(lk.FeatureError, match="remedy:") as caught:
        lk.life(lab, lk.udp(lab["client"], lab["server"]), via=lab["client"]["eth0"])
    assert caught.value.errno == errno.EPERM


class _Page(HTMLParser):
    """The text of each cell of the table."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


@ORIGINS
def test_the_picture_and_the_table_say_the_same(router: lk.Lab, redirects: lk.ProgramSpec, how: str) -> None:
    client, server = router["client"], router["server"]
    aimed(router, redirects, "to_server").attach(router["router"]["eth0"], mode="generic")
    life = lk.life(router, lk.udp(client, server), via=client["eth0"], how=how)
    page, html = _Page(), life._repr_html_()
    page.feed(html)
    assert "script" not in page.tags
    assert not re.search(r"(src|href)=|url\(|@import", html), "it works offline"
    drawing = ElementTree.fromstring(life.picture.svg)
    numbers = ["".join(each.itertext()) for each in drawing.iter() if each.get("class") == "small"]
    stations = [*life.events, *life.answer]
    assert numbers == [str(i + 1) for i in range(len(stations))]
    assert drawing.get("role") == "img"
    assert life.end in life.picture.title
    for event in stations:
        assert event.says in " ".join(page.cells)
        assert event.says in str(life)
    words = [text for each in drawing.iter() if (text := "".join(each.itertext())) in ("client", "router", "server")]
    assert words == ["client", "router", "server"]


SCRIPT = """
import json
import labkit as lk

with lk.Lab(lk.Topology.pair(), name="life") as lab:
    client, server = lab["client"], lab["server"]
    try:
        with lk.UdpSink(server, read=False):
            life = lk.life(lab, lk.udp(client, server), via=client["eth0"], how="socket")
        print(json.dumps([life.end, [each.what for each in life.events]]))
    except lk.FeatureError as error:
        print(json.dumps([error.remedy, error.errno]))
"""


def in_a_sandbox(folder: Path, *options: str) -> list[object]:
    (folder / "script.py").write_text(SCRIPT)
    command = [Path(sys.prefix) / "bin" / "labkit", "sandbox", *options, "--", sys.executable, folder / "script.py"]
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "XDP_LAB_HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, list)
    return found


def test_the_same_in_a_sandbox(tmp_path: Path) -> None:
    end, what = in_a_sandbox(tmp_path)
    assert end == "delivered to a socket"
    assert isinstance(what, list)
    assert [each for each in what if each not in BESIDE] == [*BY_SOCKET, "netif_receive_skb", "sk_data_ready"]


def test_a_sandbox_without_tracing_says_so(tmp_path: Path) -> None:
    remedy, number = in_a_sandbox(tmp_path, "--without-tracing")
    assert "--without-tracing" in str(remedy)
    assert number in (errno.EPERM, errno.EACCES)


def test_a_socket_of_another_kind_is_named(lab: lk.Lab) -> None:
    """A packet socket gets a copy, the port nobody opened drops the packet."""
    client, server = lab["client"], lab["server"]
    with server.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300) as taps:  # ETH_P_ALL in network byte order
        taps.bind(("eth0", 0x0003))
        life = lk.life(lab, lk.udp(client, server), via=client["eth0"], how="socket")
    assert "sk_data_ready" in way(life)
    assert life.end == "dropped: NO_SOCKET"
