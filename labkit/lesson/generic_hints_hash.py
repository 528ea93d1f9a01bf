"""Exercise of lesson 05: choose a CPU by the hash that came along, and treat sensibly what came without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.hints import Formats, GenericMeta
from labkit.lab import Lab
from labkit.lesson import odd_frames
from labkit.lesson.cpumap import Landing, Spread, missing_maps
from labkit.lesson.generic_hints_foreign import give_bytes
from labkit.lesson.practice import Exercise, Row, register
from labkit.program.program import Program
from labkit.program.spec import ProgramSpec
from labkit.topology import Topology

__all__ = ["USE_THE_HASH"]

_COPIES, _FLOWS = 5, 64
_ANY, _TYPE = 0x9E37_79B1, 41  # a hash of addresses and UDP ports
_JUNK = bytes(range(0x41, 0x61))
_PACKET = (
    "what the choice is made of: the hash in the metadata, generic->hash, and nothing of the packet. The packets of this "
    "row have other headers, and the same hash"
)
_LEFT = (
    "from which side the metadata is read: the generic part is the last before the packet, whatever a format has further left. "
    "META_GENERIC_OF(ctx) finds it"
)
_BITS = "which bits of the hash decide, and how many: (u64)hash * *count >> 32, or hash % *count, makes use of all CPUs"
_RANGE = "the CPU's number: cpus_in_use says how many there are, counted from 0; the slots behind are empty"
_UNUSED = "packets with a hash: they go to a CPU, one of the first cpus_in_use of the map cpus"
_ZERO = "0 is a hash like any other: hash_type says whether there is one"
_MAGIC = (
    "the magic: without it these are somebody else's bytes, and what looks like a hash is none. META_GENERIC_OF(ctx) looks "
    "at it"
)
_TYPELESS = "hash_type: where it is 0, nobody filled the hash in"
_WITHOUT = (
    "metadata is advice: a packet that came without goes on, and here that means it passes. META_GENERIC_OF(ctx) is NULL "
    "for such a packet"
)


class HashTrial:
    """The program on trial on the server; on the router, one that puts given bytes before each packet and sends it on."""

    def __init__(self, spec: ProgramSpec, function: str | None = None) -> None:
        self.lab = Lab(Topology.router(), name="check")
        try:
            self.client, self.server = self.lab["client"]["eth0"], self.lab["server"]["eth0"]
            self.program: Program = self.lab.load(spec, function)
            self.program.attach(self.server)
            self.writer = self.lab.load(compile_source(path=lesson_directory() / "lab" / "meta_bytes.c"))
            self.writer.maps["ports"][0] = self.lab["router"]["eth1"]
            self.writer.attach(self.lab["router"]["eth0"])
            self.formats, self.others = Formats.load(), Formats.load()
            for each in (self.formats, self.others):
                self.lab.on_close(each.close)
            if "meta_formats" in self.program.maps:
                self.formats.tell(self.program)
        except BaseException:
            self.lab.close()
            raise

    def passed(self) -> int:
        """Packets that the program let through to the stack, by the driver."""
        found = self.server.driver_statistics()
        gone = ("xdp_redirect", "xdp_drops", "xdp_tx")
        return found["rx_queue_0_xdp_packets"] - sum(found[f"rx_queue_0_{name}"] for name in gone)

    def __enter__(self) -> HashTrial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lab.close()


def _generic(trial: HashTrial, hash: int, hash_type: int = _TYPE) -> bytes:
    known = trial.formats["meta_generic"]
    return GenericMeta(hash=hash, hash_type=hash_type).encode(known.type_id, known.btf_id)


def _many_packets() -> list[bytes]:
    """Packets that have nothing in common but what is written before them."""
    flows = [odd_frames.udp(dport=port, sport=65_535 - 997 * port) for port in range(1, 17)]
    return [
        *flows,
        odd_frames.tcp(80),
        odd_frames.ping(),
        odd_frames.arp(),
        odd_frames.later_fragment(),
        odd_frames.tagged(),
    ]


def _run(trial: HashTrial) -> list[Row]:
    missing = missing_maps(trial)
    if missing:
        return missing
    with Spread(trial) as spread:
        first, landing = _one_hash(trial, spread)
        chosen = [first, *_formats(trial, spread, landing), *_hashes(trial, spread)]
        without = list(_passing(trial, spread))
    return [*_one_cause(chosen), *_one_cause(without)]


def _one_cause(rows: list[Row]) -> list[Row]:
    """Where even the first row is different, its cause is what to look at, and nothing else."""
    return rows if rows[0].good else [replace(row, look=rows[0].look) for row in rows]


def _one_hash(trial: HashTrial, spread: Spread) -> tuple[Row, Landing]:
    give_bytes(trial.writer, _generic(trial, _ANY))
    packets, before = _many_packets(), trial.passed()
    landing = spread.send(packets)
    look = _UNUSED if trial.passed() > before else _PACKET if landing.places > 1 else _RANGE
    good = landing.places == 1 and look != _UNUSED and (spread.single or not landing.rest)
    what = f"{len(packets)} packets, one hash"
    return Row(what, "all on one CPU", landing.words(spread.rest), good, look), landing


def _formats(trial: HashTrial, spread: Spread, alone: Landing) -> Iterator[Row]:
    """The same hash in other formats, known to the lab or to nobody here, and behind somebody's bytes."""
    values = {"hash": _ANY, "hash_type": _TYPE}
    written = {
        "in meta_flow": trial.formats["meta_flow"].encode(**values),
        "in meta_latency": trial.formats["meta_latency"].encode(**values),
        "in another lab's meta_flow": trial.others["meta_flow"].encode(**values),
        "behind 32 bytes of another program": _JUNK + _generic(trial, _ANY),
    }
    for what, content in written.items():
        give_bytes(trial.writer, content)
        landing = spread.send([odd_frames.udp()] * _COPIES)
        good = set(landing.by_cpu) == set(alone.by_cpu) and landing.places == 1
        expected = ", ".join(f"CPU {cpu}" for cpu in alone.by_cpu) or spread.rest
        yield Row(f"the same hash {what}", expected, landing.words(spread.rest), good, _LEFT)


def _hashes(trial: HashTrial, spread: Spread) -> Iterator[Row]:
    flows: dict[int, int] = dict.fromkeys(range(spread.count), 0)
    torn = nowhere = 0
    for number in range(_FLOWS):
        give_bytes(trial.writer, _generic(trial, (number + 1) * _ANY & 0xFFFF_FFFF))
        landing = spread.send([odd_frames.udp()] * 2)
        place = next(iter(landing.by_cpu), 1 if spread.single else -1)
        torn += landing.places > 1
        nowhere += place < 0
        flows[place] = flows.get(place, 0) + 1
    least = _FLOWS // spread.count // 4
    words = ", ".join(f"CPU {cpu}: {found}" for cpu, found in sorted(flows.items()) if cpu >= 0)
    words += f", on no CPU: {nowhere}" if nowhere else ""
    fair = all(flows[cpu] >= least for cpu in range(spread.count)) and not nowhere
    yield Row(f"{_FLOWS} hashes: on several CPUs", "0", str(torn), not torn, _PACKET)
    yield Row(f"{_FLOWS} hashes: by CPU", f"{least} or more on each", words, fair, _RANGE if nowhere else _BITS)
    spread.use(1)
    give_bytes(trial.writer, _generic(trial, 0xFFFF_FFFF))
    landing = spread.send([odd_frames.udp()] * _COPIES)
    spread.use(spread.count)
    good = landing.by_cpu == {0: _COPIES}
    yield Row("the highest hash, cpus_in_use is 1", f"CPU 0: {_COPIES}", landing.words("on no CPU"), good, _RANGE)
    give_bytes(trial.writer, _generic(trial, 0))
    landing = spread.send([odd_frames.udp()] * _COPIES)
    yield Row("the hash 0", f"CPU 0: {_COPIES}", landing.words(spread.rest), landing.by_cpu == {0: _COPIES}, _ZERO)


def _passing(trial: HashTrial, spread: Spread) -> Iterator[Row]:
    """What has no hash to go by: it passes."""
    known = _generic(trial, _ANY)
    for what, content, look in (
        ("no metadata", b"", _WITHOUT),
        ("8 bytes of another program", _JUNK[:8], _MAGIC),
        ("32 bytes of another program", _JUNK, _MAGIC),
        ("the generic part with another magic", known[:-2] + b"\x34\x12", _MAGIC),
        ("the generic part, hash_type 0", _generic(trial, _ANY, 0), _TYPELESS),
        ("its last 12 bytes alone", known[-12:], _WITHOUT),
    ):
        give_bytes(trial.writer, content)
        before = trial.passed()
        landing = spread.send([odd_frames.udp()] * _COPIES)
        passed = trial.passed() - before
        words = "passed" if passed == _COPIES else landing.words("dropped, or sent to an empty slot")
        yield Row(what, "passed", words, passed == _COPIES, look)


USE_THE_HASH = register(
    Exercise(
        "use-the-hash",
        "A CPU by the hash that came along",
        "Input: packets with self-describing metadata, or with other bytes before them, or none. Where metadata of whatever "
        "format has a hash, send the packet to one of the first cpus_in_use CPUs of the map cpus: the same hash always to the "
        "same CPU, many hashes to all CPUs, and nothing else counts: don't look at the packet. Pass a packet without a hash to "
        "go by.",
        "use_the_hash",
        (
            "The hash is in the generic part, and that is the last before the packet in every format: no need to know the "
            "format, or its ids.",
            "META_GENERIC_OF(ctx), of bpf/common/meta.h, gives the generic part, or NULL where none has the right magic.",
            "Two things make a hash usable: the generic part is there, and its hash_type isn't 0. The hash itself may be 0.",
            "(u64)generic->hash * *count >> 32 is a number below *count that all hashes share fairly; redirect_map() takes it.",
        ),
        _run,
        HashTrial,
    )
)
