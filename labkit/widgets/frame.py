"""From two readings of a lab to what the panel shows: one JSON object a tick.

Pure: no kernel, no clock, no comm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.observe.ledger import Ledger, Row
from labkit.observe.sample import InterfaceCounters, Sample
from labkit.topology import Topology
from labkit.widgets.badge import Badge, stretches_of, verdicts_at
from labkit.widgets.cpus import by_cpu
from labkit.widgets.statistics import moved

__all__ = ["Badge", "Reading", "Shown", "build_frame", "describe_topology", "verdicts_at"]

_MOST_SERIES = 6
_MOST_EVENTS = 8
_NOTES = ("Checksum and VLAN offloads off on senders.", "IPv6 off.", "Neighbours fixed.")
# Losses that a program decided on: its badge tells them, so the picture marks the others only.
_OWN_VERDICTS = {"XDP_DROP", "XDP_ABORTED", "unknown verdict", "XDP drop (driver)"}


@dataclass(frozen=True)
class Reading:
    """Every counter at one moment, and the balance since the lab's last reset."""

    sample: Sample
    ledger: Ledger


@dataclass(frozen=True)
class Shown:
    """What a tick shows besides counters.

    ``state`` idle, running or stopped (the panel adds replaced and closed); ``elapsed_s`` of the
    present traffic; ``hosts`` up to two lines a host; ``events`` (seconds, level, text);
    ``error`` (text, remedy) or None; ``epoch`` grows with every reset; ``statistics`` whether the
    statistics that changed are looked at; ``offloads`` of each interface, in words.
    """

    state: str = "idle"
    elapsed_s: float = 0.0
    badges: Sequence[Badge] = ()
    hosts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    events: Sequence[tuple[float, str, str]] = ()
    error: tuple[str, str] | None = None
    epoch: int = 0
    statistics: bool = False
    offloads: Mapping[str, str] = field(default_factory=dict)


def describe_topology(topology: Topology, name: str) -> dict[str, Any]:
    """What never changes: names, addresses, links, and what the lab keeps out of the counts."""
    return {
        "name": name,
        "title": _title(topology),
        "hosts": [
            {"name": host, "address": ", ".join(end.ip for end in topology.ends_of(host)[:2])}
            for host in topology.hosts
        ],
        "links": [
            {side: {"host": end.host, "interface": end.interface} for side, end in (("a", link.a), ("b", link.b))}
            for link in topology.links
        ],
        "notes": list(_NOTES),
    }


def _title(topology: Topology) -> str:
    hosts = topology.hosts
    return " – ".join(hosts) if len(hosts) < 5 else f"{topology.shape} of {len(hosts)} hosts"


def build_frame(
    seq: int,
    topology: Topology,
    present: Reading,
    past: Reading | None,
    baseline: Sample,
    shown: Shown,
    *,
    exact: Ledger | None = None,
) -> dict[str, Any]:
    """The frame ``seq``: counts since ``baseline`` (the last reset), rates from ``past`` to now.

    The ledger shown is ``exact`` where it is given, else that of ``present``.
    """
    rates = _Rates(present, past)
    return {
        "seq": seq,
        "epoch": shown.epoch,
        "state": shown.state,
        "elapsed_s": round(shown.elapsed_s, 1),
        "links": [
            {
                "pps_ab": rates.received(f"{link.b.host} {link.b.interface}"),
                "pps_ba": rates.received(f"{link.a.host} {link.a.interface}"),
            }
            for link in topology.links
        ],
        "losses": _losses(topology, present.ledger, rates),
        "interfaces": [
            _interface(each, where, rates, shown.offloads.get(where, ""))
            for where, each in present.sample.interfaces.items()
        ],
        "programs": [_program(badge, present.sample, past, baseline, rates) for badge in shown.badges],
        "hosts": {host: list(lines) for host, lines in shown.hosts.items()},
        "series": _series(present.ledger, rates),
        "ledger": _ledger(exact or present.ledger, settled=rates.quiet),
        "events": [
            {"t_s": round(t, 1), "level": level, "text": text} for t, level, text in shown.events[-_MOST_EVENTS:]
        ],
        "moved": moved(present.sample, past.sample if past else None, baseline) if shown.statistics else [],
        "cpus": by_cpu(present.sample, past.sample if past else None, baseline) if shown.statistics else [],
        "error": None if shown.error is None else {"text": shown.error[0], "remedy": shown.error[1]},
    }


class _Rates:
    """Packets a second between two readings; 0 where there is no earlier one."""

    def __init__(self, present: Reading, past: Reading | None) -> None:
        self._present, self._past = present, past
        self._seconds = present.sample.time_s - past.sample.time_s if past is not None else 0.0
        self._before = {_key(row): row.packets for row in past.ledger.rows} if past is not None else {}

    def of(self, now: int, before: int) -> float:
        return round(max(0, now - before) / self._seconds, 1) if self._seconds > 0 else 0.0

    def received(self, where: str) -> float:
        """What came in at an interface, whatever became of it."""
        return self._link(where, "rx_packets")

    def left(self, where: str) -> float:
        """What went out at an interface."""
        return self._link(where, "tx_packets")

    def _link(self, where: str, counter: str) -> float:
        now, before = self._present.sample.interfaces.get(where), None
        if self._past is not None:
            before = self._past.sample.interfaces.get(where)
        if now is None or before is None:
            return 0.0
        return self.of(now.link.get(counter, 0), before.link.get(counter, 0))

    def row(self, row: Row) -> float:
        return self.of(row.packets, self._before.get(_key(row), 0)) if self._past is not None else 0.0

    @property
    def quiet(self) -> bool:
        """Whether nothing was sent between the readings: then the ledger has to come out even."""
        return self._past is not None and self._past.ledger.sent == self._present.ledger.sent


def _interface(counters: InterfaceCounters, where: str, rates: _Rates, offloads: str) -> dict[str, Any]:
    return {
        "host": counters.host,
        "interface": where.partition(" ")[2],
        "peer": counters.peer,
        "up": counters.up,
        "mtu": counters.mtu,
        "mode": counters.mode,
        "rx_pps": rates.received(where),
        "tx_pps": rates.left(where),
        "offloads": offloads,
    }


def _key(row: Row) -> tuple[str, str, str]:
    return (row.kind, row.key, row.where)


def _losses(topology: Topology, ledger: Ledger, rates: _Rates) -> list[dict[str, Any]]:
    """Losses to mark in the picture; what a program dropped on purpose is in its badge already."""
    found = []
    for row in ledger.rows:
        if row.kind != "loss" or not row.packets or row.key in _OWN_VERDICTS:
            continue
        place = _place(topology, row.where)
        if place is not None:
            found.append({**place, "name": row.name, "packets": row.packets, "pps": rates.row(row)})
    return sorted(found, key=lambda loss: -loss["packets"])


def _place(topology: Topology, where: str) -> dict[str, Any] | None:
    """Where to draw a loss: on the link for ``after client eth0``, else at the host."""
    if where.startswith("after "):
        for index, link in enumerate(topology.links):
            if any(where == f"after {end.host} {end.interface}" for end in link.ends):
                return {"link": index}
    host = where.partition(" ")[0]
    return {"host": host} if host in topology.hosts else None


def _program(badge: Badge, sample: Sample, past: Reading | None, baseline: Sample, rates: _Rates) -> dict[str, Any]:
    own = stretches_of(badge, sample)
    now = verdicts_at(badge, sample, own)
    zero = verdicts_at(badge, baseline, own)
    before = verdicts_at(badge, past.sample, own) if past is not None else now
    return {
        "host": badge.host,
        "interface": badge.interface,
        "name": badge.name,
        "mode": badge.mode,
        "id": badge.id,
        "tag": badge.tag,
        "note": badge.note,
        "verdicts": {name: count - zero.get(name, 0) for name, count in now.items() if count > zero.get(name, 0)},
        "verdict_pps": {
            name: rates.of(count, before.get(name, 0)) for name, count in now.items() if count > before.get(name, 0)
        },
    }


def _series(ledger: Ledger, rates: _Rates) -> list[dict[str, Any]]:
    """Lines of the chart: what was sent, and the fates it met, the greatest first."""
    sums: dict[tuple[str, str], tuple[int, float, str]] = {("sent", "sent"): (0, 0.0, "sent")}
    for row in ledger.rows:
        if row.kind not in ("sent", "delivered", "loss"):
            continue
        key = ("sent", "sent") if row.kind == "sent" else (row.kind, row.name)
        packets, pps, role = sums.get(key, (0, 0.0, row.role))
        sums[key] = (packets + row.packets, pps + rates.row(row), role)
    fates = [(key, value) for key, value in sums.items() if key[0] != "sent" and value[0]]
    fates.sort(key=lambda item: -item[1][0])
    chosen = [(("sent", "sent"), sums[("sent", "sent")]), *fates[: _MOST_SERIES - 1]]
    return [
        {"key": f"{kind} {name}", "label": name, "role": role, "pps": round(pps, 1)}
        for (kind, name), (_, pps, role) in chosen
    ]


def _ledger(ledger: Ledger, *, settled: bool) -> dict[str, Any]:
    rows = [
        {
            "kind": row.kind,
            "name": row.name,
            "where": row.where,
            "packets": row.packets,
            "share": ledger.share(row) if ledger.sent else None,
            "role": row.role,
            "explains": row.explains,
        }
        for row in ledger.rows
        if row.kind != "unaccounted" and (row.packets or row is ledger.rows[0])
    ]
    return {
        "rows": rows,
        "unaccounted": ledger.unaccounted,
        "settled": settled,
        "why": " ".join(ledger.notes),
    }
