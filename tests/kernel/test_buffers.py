"""Page pools on the real kernel: every page counted by events and by the pool itself, out with what waits, home after."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import until

import labkit as lk
from labkit.buffers import BufferWatch, Pool
from labkit.compile.source import lesson_directory
from labkit.demo import run_demo
from labkit.kernel import bpf
from labkit.uapi import BpfCmd

ROOT = Path(__file__).parents[2]
N = 1_009
ROOM = 16 << 20  # bytes of a socket: more than N datagrams of one page each


@pytest.fixture(autouse=True)
def here() -> Iterator[None]:
    """On one CPU: what is read on another one is freed when the first polls next, and that may take seconds."""
    with lk.buffers.one_cpu():
        yield


@pytest.fixture
def lab() -> Iterator[lk.Lab]:
    with lk.Lab(lk.Topology.pair(), name="buffers") as made:
        yield made


@pytest.fixture
def routed() -> Iterator[lk.Lab]:
    with lk.Lab(lk.Topology.router(), name="buffers-routed") as made:
        yield made


def passing(lab: lk.Lab, host: str) -> None:
    text = "#include <uapi/linux/bpf.h>\nint let_pass(struct xdp_md *ctx) { return XDP_PASS; }\n"
    lab.load(lk.compile(text)).attach(lab[host]["eth0"], mode="native")


def arrived(lab: lk.Lab, sink: lk.UdpSink, packets: int = N) -> None:
    until(lambda: sink.queued() == packets, f"{packets} datagrams in the socket")
    assert lab.ledger().unaccounted == 0


def of(pools: BufferWatch, host: str, kind: str = "queue") -> Pool:
    [found] = [each for each in pools.read().pools if (each.host, each.kind) == (host, kind)]
    return found


def test_frames_passed_into_a_socket_keep_their_pages_until_it_is_read(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    with lk.buffers.watch(lab) as pools, lk.UdpSink(server, read=False, receive_buffer=ROOM) as sink:
        lk.generate(client["eth0"], lk.udp(client, server), N)
        arrived(lab, sink)
        parked = pools.read()
        run = of(pools, "client", "run")
        assert parked.out == parked.in_flight == run.in_flight == run.last_in_flight == sink.queued() == N
        assert parked.agrees  # the pool's own counters with the events
        assert run.held == run.in_flight + run.released >= run.counted_held > 0
        assert [each.number for each in parked.closing] == [run.number]
        places = pools.where()
        assert (places["socket"], places["elsewhere"], places.total) == (N, 0, N)
        until(lambda: of(pools, "client", "run").retries >= 1, "the kernel to try again")
        assert of(pools, "client", "run").in_flight == N

        assert sink.drain() == N
        until(lambda: pools.read().out == 0, "the pages to leave the stack")  # what isn't released waits in the pool
        until(lambda: not pools.read().in_flight, "the pool to end")
        home = pools.read()
        assert (home.closing, home.ended.pools, home.ended.stalled, home.ended.disconnected) == ((), 1, 1, 1)
        assert home.held == home.released == run.held
        assert home.agrees
        assert home.pool(run.number).last_in_flight == 0
        assert home.frames == N == lab.ledger().delivered
        assert home.recycle_ratio == 1 - run.held / N


def test_many_frames_need_a_handful_of_pages(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    lab.load(lk.compile(path=lesson_directory() / "drop_by_protocol.c")).attach(server["eth0"])
    with lk.buffers.watch(lab) as pools:
        lk.generate(client["eth0"], lk.udp(client, server), 100_003)
        found = pools.read()
    assert found.frames == 100_003 == lab.ledger().losses["XDP_DROP"]
    assert found.run_taken == found.ended.held == found.ended.released < found.frames
    assert found.recycle_ratio == 1 - found.run_taken / found.frames
    assert (found.in_flight, found.agrees) == (0, True)


def test_a_thousand_pools_come_and_go_and_none_is_lost(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    lab.load(lk.compile(path=lesson_directory() / "drop_by_protocol.c")).attach(server["eth0"])
    generator = lk.Generator(client["eth0"], lk.udp(client, server))
    generator.make_ready()
    try:
        with lk.buffers.watch(lab) as pools:
            assert client.run(lambda: [generator.burst(7) for _ in range(N)]) == [(7, 0)] * N
            found = pools.read()
    finally:
        generator.release()
    assert (found.ended.pools, found.ended.disconnected, found.unattributed) == (N, N, 0)
    assert found.ended.held == found.ended.released
    assert len({each.what for each in found.gone}) == len(found.gone) > 100


def test_labs_of_one_machine_do_not_see_each_other(lab: lk.Lab, routed: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    with lk.buffers.watch(lab) as mine, lk.buffers.watch(routed) as others:
        with lk.UdpSink(server, read=False, receive_buffer=ROOM) as sink:
            lk.generate(client["eth0"], lk.udp(client, server), N)
            arrived(lab, sink)
            assert (mine.read().out, others.read().out, others.read().held) == (N, 0, 0)
        until(lambda: not mine.read().in_flight, "the pages to come home")
        assert (mine.read().ended.pools, others.read().ended.pools) == (1, 0)


def test_what_a_local_sender_sends_is_copied_to_a_page_of_the_receiving_queue(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    passing(lab, "server")
    with lk.buffers.watch(lab) as pools, lk.UdpSink(server, read=False, receive_buffer=ROOM) as sink:
        lk.send_udp(client, server, N)
        arrived(lab, sink)
        queue = of(pools, "server")
        assert (queue.what, queue.interface, queue.queue) == ("receive queue 0 of server eth0", "eth0", 0)
        assert 0 < queue.out < N  # several to a page
        assert pools.read().agrees
        sink.drain()
        until(lambda: of(pools, "server").out == 0, "the pages to come home")
        queue = of(pools, "server")
        assert queue.alive
        assert not queue.closing
        assert queue.home == queue.in_flight  # at home, and in flight by the kernel's word
        with lk.buffers.watch(lab) as late:  # begun when all had happened: the pool's own counters tell it
            seen = of(late, "server")
            assert late.read().agrees
        assert (seen.held, seen.released, seen.taken) == (queue.held, queue.released, 0)


def test_a_frame_that_the_stack_sent_on_stays_on_its_page(routed: lk.Lab) -> None:
    client, server = routed["client"], routed["server"]
    passing(routed, "server")
    with lk.buffers.watch(routed) as pools, lk.UdpSink(server, read=False, receive_buffer=ROOM) as sink:
        lk.generate(client["eth0"], lk.udp(client, server), N)
        arrived(routed, sink)
        assert of(pools, "client", "run").out == N
        assert of(pools, "server").held == 0


def test_a_redirected_frame_goes_home_and_a_redirected_copy_leaves_the_pool(routed: lk.Lab) -> None:
    client, router, server = routed["client"], routed["router"], routed["server"]
    program = routed.load(lk.compile(path=lesson_directory() / "redirect_devmap.c"))
    program.maps["ports"][0] = router["eth1"]
    program.maps["next_hop"][0] = {"bytes": list(bytes.fromhex(server["eth0"].mac.replace(":", "")))}
    program.attach(router["eth0"])
    server["eth0"].set_feature("gro", True)
    with lk.buffers.watch(routed) as pools, lk.UdpSink(server, read=False, receive_buffer=ROOM) as sink:
        lk.generate(client["eth0"], lk.udp(client, server), N)
        arrived(routed, sink)
        assert of(pools, "client", "run").out == N
        sink.drain()
        until(lambda: pools.read().ended.pools == 1, "the run's pool to end")
        assert pools.read().ended.held == pools.read().ended.released

        lk.send_udp(client, server, N)
        arrived(routed, sink)
        copies = next(each for each in pools.read().pools if (each.host, each.interface) == ("router", "eth0"))
        assert copies.released > 0  # the pages are in the socket, and the pool no longer waits for them
        assert (copies.out, pools.read().agrees) == (0, True)


def test_a_queue_that_is_taken_away_waits_for_its_pages(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    passing(lab, "server")
    with lk.UdpSink(server, read=False, receive_buffer=ROOM) as sink:
        lk.send_udp(client, server, N)
        arrived(lab, sink)
        with lk.buffers.watch(lab) as pools:
            out = of(pools, "server").out
            assert out > 0
            lab.attached[0].close()  # without a native program, nor GRO, a veth has no pool
            queue = of(pools, "server")
            assert (queue.closing, queue.last_in_flight) == (True, queue.in_flight)
            assert out <= queue.out <= out + 1  # the page that pieces were cut from, too
            sink.drain()
            until(lambda: not pools.read().in_flight, "the pool to end")
            assert pools.read().ended.pools == 1
            assert pools.read().agrees


def test_reading_while_frames_and_datagrams_move(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    passing(lab, "server")
    generator = lk.Generator(client["eth0"], lk.udp(client, server), seconds=20)
    with lk.buffers.watch(lab) as pools, lk.UdpSink(server):
        generator.start()
        try:
            until(lambda: pools.read().ended.pools > 20, "twenty runs")
            for _ in range(17):
                found = pools.read()
                assert found.in_flight == found.held - found.released >= 0
                assert found.unattributed == 0
                assert all(each.pages >= 0 for each in pools.where().places)
        finally:
            generator.stop()
        until(lambda: pools.read().out == 0, "the pages to come home")
        found = pools.read()
    assert found.agrees
    assert found.frames == generator.report.sent


def test_no_room_is_said(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    lab.load(lk.compile(path=lesson_directory() / "drop_by_protocol.c")).attach(server["eth0"])
    with lk.buffers.watch(lab) as pools:
        rows = pools._probes._maps["pool_rows"]
        lk.generate(client["eth0"], lk.udp(client, server), 7)
        assert pools.read().unattributed == 0
        filler = next(iter(pools._probes._maps["pools_gone"].read().values()))
        for ident in range(1 << 31, (1 << 31) + rows.spec.max_entries - len(rows.read())):
            rows[ident] = filler
        lk.generate(client["eth0"], lk.udp(client, server), 7)
        assert pools._probes.unattributed > 0


def test_netlink_lists_no_pool_of_a_veth(lab: lk.Lab) -> None:
    passing(lab, "server")
    with lk.buffers.watch(lab) as pools:
        assert pools.read().pools
        assert pools.listed() == {"client": (), "server": ()}


def test_bad_input_and_closed_things_are_named(lab: lk.Lab) -> None:
    with pytest.raises(lk.LabError, match="is no lab"):
        lk.buffers.watch("lab")  # type: ignore[arg-type]
    with lk.buffers.watch(lab) as pools, pytest.raises(lk.LabError, match="no pool 99"):
        pools.read().pool(99)
    pools.close()
    for question in (pools.read, pools.where):
        with pytest.raises(lk.StateError, match="closed"):
            question()
    open_one = lk.buffers.watch(lab)
    lab.close()
    with pytest.raises(lk.StateError, match="closed"):
        open_one.read()
    with pytest.raises(lk.StateError):
        lk.buffers.watch(lab)


KILLED = """
import labkit as lk, sys, time
lab = lk.Lab(lk.Topology.pair(), name="buffers-killed")
pools = lk.buffers.watch(lab)
print(*(each.id for each in pools._probes._maps.values()), flush=True)
time.sleep(600)
"""


def test_a_killed_watch_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDP_LAB_STATE", str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", KILLED], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    maps = {int(word) for word in child.stdout.readline().split()}
    there = set(bpf.object_ids(BpfCmd.MAP_GET_NEXT_ID))
    child.kill()
    child.communicate(timeout=60)
    assert maps
    assert maps <= there
    until(lambda: not maps & set(bpf.object_ids(BpfCmd.MAP_GET_NEXT_ID)), "the kernel to let go of the maps")


@pytest.mark.parametrize("packets", [7, 4_999])
def test_the_demo_ends_with_every_page_at_home(packets: int) -> None:
    result = run_demo("buffers", packets=packets)
    found = result.as_dict()
    assert (found["sent"], found["unaccounted"], found["in_flight"]) == (packets, 0, 0)
    assert found["delivered"] == found["datagrams_waiting"] == found["pages_parked"] > 0
    assert found["delivered"] + sum(found["losses"].values()) == packets
    assert found["pages_held"] == found["pages_released"] >= found["pages_parked"]
    assert found["pages_in_flight"] == 0
    assert found["recycle_ratio"] == pytest.approx(1 - found["pages_held"] / packets, abs=1e-6)
    assert "datagrams wait in a socket" in str(result)
