"""Other readers of self-describing metadata: a program on another CPU, a socket of AF_XDP; and another writer: the driver."""

from __future__ import annotations

from collections import Counter
from typing import Any

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import FeatureError
from labkit.hints import Capture, Decoded, Foreign, GenericMeta, read
from labkit.lesson.generic_hints_path import FOREIGN, GenericPath, Want, taught
from labkit.lesson.generic_hints_route import GenericRoute
from labkit.lesson.page import Table
from labkit.lesson.race import scaled
from labkit.lesson.tracing import Unseen
from labkit.lesson.workshop import LONGEST_QUEUE, usable_cpus
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.udp import send_udp
from labkit.uapi import AttachType, XdpAction
from labkit.xsk import Umem, XskSocket

__all__ = ["read_by_socket", "read_on_another_cpu", "what_the_driver_gives"]

_FLOWS = 16
_PATIENCE_S = 20.0
_FRAMES = 64  # of a socket's memory: so few that they come round again


def read_on_another_cpu(packets: int | None = None) -> Table:
    """Metadata through a CPU map: what the slot's program found there; lab "other-cpu".

    By default 100,003 packets of 16 flows, of which one in four has no metadata.
    """
    number = packets or scaled(100_003)
    here, *others = usable_cpus()
    bpf = lesson_directory()
    with GenericRoute("other-cpu") as route:
        reader = route.lab.load(
            compile_source(path=bpf / "generic_on_cpu.c"), expected_attach_type=AttachType.XDP_CPUMAP
        )
        names = taught(reader, route.formats)
        reader.maps["action"][0] = XdpAction.DROP
        choose = route.composer.maps["format_of"]
        for low in range(_FLOWS):
            choose[low] = (0, 1, 2, 15)[low % 4]
        crossing = route.lab.load(compile_source(path=bpf / "to_cpu.c"))
        target = (others or [here])[0]
        crossing.maps["cpus"][target] = LONGEST_QUEUE, reader
        crossing.maps["target"][0] = target
        route.attach(crossing)
        generate(route.client, udp(route.lab["client"], route.router["eth0"]), number, flows=_FLOWS)
        ledger = route.lab.ledger()
        counts = list(reader.maps["outcomes"].read().values())
        shares = sum(1 for slot, count in reader.maps["by_hash"].read().items() if count and slot < 16)
        ran = [cpu for cpu, seen in enumerate(reader.maps["verdicts"].per_cpu(XdpAction.DROP)) if seen]
    rows: list[tuple[object, ...]] = [(f"decoded: {name}", counts[slot]) for slot, name in names.items()]
    rows += [(f"foreign: {reason}", count) for reason, count in zip(FOREIGN, counts[16:], strict=True) if count]
    rows += [("all that came", sum(counts)), ("queue or ring full, by the ledger", ledger.lost - sum(counts))]
    rows.append(("flows told apart by the hash, in shares of 16", shares))
    where = ", ".join(f"CPU {cpu}" for cpu in ran)
    return Table(
        (f"found on {where}", "packets"), tuple(rows), f"{number:,} packets sent; the reader looked at no header"
    )


def read_by_socket(packets: int = 67) -> Table:
    """Metadata read by an AF_XDP socket, in memory that is wiped between packets, and in memory that isn't; lab "umem".

    First ``packets`` large frames with metadata, then as many small ones without: more than its memory has room for.
    """
    rows: list[tuple[object, ...]] = []
    for wiped in (True, False):
        with GenericRoute("umem") as route:
            program = route.lab.load(compile_source(path=lesson_directory() / "to_socket.c"))
            route.attach(program)
            route.composer.maps["meta_threshold"][0] = 128
            with Umem(_FRAMES) as umem, XskSocket(route.server, umem=umem, wipe_metadata=wiped) as xsk:
                program.maps["sockets"][0] = xsk
                for what, size in (("with metadata", 256), ("without", 64)):
                    found = _read_all(route, xsk, packets, size)
                    decoded = found[Decoded]
                    wrong = 0 if size > 128 else decoded
                    rows.append(("yes" if wiped else "no", f"{packets} {what}", decoded, found[Foreign], wrong))
    head = ("memory wiped", "packets", "decoded", "foreign", "read wrongly")
    marks = tuple((i, 4, "bad") for i, row in enumerate(rows) if row[4])
    return Table(head, tuple(rows), "An AF_XDP socket: nobody tells it how much metadata there is", marks)


def _read_all(route: GenericRoute, xsk: XskSocket, packets: int, size: int) -> Counter[type[Any]]:
    """Packets by what was read of them. A few at a time: the memory has few frames."""
    frame = udp(route.lab["client"], route.router["eth0"], size=size)
    found: Counter[type[Any]] = Counter()
    left = packets
    while left:
        part = min(left, _FRAMES // 2)
        generate(route.client, frame, part)
        for each in xsk.receive(part, timeout_s=_PATIENCE_S):
            found[type(read(each, route.formats))] += 1
        left -= part
    return found


def what_the_driver_gives(packets: int = 7) -> Table | Unseen:
    """Generic metadata by a composer that asks the driver, beside one that parses: for a local sender and the generator.

    Lab "driver". Where programs can't be bound to a device, a line that says so.
    """
    rows: list[tuple[object, ...]] = []
    try:
        for bound in (False, True):
            with GenericPath("driver", bound=bound) as path:
                path.want(Want.HASH | Want.TIME)
                for sender in ("a socket", "the generator"):
                    found = _one_of(path, sender, packets)
                    values = [found.describe()[name] for name in ("hash", "hash_type", "timestamp_ns")]
                    rows.append(("the driver" if bound else "the headers", sender, *values))
    except FeatureError as error:
        if not bound:
            raise
        return Unseen(f"{error.message} What the driver knows can't be shown here.")
    return Table(("composed of what says", "sent by", "hash", "hash_type", "timestamp_ns"), tuple(rows))


def _one_of(path: GenericPath, sender: str, packets: int) -> GenericMeta:
    client, server = path.lab["client"], path.lab["server"]
    with Capture(path.lab, path.server, packets=packets) as capture:
        if sender == "a socket":
            send_udp(client, server, packets)
        else:
            generate(path.client, udp(client, server), packets)
        meta = capture.take(packets, timeout_s=_PATIENCE_S)[-1].meta
    return GenericMeta.from_bytes(meta) or GenericMeta()
