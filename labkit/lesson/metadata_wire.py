"""Metadata that nobody reads: the frame, its length and its checksums are what they were."""

from __future__ import annotations

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.lab import Lab
from labkit.lesson.metadata_post import Way
from labkit.lesson.page import Table
from labkit.lesson.race import scaled
from labkit.lesson.turns import must_balance
from labkit.observe.protocols import read_protocols
from labkit.topology import Topology
from labkit.traffic.capture import Capture
from labkit.traffic.checks import check_whole
from labkit.traffic.frames import udp
from labkit.traffic.raw import send_frames
from labkit.traffic.sink import UdpSink

__all__ = ["unread_metadata"]

_PACKETS, _MOST = 10_007, 100_000  # a tap keeps every frame
_TRIED = "to send datagrams back"
_PATIENCE_S = 20.0
_MARK = 7


def unread_metadata(packets: int | None = None) -> Table:
    """The same datagrams without metadata and with it, sent back over the wire by a program at the other end; lab "unread".

    The receiver's interface, a tap and a socket look at them. By default 10,007 packets, fewer where ``$LAB_SCALE``
    says so. Raises TrafficError where one is lost.
    """
    number = scaled(_PACKETS) if packets is None else check_whole("packets", packets, 1, _MOST, _TRIED)
    with Lab(Topology.pair(), name="unread") as lab:
        writer = lab.load(compile_source(path=lesson_directory() / "meta_write.c"))
        passing = lab.load(compile_source(path=lesson_directory() / "pass.c"))
        passing.attach(lab["client"]["eth0"])
        writer.attach(lab["server"]["eth0"])
        rows = []
        for mark in (0, _MARK):
            writer.maps["plan"][0] = {"mark": mark, "way": Way.BACK, "cpu": 0, "same": 0}
            writer.maps["written"][0] = 0
            row = _there_and_back(lab, number)
            rows.append(("8 bytes" if mark else "none", writer.maps["written"][0], *row))
    head = (
        *("metadata", "notes written", "frames at the receiver", "bytes of a frame", "byte for byte as sent"),
        *("wrong checksums", "in the socket", "unaccounted"),
    )
    return Table(head, tuple(rows), f"{number:,} datagrams, sent back by XDP_TX, over a veth pair")


def _there_and_back(lab: Lab, packets: int) -> tuple[object, ...]:
    """What arrived at the client again, by its interface, by a tap, by its protocols, by a socket, and by the ledger."""
    client, out = lab["client"], lab["client"]["eth0"]
    frame = udp(lab["server"], client)  # as if from the server: it comes back to who it is for
    lab.reset()
    before, wrong = out.statistics(), client.run(read_protocols).get("UdpInCsumErrors", 0)
    with UdpSink(client) as sink, Capture(out) as tap:
        send_frames(out, frame, packets)
        arrived = sink.wait(packets, _PATIENCE_S)
        tap.wait(packets, _PATIENCE_S)
        ledger = lab.ledger()
    must_balance("there and back", ledger, packets)
    if arrived < packets:
        raise TrafficError(
            f"Of {packets:,} datagrams, {arrived:,} came back.", tried=_TRIED, remedy="run the cell again"
        )
    after, wrong = out.statistics(), client.run(read_protocols).get("UdpInCsumErrors", 0) - wrong
    frames = after["rx_packets"] - before["rx_packets"]
    length = (after["rx_bytes"] - before["rx_bytes"]) / frames
    alike = sum(bytes(each) == frame for each in tap.frames)
    return frames, length, alike, wrong, arrived, ledger.unaccounted
