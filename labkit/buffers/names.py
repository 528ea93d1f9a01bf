"""Which pool is which: small numbers, hosts, interfaces and queues for the kernel's numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from labkit.buffers.pool import KINDS, Pool
from labkit.host import Host
from labkit.interface import Interface
from labkit.lab import Lab

__all__ = ["PoolNames"]

_WORD = 1 << 32  # the kernel counts pages in 32 bits
Row = Mapping[str, Any]


class PoolNames:
    """Remembers every pool that a watch met."""

    def __init__(self, lab: Lab) -> None:
        self._hosts: dict[int, Host] = {host.inode: host for host in lab.hosts.values()}
        self._interfaces = {(each.host.inode, each.ifindex): each for each in lab.interfaces}
        self._numbers: dict[int, int] = {}
        self._words: dict[int, str] = {}
        self._queues: dict[int, tuple[Interface, int]] = {}
        self._runs: Counter[str] = Counter()

    def is_queue(self, ident: int, interface: Interface, queue: int) -> None:
        """Note whose receive queue the pool serves."""
        self._queues[ident] = interface, queue

    def named(self, rows: Mapping[int, Row], own: Mapping[int, Mapping[str, int]], now_ns: int) -> list[Pool]:
        """The pools of ``rows``, in the order they were made; ``own`` are the own numbers of those alive."""
        ordered = sorted(rows.items(), key=lambda each: (each[1]["born_ns"], each[0]))
        return sorted(
            (self._pool(ident, row, own.get(ident), now_ns) for ident, row in ordered), key=lambda p: p.number
        )

    def _pool(self, ident: int, row: Row, own: Mapping[str, int] | None, now_ns: int) -> Pool:
        kind = KINDS[row["owner"]]
        host, interface, queue = self._place(ident, row, kind)
        number = self._numbers.setdefault(ident, len(self._numbers) + 1)
        return Pool(
            number=number,
            ident=ident,
            what=self._what(ident, kind, host, interface, queue),
            kind=kind,
            host=host,
            interface=interface,
            queue=queue,
            held=own["hold"] if own else row["last_hold"],
            released=own["release"] if own else row["last_release"],
            counted_held=(row["held_before"] + row["held"]) % _WORD,
            counted_released=(row["released_before"] + row["released"]) % _WORD,
            taken=row["held"],
            returned=row["released"],
            cached=own["cached"] if own else 0,
            ring=own["ring"] if own else 0,
            open=own["open"] if own else 0,
            closing=bool(row["closing"]) and not row["ended_ns"],
            tries=row["tries"],
            last_in_flight=row["last_in_flight"] if row["tries"] else None,
            alive=not row["ended_ns"],
            seconds=max(0, (row["ended_ns"] or now_ns) - row["born_ns"]) / 1e9,
        )

    def _place(self, ident: int, row: Row, kind: str) -> tuple[str, str, int | None]:
        inode, ifindex = row["at"]["netns"], row["at"]["ifindex"]
        host = self._hosts[inode].name
        if kind == "run":
            return host, "", None
        if ident in self._queues:
            known, queue = self._queues[ident]
            return host, known.name, queue
        interface = self._interfaces.get((inode, ifindex))
        return host, interface.name if interface else f"device {ifindex}", None

    def _what(self, ident: int, kind: str, host: str, interface: str, queue: int | None) -> str:
        if kind == "queue":
            return f"receive queue{'' if queue is None else f' {queue}'} of {host} {interface}"
        if ident not in self._words:
            self._runs[host] += 1
            self._words[ident] = f"generator run {self._runs[host]} at {host}"
        return self._words[ident]
