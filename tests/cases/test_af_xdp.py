"""AF_XDP: sockets that won't bind, buffers that nobody gives back, a transmitter that stalls."""

from __future__ import annotations

import errno
import mmap
import os
import re
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from patience import PATIENCE_S

import labkit as lk
from labkit.kernel import xdp_socket
from labkit.kernel.xdp_holders import processes_with_rings
from labkit.uapi import XskBind, XskOption
from labkit.xsk import Batch, Umem, XskSocket

DEADLINE_S = 20.0
MODES = pytest.mark.parametrize("mode", ["native", "generic"])


def raw(
    lab: lk.Lab,
    *,
    frame_size: int = 2048,
    entries: int = 64,
    ifindex: int = 0,
    queue: int = 0,
    flags: XskBind = XskBind.COPY,
    headroom: int = 0,
) -> int:
    """What the kernel itself says to a socket at the server: 0, or its errno."""
    interface, memory = lab["server"]["eth0"], Umem(64)
    try:
        with interface.run(xdp_socket.open_socket) as made:
            xdp_socket.register_memory(made, memory.address, memory.size_bytes, frame_size, headroom)
            for ring in (XskOption.UMEM_FILL_RING, XskOption.UMEM_COMPLETION_RING, XskOption.RX_RING):
                xdp_socket.make_ring(made, ring, entries)
            interface.run(xdp_socket.bind_socket, made, ifindex or interface.ifindex, queue, flags)
    except OSError as error:
        return error.errno or -1
    return 0


def bound_within(lab: lk.Lab, seconds: float, **how: int) -> int:
    """The same, as soon as the kernel has let go of the last socket."""
    until = time.monotonic() + seconds
    while (number := raw(lab, **how)) == errno.EBUSY and time.monotonic() < until:
        time.sleep(0.005)
    return number


def test_ax_02_what_the_kernel_says(lab: lk.Lab) -> None:
    """AX-02, xdp-project/bpf-examples#78, xdp-tutorial#127, #222, #232, #270: one number for many mistakes."""
    assert raw(lab, flags=XskBind.ZEROCOPY) == errno.EOPNOTSUPP
    assert raw(lab, queue=1) == errno.EINVAL
    assert raw(lab, frame_size=3000) == raw(lab, frame_size=1024) == errno.EINVAL
    assert raw(lab, headroom=2048 - 256) == errno.EINVAL
    assert raw(lab, entries=100) == errno.EINVAL
    assert raw(lab, ifindex=4711) == errno.ENODEV
    lab["server"]["eth0"].set_down()
    assert bound_within(lab, DEADLINE_S) == 0
    lab["server"]["eth0"].set_up()
    assert bound_within(lab, DEADLINE_S, flags=XskBind.COPY | XskBind.USE_NEED_WAKEUP) == 0


SOCKETS_MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"queue": 1}, "server eth0 has no queue 1"),
    ({"queue": -1}, "queue can't be -1"),
    ({"queue": "0"}, "queue can't be '0'"),
    ({"queue": True}, "queue can't be True"),
    ({"receive_ring": 100}, "receive_ring can't be 100"),
    ({"transmit_ring": 3}, "transmit_ring can't be 3"),
    ({"transmit_ring": False}, "transmit_ring can't be False"),
    ({"fill_ring": 0}, "fill_ring can't be 0"),
    ({"completion_ring": 1 << 17}, "completion_ring can't be 131072"),
    ({"receive_ring": 0, "transmit_ring": 0}, "without a receive and a transmit ring"),
    ({"filled": 4096}, "filled can't be 4096"),
    ({"filled": 1.5}, "filled can't be 1.5"),
    ({"mode": "fast"}, "mode can't be 'fast'"),
    ({"umem": 2048}, "2048 is no memory"),
    ({"transmit_budget": 31}, "transmit_budget can't be 31"),
    ({"transmit_budget": 4096}, "transmit_budget can't be 4096"),
]
MEMORYS_MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"frame_size": 3000}, "frame_size can't be 3000"),
    ({"frame_size": 1024}, "frame_size can't be 1024"),
    ({"frame_size": 2 * mmap.PAGESIZE}, "frame_size can't be"),
    ({"frames": 0}, "frames can't be 0"),
    ({"frames": 2.0}, "frames can't be 2.0"),
    ({"headroom": 2048 - 256}, "headroom can't be 1792"),
    ({"headroom": 13}, "headroom can't be 13"),
    ({"headroom": None}, "headroom can't be None"),
]


def test_ax_02_each_mistake_has_its_name(lab: lk.Lab) -> None:
    for wrong, named in SOCKETS_MISTAKES:
        with pytest.raises(lk.XskError, match=re.escape(named)) as refused:
            XskSocket(lab["server"]["eth0"], **wrong)
        assert refused.value.remedy
        assert refused.value.errno is None, "the kernel was not asked"
    for wrong, named in MEMORYS_MISTAKES:
        with pytest.raises(lk.XskError, match=re.escape(named)) as refused:
            Umem(**wrong)
        assert refused.value.remedy
    with XskSocket(lab["server"]["eth0"], patience_s=DEADLINE_S):
        pass  # none of them has left the queue held


def test_ax_02_zero_copy_on_a_veth(lab: lk.Lab) -> None:
    with pytest.raises(lk.FeatureError, match="no zero-copy") as refused:
        XskSocket(lab["server"]["eth0"], mode="zero-copy")
    assert refused.value.errno == errno.EOPNOTSUPP
    with XskSocket(lab["server"]["eth0"], mode="auto", need_wakeup=False) as xsk:
        assert not xsk.zero_copy


def test_ax_02_a_queue_that_this_process_holds(lab: lk.Lab) -> None:
    with XskSocket(lab["server"]["eth0"]):
        with pytest.raises(lk.XskError, match=r"server eth0 queue 0 is taken, by process \d+ \(") as refused:
            XskSocket(lab["server"]["eth0"])
        assert refused.value.errno == errno.EBUSY
        assert f"process {os.getpid()} (" in refused.value.message
        assert os.getpid() in [pid for pid, _ in processes_with_rings()]


def test_ax_02_a_queue_that_another_process_holds(lab: lk.Lab) -> None:
    """Here a child that has the descriptor from us: what a socket is, the kernel knows, not who made it."""
    with XskSocket(lab["server"]["eth0"]) as xsk:
        other = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=[xsk.fd]
        )
    try:
        with pytest.raises(lk.XskError, match=rf"process {other.pid} \(python"):
            XskSocket(lab["server"]["eth0"], patience_s=0.1)
    finally:
        other.communicate()
    with XskSocket(lab["server"]["eth0"], patience_s=DEADLINE_S):
        pass


LIMITED = """\
import resource
import labkit as lk

resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 << 20, 8 << 20))
with lk.Lab(lk.Topology.pair(queues=2), name="limit") as lab:
    at = lab["server"]["eth0"]
    for _ in range(20):  # the kernel takes a closed socket's memory off the account a little later
        lk.xsk.XskSocket(at, umem=lk.xsk.Umem(3072)).close()
    small = [lk.xsk.Umem(64), lk.xsk.Umem(64)]
    with lk.xsk.XskSocket(at, 0, umem=small[0]) as first, lk.xsk.XskSocket(at, 1, umem=small[1]) as second:
        program = lab.load(lk.compile(path="bpf/to_socket.c"))
        program.attach(at)
        program.maps["sockets"][0], program.maps["sockets"][1] = first, second
        lk.generate(at.peer, lk.udp(lab["client"], lab["server"]), 31)
        print(lab.ledger())
        try:
            lk.xsk.XskSocket(lab["client"]["eth0"], umem=lk.xsk.Umem(4096), patience_s=0)
        except lk.XskError as error:
            print(error)
"""


def test_ax_02_within_a_students_memory_lock_limit() -> None:
    """In a sandbox, as root is none there: CAP_IPC_LOCK would lift the limit."""
    run = [sys.executable, "-m", "labkit", "sandbox", "--", sys.executable, "-c", LIMITED]
    said = subprocess.run(run, capture_output=True, text=True, timeout=120)
    until_s = time.monotonic() + PATIENCE_S
    while "sockets of the user together" in said.stderr:  # a neighbour's sandbox is of the same user, and locks memory
        assert time.monotonic() < until_s, said
        said = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert re.search(r"in flight: receive ring +server eth0 queue [01] +31 +100 %\nunaccounted ✓ +0\n", said.stdout), (
        said
    )
    assert "8 MiB are more than this user may lock in memory." in said.stdout, said
    assert "use at most 4,096 frames" in said.stdout


@MODES
def test_ax_03_a_fill_ring_that_nobody_fills(lab: lk.Lab, mode: lk.Mode) -> None:
    """AX-03, xdp-project/xdp-tutorial#116, firedancer#3170: the program says REDIRECT 40 times, and 16 packets arrive."""
    server = lab["server"]["eth0"]
    program = lab.load(lk.compile(path="bpf/to_socket.c"))
    program.attach(server, mode=mode)
    frame = lk.udp(lab["client"], lab["server"])
    with XskSocket(server, filled=16, transmit_ring=0) as xsk:
        program.maps["sockets"][0] = xsk
        assert lk.generate(lab["client"]["eth0"], frame, 40).sent == 40
        ledger = lab.ledger()
        assert ledger.in_flight == 16
        assert ledger.losses == {"xsk rx_fill_ring_empty_descs": 24}
        assert ledger.unaccounted == 0
        assert (xsk.statistics().rx_dropped, xsk.statistics().rx_fill_ring_empty_descs) == (24, 24)
        counted = program.verdicts()
        assert counted is not None
        assert counted["XDP_REDIRECT"] == 40
        if mode == "native":
            assert server.driver_statistics()["rx_queue_0_drops"] == 24
        assert xsk.places() == {"fill": 0, "receive": 16, "completion": 0, "free": 2032, "elsewhere": 0}
        assert len(xsk.take()) == 16
        assert xsk.places()["elsewhere"] == 16, "with the program, which gave none back"
        assert xsk.fill(16) == 16
        assert lk.generate(lab["client"]["eth0"], frame, 10).sent == 10
        assert len(xsk.receive(10, DEADLINE_S)) == 10
        assert lab.ledger().losses == {"xsk rx_fill_ring_empty_descs": 24}


def test_ax_04_a_transmitter_that_stalls(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    """AX-04, asavie/xdp#9, xdp-tutorial#398, bpf-examples#128: it sends some, and then no more."""
    program = lab.load(verdicts, "drop")
    program.attach(lab["server"]["eth0"])
    frame = np.frombuffer(lk.udp(lab["client"], lab["server"]), np.uint8)

    def arrived() -> int:
        counted = program.verdicts()
        return counted["XDP_DROP"] if counted else 0

    def arrives(packets: int) -> bool:
        until = time.monotonic() + DEADLINE_S
        while arrived() < packets and time.monotonic() < until:
            time.sleep(0.001)
        return arrived() == packets

    with XskSocket(lab["client"]["eth0"], receive_ring=0, transmit_ring=64, completion_ring=64, filled=0) as xsk:

        def queue(packets: int) -> None:
            addresses = xsk.umem.take(packets)
            for address in addresses:
                xsk.umem.view(address, len(frame))[:] = frame
            assert xsk.transmit(Batch(addresses, np.full(packets, len(frame), np.uint32)), wake=False) == packets

        queue(60)
        assert arrived() == 0
        assert xsk.kick() == "EAGAIN"
        assert arrives(32)
        assert xsk.kick() == ""
        assert arrives(60)
        queue(64)
        said = [xsk.kick() for _ in range(7)]
        assert said == ["EAGAIN"] * 7
        assert arrives(64), "the completion ring is full: for four more there was room"
        assert xsk.places()["completion"] == 64
        assert (lab.ledger().sent, lab.ledger().in_flight, lab.ledger().unaccounted) == (124, 60, 0)
        assert xsk.complete() == 64
        assert xsk.flush() == ""
        assert arrives(124)
        assert lab.ledger().losses == {"XDP_DROP": 124}
