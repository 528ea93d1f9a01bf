"""A timestamp put on a packet by hand, for want of a card that does it: which observers still find it."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.kernel import bpf
from labkit.lab import Lab
from labkit.lesson.hints_driver import asking
from labkit.lesson.hints_driver_words import timestamp_words
from labkit.lesson.page import Table
from labkit.program.classifier import at_tc
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.uapi import AttachType, ProgType, XdpAction

__all__ = ["stamp_seen_by"]

_SKB_BYTES, _HWTSTAMP = 192, 184  # struct __sk_buff, include/uapi/linux/bpf.h
_PATIENCE_S = 20.0


def stamp_seen_by() -> Table:
    """Send stamped packets from the client, and tell who at the server finds the stamp; in a lab of its own, "stamped".

    Raises FeatureError where no program may ask for hints, or where there are no TC links.
    """
    with Lab(Topology.pair(), name="stamped") as lab:
        server = lab["server"]["eth0"]
        with _at_ingress(lab) as seen:
            plain = _sent(lab, seen)
            with asking(server, XdpAction.PASS) as asked:
                behind = _sent(lab, seen)
                (answer,) = asked.take(1)
    rows = (
        ("TC, where no XDP program runs", timestamp_words(0, plain)),
        ("a native XDP program that asks", answer.words[1]),
        ("TC, behind that program", timestamp_words(0, behind)),
    )
    return Table(("who looks at the server", "it finds"), rows, "A packet that was stamped before it was sent")


@contextlib.contextmanager
def _at_ingress(lab: Lab) -> Iterator[Program]:
    spec = compile_source(path=lesson_directory() / "hints_stamp.c")
    loaded = lab.load(spec, "hints_stamp_seen", type=ProgType.SCHED_CLS, expected_attach_type=AttachType.TCX_INGRESS)
    with loaded as program, at_tc(program, lab["server"]["eth0"]):
        yield program


def _sent(lab: Lab, seen: Program) -> int:
    """Send one packet with a stamp of now; the stamp (0: none) that TC at the server finds. Raises TrafficError."""
    client = lab["client"]["eth0"]
    spec = compile_source(path=lesson_directory() / "hints_stamp.c")
    before = seen.maps["seen"][0]["packets"]
    context = bytearray(_SKB_BYTES)
    struct.pack_into("=Q", context, _HWTSTAMP, time.monotonic_ns())
    with lab.load(spec, "hints_send_stamped", type=ProgType.SCHED_CLS) as sender:
        sender.maps["out"][0] = client.ifindex
        frame = bytes(udp(lab["client"], lab["server"]))

        def send() -> None:
            bpf.prog_test_run(sender.fd, frame, repeat=1, context=bytes(context))

        client.run(send)
    _await(lambda: seen.maps["seen"][0]["packets"] > before)
    return int(seen.maps["seen"][0]["hwtstamp"])


def _await(arrived: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not arrived():
        if time.monotonic() > until:
            raise TrafficError("A stamped packet did not arrive.", tried="to look for its stamp")
        time.sleep(0.002)
