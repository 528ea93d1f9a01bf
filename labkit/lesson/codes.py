"""What becomes of a packet for each number that a program may return."""

from __future__ import annotations

from collections.abc import Sequence

from labkit.interface import Interface
from labkit.lesson.page import Table
from labkit.observe.ledger import Ledger
from labkit.program.program import Program
from labkit.traffic.frames import udp
from labkit.traffic.raw import send_frames
from labkit.traffic.sink import UdpSink
from labkit.uapi import XdpAction

__all__ = ["return_codes"]

_PACKETS = 101


def return_codes(program: Program, interface: Interface, codes: Sequence[int] = (0, 1, 2, 3, 4, 42)) -> Table:
    """Make ``program`` (bpf/return_codes.c), attached at ``interface``, return each code; send 101 packets; tell their fate.

    Resets the lab's ledger before each.
    """
    lab, host, sender = interface.host.lab, interface.host, interface.peer
    rows = []
    with UdpSink(host) as sink:
        for code in codes:
            lab.reset()
            program.maps["action"][0] = code
            before, seen = interface.driver_statistics(), sink.received
            send_frames(sender, udp(sender, interface), _PACKETS)
            if code == XdpAction.PASS:
                sink.wait(seen + _PACKETS)
            ledger, after = lab.ledger(settle_s=1.0), interface.driver_statistics()
            drops = sum(after[k] - before[k] for k in after if k.startswith("rx_queue") and k.endswith("xdp_drops"))
            rows.append((str(code), _name(code), _fate(ledger), drops, ledger.unaccounted))
    head = ("returned", "its name", f"what became of {_PACKETS} packets", "driver's xdp_drops", "unaccounted")
    return Table(head, tuple(rows))


def _name(code: int) -> str:
    return f"XDP_{XdpAction(code).name}" if code in list(XdpAction) else "none"


def _fate(ledger: Ledger) -> str:
    found = [f"{row.packets} {row.name}" for row in ledger.rows if row.kind in ("delivered", "loss")]
    return "; ".join(found) or "nothing seen"
