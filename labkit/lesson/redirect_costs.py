"""What things around a redirect cost: a packet that is lost late, an observer, a bulk of one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.lab import Lab
from labkit.lesson.race import runs_scaled, scaled
from labkit.lesson.tracing import untraced
from labkit.lesson.turns import Paired, Turn, take_turns
from labkit.program.program import Program
from labkit.program.ring import RingMap
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.uapi import ProgType

__all__ = ["cost_of_a_loss", "observing_costs", "redirect_race"]

_PACKETS, _RUNS = 200_003, 7
_NEVER_NS = 1 << 62  # on the monotonic clock
_READ_S = 0.001


def _load(lab: Lab, file: str, function: str | None = None, type: ProgType = ProgType.XDP) -> Program:
    return lab.load(compile_source(path=lesson_directory() / file), function, type=type)


def _dropping(lab: Lab) -> None:
    _load(lab, "drop_all.c").attach(lab["server"]["eth0"])


def _numbers(packets: int | None, runs: int | None) -> tuple[int, int]:
    return packets or scaled(_PACKETS), runs or runs_scaled(_RUNS)


EARLY, LATE, ROUTED = "dropped at the entry", "sent on, then lost", "routed, then lost"


def cost_of_a_loss(*, packets: int | None = None, runs: int | None = None) -> Paired:
    """Every packet is lost: at the entry, by hold_back; at the way out, after that program or after bpf/router.c.

    At the way out the peer is down, and refuses each bulk. In a lab of its own; by default some 200,000 packets and 7
    runs a lane, less where ``$LAB_SCALE`` says so.
    """
    number, rounds = _numbers(packets, runs)
    with Lab(Topology.router(), name="loss") as lab:
        client, middle = lab["client"], lab["router"]
        holding, routing = _load(lab, "hold_back.c", "hold_back"), _load(lab, "router.c")
        holding.maps["ports"][0] = routing.maps["ports"][middle["eth1"].ifindex] = middle["eth1"]
        _dropping(lab)

        @contextlib.contextmanager
        def arranged(program: Program, until_ns: int, up: bool) -> Iterator[None]:
            holding.maps["until_ns"][0] = until_ns
            with program.attach(middle["eth0"]), contextlib.ExitStack() as after:
                if not up:
                    lab["server"]["eth0"].set_down()
                    after.callback(lab["server"]["eth0"].set_up)
                yield

        return take_turns(
            client["eth0"],
            udp(client, lab["server"]),
            {
                EARLY: Turn(lambda: arranged(holding, _NEVER_NS, up=True)),
                LATE: Turn(lambda: arranged(holding, 0, up=False)),
                ROUTED: Turn(lambda: arranged(routing, 0, up=False)),
            },
            packets=number,
            runs=rounds,
            title="What a lost packet costs",
            notes=("Each rate has the making of the packets in it. The difference counts: ns more.",),
        )


UNWATCHED, BULK, PACKET, LINE = "nobody watches", "a program per bulk", "a program per packet", "a line per packet"


def observing_costs(*, packets: int | None = None, runs: int | None = None) -> Paired:
    """The same redirect with nobody watching, and with three observers at the kernel's tracepoints, in a lab of its own.

    Where tracing programs don't run, the first lane alone and a note.
    """
    number, rounds = _numbers(packets, runs)
    with Lab(Topology.router(), name="observed") as lab:
        client, middle = lab["client"], lab["router"]
        program = _load(lab, "redirect_devmap.c")
        program.maps["ports"][0] = middle["eth1"]
        program.attach(middle["eth0"])
        _dropping(lab)
        lanes = {UNWATCHED: Turn(contextlib.nullcontext)}
        notes: tuple[str, ...] = ()
        journal = None
        if reason := untraced(lab):
            notes = (f"{reason}: what observing costs can't be shown.",)
        else:
            journal = _load(lab, "log_watch.c", type=ProgType.RAW_TRACEPOINT)
            lanes |= _observers(lab, program, journal)
        made = take_turns(
            client["eth0"],
            udp(client, lab["server"]),
            lanes,
            packets=number,
            runs=rounds,
            title="What observing costs",
            notes=notes,
        )
        return made if journal is None else Paired(made.title, number, made.lanes, "", (_said(journal),))


def _observers(lab: Lab, program: Program, journal: Program) -> dict[str, Turn]:
    """One lane for each way to watch what goes through the map of ``program``."""
    ident, out = program.maps["ports"].id, lab["router"]["eth1"]
    bulk = _load(lab, "hold_back.c", "see_drops", type=ProgType.RAW_TRACEPOINT)
    bulk.maps["watched"][{"netns": out.host.inode, "ifindex": out.ifindex}] = 1
    packet = _load(lab, "per_packet_watch.c", type=ProgType.RAW_TRACEPOINT)
    for each in (packet, journal):
        each.maps["watched_map"][0] = ident

    def watching(observer: Program, tracepoint: str) -> Callable[[], AbstractContextManager[object]]:
        return lambda: observer.watch(tracepoint)

    return {
        BULK: Turn(watching(bulk, "xdp_devmap_xmit")),
        PACKET: Turn(watching(packet, "xdp_redirect")),
        LINE: Turn(lambda: _reading(journal)),
    }


@contextlib.contextmanager
def _reading(journal: Program) -> Iterator[None]:
    """A line for each packet, and a reader that takes out what it can."""
    ring, over = journal.maps["journal"], threading.Event()
    assert isinstance(ring, RingMap)

    def read() -> None:
        while not over.wait(_READ_S):
            ring.drain()

    reader = threading.Thread(target=read, name="lab-journal", daemon=True)
    with journal.watch("xdp_redirect"):
        reader.start()
        try:
            yield
        finally:
            over.set()
            reader.join()


def _said(journal: Program) -> str:
    written, lost = journal.maps["lines"][0], journal.maps["lines"][1]
    return (
        f"Of {written + lost:,} lines, {lost:,} were lost: they found the log full, as its reader could not keep up. The "
        "packets were all there."
    )


INDEX, MAP = "bpf_redirect", "bpf_redirect_map"
ONE_INDEX, ONE_MAP = "bpf_redirect, one by one", "bpf_redirect_map, one by one"


def redirect_race(*, packets: int | None = None, runs: int | None = None) -> Paired:
    """By the interface's index and by a device map, in bulks and one by one, in a lab of its own."""
    number, rounds = _numbers(packets, runs)
    with Lab(Topology.router(), name="bulks") as lab:
        client, middle = lab["client"], lab["router"]
        index, by_map = _load(lab, "redirect_ifindex.c"), _load(lab, "egress.c", "to_port")
        index.maps["out"][0] = middle["eth1"].ifindex
        by_map.maps["ports"][0] = middle["eth1"]
        _dropping(lab)

        def attached(program: Program, batch: int) -> Turn:
            return Turn(lambda: program.attach(middle["eth0"]), batch)

        return take_turns(
            client["eth0"],
            udp(client, lab["server"]),
            {
                INDEX: attached(index, 64),
                MAP: attached(by_map, 64),
                ONE_INDEX: attached(index, 1),
                ONE_MAP: attached(by_map, 1),
            },
            packets=number,
            runs=rounds,
            title="Redirect by index and by map",
            notes=(
                "One by one: the sender too hands on each frame alone, and each step of the way is done for one frame.",
            ),
        )
