"""One redirect, two ways to give a page back: to the pool whose number the frame carries, or by a page reference."""

from __future__ import annotations

from collections.abc import Callable

from labkit.buffers import Pool, one_cpu
from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.buffers.counted import Answer, Counted, Look, looking
from labkit.lesson.buffers.recycling import must_account
from labkit.lesson.page import Table
from labkit.lesson.pictures import bars
from labkit.lesson.race import scaled
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.raw import send_frames

__all__ = ["BY_NUMBER", "BY_REFERENCE", "OWNERS", "out_and_back"]

BY_NUMBER, BY_REFERENCE = "made by the generator", "sent by the client's stack"
OWNERS = ("the pool that made it", "the pool of the interface that dropped it", "no pool: the page allocator")
"""Where a page may go at its frame's end: the choices of a prediction."""

_SIZE = 1_500  # bytes: one to a page, whoever makes it
_FRAMES = 20_011


def out_and_back(packets: int | None = None) -> Counted:
    """Frames that go from the client by the router to the server and all the way back, redirected at each turn, and are
    dropped where they came from; then the same frames from the client's own stack. Lab "out-and-back".

    20,011 frames by default, fewer where ``$LAB_SCALE`` says so.
    """
    number = packets or scaled(_FRAMES)
    with Lab(Topology.router(), name="out-and-back") as lab:
        _arrange(lab)
        source = lab["client"]["eth0"]
        frame = udp(lab["client"], lab["server"], size=_SIZE)
        ways: dict[str, Callable[[], object]] = {
            BY_NUMBER: lambda: generate(source, frame, number),
            BY_REFERENCE: lambda: send_frames(source, frame, number),
        }
        rows, found = [], {}
        for name, send in ways.items():
            with one_cpu(), looking(lab) as look:
                lab.reset()
                send()
                ledger = lab.ledger()
                must_account(ledger, number)
                found[name] = _recycled(look, number)
                rows.append((name, number, ledger.losses.get("XDP_DROP", 0), *_columns(look, number)))
    head = (
        "frames",
        "sent",
        "dropped at the client",
        "pages were of",
        "pages taken",
        "given back to the allocator",
        "recycled",
    )
    picture = None
    shares = {name: 100 * share for name, share in found.items() if share is not None}
    if shares:
        picture = bars(shares, "%", "Frames on a page that its pool had used before")
    answers: dict[str, Answer] = {"pool-reference": shares.get(BY_REFERENCE), "pool-owner": _owner(look, rows)}
    return Counted(Table(head, tuple(rows)), answers, picture, look.notes)


def _arrange(lab: Lab) -> None:
    client, router, server = lab["client"], lab["router"], lab["server"]
    forward = compile_source(path=lesson_directory() / "redirect_devmap.c")
    for at, out, to in (
        (router["eth0"], router["eth1"], server["eth0"]),
        (router["eth1"], router["eth0"], client["eth0"]),
    ):
        program = lab.load(forward)
        program.maps["ports"][0] = out
        program.maps["next_hop"][0] = {"bytes": list(_mac(to))}
        program.attach(at)
    for name, at in (("tx_back.c", server["eth0"]), ("drop_all.c", client["eth0"])):
        lab.load(compile_source(path=lesson_directory() / name)).attach(at)


def _mac(interface: Interface) -> bytes:
    return bytes.fromhex(interface.mac.replace(":", ""))


def _columns(look: Look, number: int) -> tuple[object, ...]:
    if look.pools is None:
        return None, None, None, None
    share = _recycled(look, number)
    pools = _used(look)
    taken, returned = sum(each.taken for each in pools), sum(each.returned for each in pools)
    owners = ", ".join(dict.fromkeys(_whose(each) for each in pools)) or None
    return owners, taken, returned, f"{100 * (share or 0):.1f} %"


def _used(look: Look) -> list[Pool]:
    """Pools that took a page from the allocator, or gave one back; runs that ended among them."""
    assert look.pools is not None
    found = look.pools.read()
    return [each for each in (*found.pools, *found.gone) if each.taken or each.returned]


def _whose(pool: Pool) -> str:
    return f"{pool.host} {pool.interface}" if pool.interface else f"the generator at {pool.host}"


def _recycled(look: Look, number: int) -> float | None:
    return 1 - min(sum(each.taken for each in _used(look)), number) / number if look.pools else None


def _owner(look: Look, rows: list[tuple[object, ...]]) -> Answer:
    """Where the generated frames' pages went: to the only pool that moved, unless none came back there."""
    if look.pools is None:
        return None
    _, sent, _, owners, taken, _, _ = rows[0]
    assert isinstance(taken, int)
    assert isinstance(sent, int)
    if owners != "the generator at client":
        return OWNERS[1]
    return OWNERS[0] if taken < sent else OWNERS[2]
