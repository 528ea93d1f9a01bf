"""What metadata costs within XDP: composing it before a drop, and a choice by its hash against one by the headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.hints.formats import Formats
from labkit.kernel import bpf
from labkit.lab import Lab
from labkit.lesson.hints_cost import NEVER, Composer
from labkit.lesson.hints_cost_checks import checked_counts, checked_sizes
from labkit.lesson.race import Lane
from labkit.lesson.turns import Paired, must_balance
from labkit.lesson.workshop import usable_cpus
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.volleys import Volleys

__all__ = ["BELOW", "BY_HASH", "BY_PARSING", "COMPOSED", "NO_CHOICE", "PLAIN", "cost_of_composing", "hash_or_parse"]

_PACKETS, _RUNS = 8_009, 31
_TEST_RUNS = 10_007
_LOST_2022_MPPS = 15  # the cover letter of the generic hints series, June 2022: a drop of 64 bytes, with metadata
_TESTED = {"by the hash in the metadata": "spread_by_hash", "by parsing the headers": "spread_by_parsing"}

PLAIN, BELOW = "dropped", "below the threshold"
COMPOSED = {
    Composer.GIVEN: "composed, values given",
    Composer.HASH: "composed, hash found",
    Composer.TIME: "composed, hash and time",
}
NO_CHOICE, BY_HASH, BY_PARSING = "no choice", *_TESTED


@dataclass(frozen=True)
class _Turn:
    """A lane: which program is attached, and what is written to its maps before."""

    program: Program
    arrange: Callable[[], None] = lambda: None


class _Dropping:
    """A client, and a server whose programs all come from bpf/cost_metadata.c and drop; ``metadata`` before each frame."""

    def __init__(self, name: str, size: int, *, with_metadata: bool) -> None:
        self.spec = compile_source(path=lesson_directory() / "cost_metadata.c")
        self.lab = Lab(Topology.pair(mtu=max(1500, size - 14)), name=name)
        try:
            self.formats = Formats.load(self.spec)
            self.lab.on_close(self.formats.close)
            self.frame = udp(self.lab["client"], self.lab["server"], size=size)
            self.metadata = self.formats["meta_generic"].encode(hash=1, hash_type=1) if with_metadata else b""
            self.drop = self.load("cost_drop")
            self.formats.tell(self.drop)
        except BaseException:
            self.lab.close()
            raise

    def load(self, function: str) -> Program:
        return self.lab.load(self.spec, function)

    def take_turns(
        self, turns: Mapping[str, _Turn], packets: int, runs: int, title: str, notes: tuple[str, ...]
    ) -> Paired:
        """Volleys through each lane in turn, every other round in reverse order; each lane's ledger must balance."""
        out, order = self.lab["client"]["eth0"], list(turns.items())
        rates: dict[str, list[float]] = {name: [] for name in turns}
        link = order[0][1].program.attach(self.lab["server"]["eth0"])
        ledgers = {}
        with Volleys(out, self.frame, cpu=usable_cpus()[0], metadata=self.metadata, prepare=False) as volleys:
            for number in range(-1, runs):  # the first round warms up
                for name, turn in order if number % 2 else reversed(order):
                    turn.arrange()
                    link.replace(turn.program)
                    seconds = volleys.send(packets)
                    if number >= 0:
                        rates[name].append(packets / seconds / 1e6)
            for name, turn in order:
                turn.arrange()
                link.replace(turn.program)
                self.lab.reset()
                volleys.send(packets)
                ledgers[name] = self.lab.ledger()
                must_balance(name, ledgers[name], packets)
        return Paired(title, packets, tuple(Lane(name, tuple(rates[name]), ledgers[name]) for name in turns), "", notes)

    def __enter__(self) -> _Dropping:
        return self

    def __exit__(self, *_: object) -> None:
        self.lab.close()


def cost_of_composing(*, size: int = 64, packets: int | None = None, runs: int | None = None) -> Paired:
    """XDP_DROP of small frames: without a word of metadata, with the threshold asked for, and with metadata composed.

    Lab "composing"; by default 31 volleys of 8,009 packets a lane, fewer where ``$LAB_SCALE`` says so. ``more_ns`` tells
    what each costs a packet.
    """
    checked_sizes((size,))
    number, rounds = checked_counts(packets, runs, (_PACKETS, _RUNS), "runs")
    with _Dropping("composing", size, with_metadata=False) as lab:
        plain = lab.lab.load(compile_source(path=lesson_directory() / "drop_all.c"))

        def composing(composer: Composer) -> _Turn:
            def arrange() -> None:
                lab.drop.maps["meta_threshold"][0] = 0 if composer.here else NEVER
                lab.drop.maps["plan"][0] = {"cpu": 0, "find_out": composer.find_out}

            return _Turn(lab.drop, arrange)

        turns = {PLAIN: _Turn(plain), BELOW: composing(Composer.NOBODY)}
        turns |= {name: composing(composer) for composer, name in COMPOSED.items()}
        title = f"What metadata costs a drop, frames of {size} bytes"
        return lab.take_turns(turns, number, rounds, title, (_lost_in_2022(),))


def _lost_in_2022() -> str:
    """What a loss of so many packets a second is for each packet depends on the rate it is a loss from."""
    examples = " or ".join(
        f"{1e3 / (rate - _LOST_2022_MPPS) - 1e3 / rate:.1f} ns a packet of {rate} Mpps" for rate in (30, 60, 120)
    )
    return (
        f"The thread of 2022 lost {_LOST_2022_MPPS} Mpps at this place, and doesn't say from what: that is {examples}."
    )


def hash_or_parse(*, size: int = 64, packets: int | None = None, runs: int | None = None) -> Paired:
    """A CPU chosen for each packet by the hash in its metadata, or by its headers; then the packet is dropped.

    Every frame comes with metadata, in all lanes. Lab "choice"; by default 31 volleys of 8,009 packets a lane, fewer where
    ``$LAB_SCALE`` says so. The notes have what the kernel's own clock says of bpf/generic_spread.c (BPF_PROG_TEST_RUN).
    """
    checked_sizes((size,))
    number, rounds = checked_counts(packets, runs, (_PACKETS, _RUNS), "runs")
    with _Dropping("choice", size, with_metadata=True) as lab:
        lab.drop.maps["meta_threshold"][0] = NEVER
        turns = {
            NO_CHOICE: _Turn(lab.drop),
            BY_HASH: _Turn(lab.load("cost_by_hash")),
            BY_PARSING: _Turn(lab.load("cost_by_parsing")),
        }
        notes = (
            "Which CPU it would be is counted, and the packet dropped: what comes after the choice is the same for both.",
            "The frame's first bytes are in this CPU's cache: the sender runs on it. Headers that had to be fetched from "
            "memory would make parsing dearer.",
            _by_the_kernels_clock(lab),
        )
        title = f"Which CPU? By the hash, or by the headers; frames of {size} bytes"
        return lab.take_turns(turns, number, rounds, title, notes)


def _by_the_kernels_clock(lab: _Dropping) -> str:
    """The mean of many runs over one frame, which needs no interface and carries nothing out."""
    spec = compile_source(path=lesson_directory() / "generic_spread.c")
    found = []
    for function in _TESTED.values():
        with lab.lab.load(spec, function) as program:
            program.maps["cpus_in_use"][0] = 1
            tries = [
                bpf.prog_test_run(program.fd, lab.frame, repeat=_TEST_RUNS, metadata=lab.metadata).duration_ns
                for _ in range(5)
            ]
        found.append(f"{function} {min(tries)} ns")
    return f"BPF_PROG_TEST_RUN, {_TEST_RUNS:,} times over one frame, the quickest of 5: {', '.join(found)}."
