"""Where every page in flight is, as far as counts tell; what they can't tell apart is one place that says so."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.buffers.buffers import Buffers
from labkit.observe.sample import Sample

__all__ = ["Place", "Places", "places_of"]


@dataclass(frozen=True)
class Place:
    """``pages`` at a place, by ``source``. Not ``sure``: at most so many, as not all that waits there need be a pool's."""

    name: str
    pages: int
    source: str
    sure: bool


@dataclass(frozen=True)
class Places:
    """All places; their pages add up to ``total``, the pages in flight."""

    places: tuple[Place, ...]

    @property
    def total(self) -> int:
        """Pages in flight."""
        return sum(each.pages for each in self.places)

    def __getitem__(self, name: str) -> int:
        """The pages at a place. Raises KeyError."""
        return {each.name: each.pages for each in self.places}[name]

    def __str__(self) -> str:
        lines = [
            f"{each.name:<16} {each.pages:>9,}  {'' if each.sure else 'at most; '}{each.source}" for each in self.places
        ]
        return "\n".join([*lines, f"{'in flight':<16} {self.total:>9,}"])


def places_of(buffers: Buffers, waiting: int, sample: Sample) -> Places:
    """Share the pages out: first those at home, by the pools' own numbers, then what waits in queues that can be counted.

    ``waiting`` are the frames in the receive rings. A frame that waits need not be on a pool's page: a local sender's
    stays on the sender's memory where it can. So no place gets more pages than are still unaccounted for.
    """
    sockets = sum(count for host in sample.hosts.values() for count in host.queued.values())
    cpus = sum(each.waiting for each in (sample.queues or {}).values())
    home = [
        Place("pool cache", sum(each.cached for each in buffers.pools), "the pool's own number", True),
        Place("pool ring", sum(each.ring for each in buffers.pools), "pages in the pool's ring, counted", True),
        Place("open page", sum(each.open for each in buffers.pools), "the page a pool cuts pieces from", True),
    ]
    left, queued = buffers.out, []
    for name, frames, source in (
        ("receive ring", waiting, "frames in the rings of the lab's interfaces, counted"),
        ("cpumap queue", cpus, "frames put in less frames taken out, by tracepoints"),
        ("socket", sockets, "datagrams that wait in the lab's sinks"),
    ):
        pages = max(0, min(left, frames))
        queued.append(Place(name, pages, source, pages == 0))
        left -= pages
    rest = Place("elsewhere", left, "what is left: program, stack, other sockets; no count tells them apart", left == 0)
    return Places((*home, *queued, rest))
