"""The ledger: what became of every packet. ``sent + copies = delivered + every named loss + in flight``, or it says what is
missing. Copies are those that a broadcast of XDP made of packets; without one there are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape
from typing import Literal

from labkit.observe.words import Role

__all__ = ["Check", "Ledger", "Row"]

Kind = Literal["sent", "copies", "delivered", "loss", "in_flight", "unaccounted"]


@dataclass(frozen=True)
class Row:
    """``packets`` of one fate at one place. ``key`` is its name in ``losses``; ``source`` the counter it was read from."""

    kind: Kind
    key: str
    name: str
    where: str
    packets: int
    source: str
    role: Role = "muted"
    explains: str = ""


@dataclass(frozen=True)
class Check:
    """Two independent counters of the same packets: ``first`` and ``second`` should be equal."""

    what: str
    first: int
    second: int

    @property
    def agrees(self) -> bool:
        """Whether they are."""
        return self.first == self.second


class Ledger:
    """Rows that add up. ``unaccounted`` is what is left: 0 when every packet is accounted for, and never forced to be.

    ``sent`` is what hosts sent, ``copies`` what a broadcast of XDP added. ``seconds`` is the time the ledger covers;
    ``checks`` are second opinions; ``notes`` what could not be watched.
    """

    def __init__(
        self, rows: Iterable[Row], seconds: float = 0.0, checks: Iterable[Check] = (), notes: Iterable[str] = ()
    ) -> None:
        found = _merged(rows)
        found = [row for row in found if row.packets] or [row for row in found if row.kind == "sent"][:1]
        self.seconds = seconds
        self.checks = tuple(checks)
        self.notes = tuple(notes)
        self.sent = _total(found, "sent")
        self.copies = _total(found, "copies")
        self.delivered = _total(found, "delivered")
        self.in_flight = _total(found, "in_flight")
        self.losses: dict[str, int] = dict(_by_key(row for row in found if row.kind == "loss"))
        self.lost = sum(self.losses.values())
        self.unaccounted = self.sent + self.copies - self.delivered - self.lost - self.in_flight
        source = "sent + copies − all other rows" if self.copies else "sent − all rows above"
        rest = Row("unaccounted", "unaccounted", "unaccounted", "", self.unaccounted, source)
        self.rows: tuple[Row, ...] = (*found, rest)

    def share(self, row: Row) -> float:
        """The row's part of all packets there were, sent or copied, 0 to 1; 0 where there were none."""
        made = self.sent + self.copies
        return row.packets / made if made else 0.0

    def _cells(self) -> list[tuple[str, str, str, str]]:
        found = []
        for row in self.rows:
            mark = "" if row.kind != "unaccounted" else (" ✓" if row.packets == 0 else " ✗")
            share = "" if row.kind == "unaccounted" else _percent(self.share(row))
            found.append((row.name + mark, row.where, f"{row.packets:,}", share))
        return found

    def __str__(self) -> str:
        head = ("what became of it", "where", "packets", "share")
        cells = self._cells()
        widths = [max(len(line[i]) for line in (head, *cells)) for i in range(4)]
        lines = [_line(head, widths), "  ".join("─" * width for width in widths)]
        lines += [_line(cell, widths) for cell in cells]
        lines += [f"check: {c.what}: {c.first:,} against {c.second:,}" for c in self.checks if not c.agrees]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        losses = ", ".join(f"{name} {count:,}" for name, count in self.losses.items()) or "no losses"
        made = f"sent {self.sent:,}" + (f", copies {self.copies:,}" if self.copies else "")
        return f"<ledger: {made}, delivered {self.delivered:,}, {losses}, unaccounted {self.unaccounted:,}>"

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(str(self))  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        body = []
        for row, (name, where, packets, share) in zip(self.rows, self._cells(), strict=True):
            weight = "bold" if row.kind in ("sent", "unaccounted") else "normal"
            colour = f";color:{'#12805c' if row.packets == 0 else '#c02b3c'}" if row.kind == "unaccounted" else ""
            cells = "".join(
                f'<td style="text-align:{side}">{escape(text)}</td>'
                for text, side in ((name, "left"), (where, "left"), (packets, "right"), (share, "right"))
            )
            title = f' title="{escape(row.explains)}"' if row.explains else ""
            body.append(f'<tr style="font-weight:{weight}{colour}"{title}>{cells}</tr>')
        head = "".join(
            f'<th scope="col" style="text-align:{side}">{text}</th>'
            for text, side in (
                ("what became of it", "left"),
                ("where", "left"),
                ("packets", "right"),
                ("share", "right"),
            )
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return (
            f'<table style="font-variant-numeric:tabular-nums"><caption style="text-align:left">Ledger: every packet</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{notes}"
        )


def _merged(rows: Iterable[Row]) -> list[Row]:
    """Rows of one fate at one place as one row, in order of their first."""
    found: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        same = found.get((row.kind, row.key, row.where + row.name))
        packets = row.packets + (same.packets if same else 0)
        found[(row.kind, row.key, row.where + row.name)] = replace(same or row, packets=packets)
    return list(found.values())


def _total(rows: Iterable[Row], kind: Kind) -> int:
    return sum(row.packets for row in rows if row.kind == kind)


def _by_key(rows: Iterable[Row]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row.key] += row.packets
    return found


def _percent(share: float) -> str:
    """A share for people: never 100 % for less than all, never 0 % for more than nothing."""
    if share in (0, 1):
        return f"{share:.0%}".replace("%", " %")
    if not 0.001 <= share <= 0.999:
        return "<0.1 %" if share < 0.5 else ">99.9 %"
    return f"{share:.1%}".replace("%", " %")


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    left = [cells[0].ljust(widths[0]), cells[1].ljust(widths[1])]
    return "  ".join([*left, cells[2].rjust(widths[2]), cells[3].rjust(widths[3])]).rstrip()
