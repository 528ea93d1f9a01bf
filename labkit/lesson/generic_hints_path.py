"""A way with metadata on it: a program in the role of the driver composes it, one in TC finds out what came."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import HintError
from labkit.hints import Formats
from labkit.lab import Lab
from labkit.lesson.page import Table, block
from labkit.observe.ledger import Ledger
from labkit.program.classifier import at_tc
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.raw import send_frames
from labkit.traffic.report import TrafficReport
from labkit.traffic.sink import UdpSink
from labkit.uapi import AttachType, ProgType, XdpAction

__all__ = ["FOREIGN", "Consumed", "GenericPath", "Tell", "Want", "taught"]

FOREIGN = ("no metadata", "no magic", "unknown format", "cut short")
"""Why a consumer takes metadata for foreign, in the order of bpf/common/recognise.h."""

_SLOTS = 16  # META_SLOTS, bpf/common/meta.h: decoded packets are counted below, foreign ones from there on
_NOTHING = _SLOTS - 1  # a slot without ids: no metadata is composed
_LOW_BITS = 16  # of the source port: entries of format_of
_TC_ACT_OK, _TC_ACT_SHOT = 0, 2  # include/uapi/linux/pkt_cls.h


class Want(IntFlag):
    """What the composer finds out, bpf/generic_composer.c. CLAIM: say that checksums are right, without a look."""

    HASH = 1
    CHECKSUM = 2
    VLAN = 4
    TIME = 8
    CLAIM = 16


class Tell(IntFlag):
    """What the consumer tells the stack, bpf/generic_tc.c. COMPARE: look whether metadata says what the headers say."""

    HASH = 1
    CHECKSUM = 2
    MARK = 4
    COMPARE = 8


@dataclass(frozen=True)
class Consumed:
    """What a consumer counted: each packet once, ``decoded`` by format or ``foreign`` by reason.

    ``used``: what it did with the metadata (struct used, bpf/generic_tc.c). ``ledger`` tells what became of the packets,
    ``report`` who sent them.
    """

    decoded: Mapping[str, int]
    foreign: Mapping[str, int]
    used: Mapping[str, int]
    ledger: Ledger
    report: TrafficReport

    @property
    def decoded_packets(self) -> int:
        """Packets whose format was known."""
        return sum(self.decoded.values())

    @property
    def foreign_packets(self) -> int:
        """Packets that weren't decoded, for whatever reason."""
        return sum(self.foreign.values())

    @property
    def arrived(self) -> int:
        """All packets that the consumer saw."""
        return self.decoded_packets + self.foreign_packets

    @property
    def mean_us(self) -> float | None:
        """Mean time on the way of packets whose format says when they were sent, in µs; None where there was none."""
        timed = self.used.get("timed", 0)
        return self.used["total_ns"] / timed / 1e3 if timed else None

    def table(self) -> Table:
        """One row an outcome, and the sum."""
        rows: list[tuple[object, ...]] = [(f"decoded: {name}", count) for name, count in self.decoded.items()]
        rows += [(f"foreign: {reason}", count) for reason, count in self.foreign.items() if count]
        rows.append(("arrived", self.arrived))
        if self.used.get("compared"):
            rows.append(("… of these: read wrongly, by their headers", self.used["misread"]))
        return Table(("what the consumer found", "packets"), tuple(rows), "By the last ten bytes alone")

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return block(self.table().html())


class GenericPath:
    """``with GenericPath("generic") as path: path.run(1_009)``: a client, and a server that composes and consumes metadata.

    ``composer`` runs in the driver of the server's eth0, ``consumer`` at its TC ingress, which knows ``formats``. With
    ``bound`` the composer asks the driver what it knows. Everything ends with the lab. Raises FeatureError, where
    programs can't be bound to a device.
    """

    def __init__(self, name: str, *, bound: bool = False) -> None:
        self.lab = Lab(Topology.pair(), name=name)
        self._ending = contextlib.ExitStack()
        self.lab.on_close(self._ending.close)
        self._labels: dict[int, str] = {}
        try:
            self.client, self.server = self.lab["client"]["eth0"], self.lab["server"]["eth0"]
            self.formats = self._ending.enter_context(Formats.load())
            self.composer = self.load_composer(bound=bound)
            self.consumer = self._load_consumer()
            self.know(self.formats)
            self.choose("meta_generic")
            self.tell = Tell.HASH | Tell.CHECKSUM | Tell.MARK | Tell.COMPARE
            self.link = self.composer.attach(self.server)
            self._ending.enter_context(at_tc(self.consumer, self.server))
        except BaseException:
            self.close()
            raise

    def load_composer(self, formats: Formats | None = None, *, bound: bool = False) -> Program:
        """Another composer, told of ``formats`` (by default the path's own): generic format, no threshold."""
        spec = compile_source(path=lesson_directory() / "generic_composer.c")
        device = self.server if bound else None
        program = self.lab.load(spec, "compose_bound" if bound else "compose", device=device)
        (formats or self.formats).tell(program)
        program.maps["plan"][0] = {"wanted": Want.HASH | Want.CHECKSUM | Want.VLAN, "action": XdpAction.PASS}
        return program

    def _load_consumer(self) -> Program:
        spec = compile_source(path=lesson_directory() / "generic_tc.c")
        return self.lab.load(spec, type=ProgType.SCHED_CLS, expected_attach_type=AttachType.TCX_INGRESS)

    def know(self, formats: Formats, label: str = "") -> None:
        """Tell the consumer of these formats; ``label`` stands before their names in what it counts."""
        self._labels |= taught(self.consumer, formats, len(self._labels), label)

    def forget(self, formats: Formats) -> None:
        """Make these formats foreign to the consumer."""
        for places in ("known_formats", "mark_at", "sent_ns_at"):
            formats.forget(self.consumer.maps[places])

    def choose(self, *names: str | None, program: Program | None = None) -> None:
        """Which format a packet gets, by its source port, in turn; None: no metadata. Raises HintError."""
        slots = [_NOTHING if name is None else self.formats[name].slot for name in names]
        if not slots:
            raise HintError(
                "There is no format to choose.", tried="to choose formats", remedy='give "meta_flow", or None'
            )
        for low in range(_LOW_BITS):
            (program or self.composer).maps["format_of"][low] = slots[low % len(slots)]

    @property
    def threshold(self) -> int:
        """Bytes of the smallest frame that gets metadata; may be set while packets run."""
        return int(self.composer.maps["meta_threshold"][0])

    @threshold.setter
    def threshold(self, size_bytes: int) -> None:
        self.composer.maps["meta_threshold"][0] = size_bytes

    def want(self, wanted: Want) -> None:
        """What the composer is to find out from now on."""
        self.composer.maps["plan"][0] = {"wanted": wanted, "action": XdpAction.PASS}

    def run(self, packets: int, *, flows: int = 16, size: int | None = None, deliver: bool = False) -> Consumed:
        """Generate UDP from ``flows`` ports; the consumer drops it, or with ``deliver`` lets it on to a socket."""
        frame = udp(self.lab["client"], self.lab["server"])

        def go() -> TrafficReport:
            return generate(self.client, frame, packets, flows=flows, size=size)

        return self.watched(go, deliver)

    def send(self, frames: bytes | Sequence[bytes], packets: int | None = None, *, deliver: bool = False) -> Consumed:
        """The same for frames of one's own, in turn, from a packet socket."""
        return self.watched(lambda: send_frames(self.client, frames, packets), deliver)

    def watched(self, go: Callable[[], TrafficReport], deliver: bool = False) -> Consumed:
        """What the consumer counted while ``go()`` sent, and the ledger of it."""
        action = _TC_ACT_OK if deliver else _TC_ACT_SHOT
        self.consumer.maps["plan"][0] = {"wanted": self.tell, "action": action}
        self.lab.reset()
        before, used = self._outcomes(), self._used()
        with UdpSink(self.lab["server"]) if deliver else contextlib.nullcontext():
            report = go()
            ledger = self.lab.ledger()
        after = [new - old for new, old in zip(self._outcomes(), before, strict=True)]
        gained = {name: value - used[name] for name, value in self._used().items()}
        decoded = {label: after[slot] for slot, label in self._labels.items()}
        return Consumed(decoded, dict(zip(FOREIGN, after[_SLOTS:], strict=True)), gained, ledger, report)

    def _outcomes(self) -> list[int]:
        return list(self.consumer.maps["outcomes"].read().values())

    def _used(self) -> dict[str, int]:
        return dict(self.consumer.maps["used"][0])

    def close(self) -> None:
        """Take the lab down, and let go of the formats. Safe to call again."""
        self.lab.close()

    def __enter__(self) -> GenericPath:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def taught(consumer: Program, formats: Formats, first: int = 0, label: str = "") -> dict[int, str]:
    """Tell a consumer of formats, to be counted from slot ``first`` on: slot → name.

    Fields that it has a map for (``mark_at`` …) it is taught as well.
    """
    names = {}
    for slot, each in enumerate(formats, first):
        consumer.maps["known_formats"][each.full_id] = {"slot": slot, "bytes": each.size_bytes}
        names[slot] = f"{label}{each.name}"
    for place in ("mark", "sent_ns"):
        if f"{place}_at" in consumer.maps and any(place in each.layout for each in formats):
            formats.teach(consumer.maps[f"{place}_at"], place)
    return names
