"""Who can take a frame that a program sends: by a redirect and by XDP_TX, with nothing, a program or GRO at the other end."""

from __future__ import annotations

from collections.abc import Callable

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.page import Table
from labkit.observe.ledger import Ledger
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.raw import send_frames
from labkit.traffic.sink import UdpSink

__all__ = ["mac_value", "who_can_receive"]

NOTHING, PASSING, GRO = "nothing", "a program that passes", "GRO"
_PACKETS = 509  # more than twice the 256 places of a ring


def mac_value(interface: Interface) -> dict[str, list[int]]:
    """The interface's MAC address as a ``struct mac`` of bpf/common/rewrite.h, for a program's map."""
    return {"bytes": list(bytes.fromhex(interface.mac.replace(":", "")))}


def who_can_receive(packets: int = _PACKETS) -> Table:
    """A row for each way to send and each receiving end: what the program said, and what became of ``packets`` frames.

    Each in a lab of its own. Every ledger behind a row accounts for every packet, and the last column says so.
    """
    rows = []
    for how, send in (("bpf_redirect_map", _redirected), ("XDP_TX", _sent_back)):
        for end in (NOTHING, PASSING, GRO):
            with Lab(Topology.router(), name="receiving") as lab:
                program, ledger, arrived = send(lab, end, packets)
                said = {name: count for name, count in (program.verdicts() or {}).items() if count}
                words = ", ".join(f"{count} {name}" for name, count in said.items())
                rows.append((how, end, words, arrived, _fate(ledger), ledger.unaccounted))
    head = ("how", "at the other end", "the program said", "arrived there", "what became of them", "unaccounted")
    return Table(head, tuple(rows), f"{packets} frames each")


def _redirected(lab: Lab, end: str, packets: int) -> tuple[Program, Ledger, int]:
    client, middle, server = lab["client"], lab["router"], lab["server"]
    program = _load(lab, "redirect_devmap.c")
    program.maps["ports"][0] = middle["eth1"]
    program.maps["next_hop"][0] = mac_value(server["eth0"])
    return program, *_counted(lab, program, server["eth0"], end, udp(client, server), packets)


def _sent_back(lab: Lab, end: str, packets: int) -> tuple[Program, Ledger, int]:
    """Frames that the client's stack takes when they come back: addressed by IP to the client, by MAC to the router."""
    client, near = lab["client"], lab["router"]["eth0"]
    frame = udp(near, client)
    turned = bytes(frame[6:12]) + bytes(frame[:6]) + bytes(frame[12:])
    program = _load(lab, "tx_back.c")
    return program, *_counted(lab, program, client["eth0"], end, turned, packets)


def _counted(
    lab: Lab, program: Program, receiver: Interface, end: str, frame: bytes, packets: int
) -> tuple[Ledger, int]:
    _ENDS[end](lab, receiver)
    program.attach(lab["router"]["eth0"])
    with UdpSink(receiver.host):
        before = receiver.statistics()["rx_packets"]
        send_frames(lab["client"]["eth0"], frame, packets, rate_pps=100_000)
        ledger = lab.ledger(settle_s=1.0)
        return ledger, receiver.statistics()["rx_packets"] - before


_ENDS: dict[str, Callable[[Lab, Interface], object]] = {
    NOTHING: lambda lab, receiver: None,
    PASSING: lambda lab, receiver: _load(lab, "pass.c").attach(receiver),
    GRO: lambda lab, receiver: receiver.set_feature("gro", True),
}


def _load(lab: Lab, file: str) -> Program:
    return lab.load(compile_source(path=lesson_directory() / file))


def _fate(ledger: Ledger) -> str:
    shown = [f"{row.packets} {row.name}" for row in ledger.rows if row.kind in ("delivered", "loss", "in_flight")]
    return "; ".join(shown) or "nothing seen"
