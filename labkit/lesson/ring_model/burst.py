"""A burst into a queue of the real kernel: where it overflows, under which name, and who counts it."""

from __future__ import annotations

from collections.abc import Sequence

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import LessonError
from labkit.lab import Lab
from labkit.lesson.buffers.counted import Counted
from labkit.lesson.page import Table
from labkit.lesson.ring_model.charts import parts
from labkit.observe.ledger import Ledger
from labkit.topology import Topology
from labkit.traffic.checks import check_whole
from labkit.traffic.frames import udp
from labkit.traffic.raw import send_frames

__all__ = ["BURSTS", "bursts_into_a_queue"]

BURSTS = (61, 127, 251, 257, 509, 1_021)
"""Copies of one frame: prime numbers on both sides of a veth's 256 places (VETH_RING_SIZE, drivers/net/veth.c)."""

_MOST = 1_024  # slots of bpf/burst.c
_FULL = ("receive ring full", "ring full", "ring full or EMSGSIZE")  # the ledger's names for it
_HEAD = ("burst", "arrived", "lost: ring full", "driver: received", "driver: refused", "unaccounted")


def bursts_into_a_queue(copies: Sequence[int] = BURSTS) -> Counted:
    """One frame, redirected so many times in one turn of the router's driver; a row for each of ``copies``, in labs "bursts".

    What arrived and what was lost are the ledger's; two counters of the driver stand beside them. Raises LessonError where
    a ledger doesn't account for every copy.
    """
    for each in copies:
        check_whole("copies", each, 1, _MOST, "to send a burst into a queue")
    rows = [_burst(each) for each in copies]
    table = Table(_HEAD, tuple(rows))
    title = "Bursts of frames into the queue of a veth: what found a place there, and what did not"
    counted = {f"{row[0]:,} at once": (row[1], row[2]) for row in rows}
    picture = parts(counted, ("arrived", "lost: ring full"), title, table) if rows else None
    longest = max(rows, key=lambda row: row[0], default=None)
    return Counted(table, {"ring-burst": float(longest[1]) if longest else None}, picture)


def _burst(copies: int) -> tuple[int, int, int, int, int, int]:
    with Lab(Topology.router(), name="bursts") as lab:
        client, router, server = lab["client"], lab["router"], lab["server"]
        program = lab.load(compile_source(path=lesson_directory() / "burst.c"))
        for slot in range(copies):
            program.maps["ports"][slot] = router["eth1"]
        program.attach(router["eth0"])
        lab.load(compile_source(path=lesson_directory() / "drop_all.c")).attach(server["eth0"])
        send_frames(client["eth0"], udp(client, server), 1)
        ledger = lab.ledger(settle_s=1.0)
        received = server["eth0"].driver_statistics().get("rx_queue_0_xdp_packets", 0)
        refused = router["eth1"].driver_statistics().get("tx_queue_0_xdp_xmit_errors", 0)
        return copies, _arrived(ledger), _lost(ledger), received, refused, _checked(ledger, copies)


def _arrived(ledger: Ledger) -> int:
    """The server's program drops all that comes."""
    return ledger.losses.get("XDP_DROP", 0)


def _lost(ledger: Ledger) -> int:
    return sum(ledger.losses.get(name, 0) for name in _FULL)


def _checked(ledger: Ledger, copies: int) -> int:
    if ledger.unaccounted or ledger.sent + ledger.copies != copies:
        raise LessonError(
            "The ledger does not account for every copy of the burst.",
            tried="to send a burst into a queue",
            detail=str(ledger),
            remedy="run the cell again; if it repeats, restart the kernel of the notebook",
        )
    return ledger.unaccounted
