"""The doctor's report: rows, their table for a terminal and for a notebook, and the error where something is missing."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from labkit.errors import FeatureError, LabError, PrivilegeError

__all__ = ["PRIVILEGE", "Report", "Row", "State"]

State = Literal["ok", "missing", "degraded", "note"]
PRIVILEGE = "privilege"
_MARKS: dict[State, str] = {"ok": "✓", "missing": "✗", "degraded": "!", "note": "·"}


@dataclass(frozen=True)
class Row:
    """One requirement: its state, what was found, and the ``remedy`` (one command or sentence, "" where none is due).

    ``needed``: whether no lesson works without it. ``group`` joins rows that a table shows as one while all is well.
    """

    requirement: str
    state: State
    found: str
    remedy: str = ""
    needed: bool = True
    group: str = ""


@dataclass(frozen=True)
class Report:
    """All rows, and how long it took in seconds."""

    rows: tuple[Row, ...]
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing that is needed is missing."""
        return not self.missing

    @property
    def missing(self) -> list[Row]:
        """What is needed and not there."""
        return [row for row in self.rows if row.needed and row.state == "missing"]

    @property
    def degraded(self) -> list[Row]:
        """What is not there, and some lesson shows less for it."""
        return [row for row in self.rows if row.state == "degraded" or (row.state == "missing" and not row.needed)]

    def __getitem__(self, requirement: str) -> Row:
        """The row of a requirement. Raises LabError where the report has none of this name."""
        for row in self.rows:
            if row.requirement == requirement:
                return row
        raise LabError(
            f"The report has no row {requirement!r}.",
            tried="to look a requirement up",
            remedy="it has " + ", ".join(row.requirement for row in self.rows),
        )

    def as_dict(self) -> dict[str, Any]:
        """The report for JSON: ``ok``, ``seconds``, ``requirements`` (a list of rows)."""
        return {"ok": self.ok, "seconds": round(self.seconds, 3), "requirements": [asdict(row) for row in self.rows]}

    def demand(self) -> None:
        """Raise LabError with every remedy where something needed is missing; PrivilegeError where it is privilege."""
        missing = self.missing
        if not missing:
            return
        lines = [f"{row.requirement}: {row.found}" + (f"\n  → {row.remedy}" if row.remedy else "") for row in missing]
        remedies = list(dict.fromkeys(row.remedy for row in missing if row.remedy))
        kind: type[LabError] = FeatureError
        message = f"This machine lacks {_count(len(missing), 'thing')} that the lab needs."
        privilege = next((row for row in missing if row.requirement == PRIVILEGE), None)
        if privilege is not None:
            kind, message = PrivilegeError, f"The lab has no privilege here: {privilege.found}."
            lines = lines if len(lines) > 1 else []
        raise kind(
            message, tried="to check what the lab needs", detail="\n".join(lines), remedy="; then ".join(remedies)
        )

    def summary(self) -> str:
        """One line: ready or not."""
        if self.missing:
            return f"Not ready: {_count(len(self.missing), 'thing')} missing. Do what stands after the arrows."
        lines = "Ready: everything the lab needs is here."
        if self.degraded:
            lines += f" {_count(len(self.degraded), 'thing')} degraded: some lessons show less."
        return lines

    def shown(self) -> Iterator[Row]:
        """Rows for a table: a group whose rows all have the same state and need no remedy becomes one row."""
        done: set[str] = set()
        for row in self.rows:
            if not row.group:
                yield row
                continue
            if row.group in done:
                continue
            done.add(row.group)
            yield from _folded([other for other in self.rows if other.group == row.group])

    def __str__(self) -> str:
        rows = list(self.shown())
        width = max((len(row.requirement) for row in rows), default=0)
        lines = []
        for row in rows:
            lines.append(f"{row.state:<8}  {row.requirement:<{width}}  {row.found}".rstrip())
            if row.remedy:
                lines.append(f"{'':<8}  {'':<{width}}  → {row.remedy}")
        return "\n".join([*lines, "", self.summary()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The outcome and what wants attention; the rest, a screenful, folded away."""
        rows = list(self.shown())
        urgent = [row for row in rows if row.remedy or row.state not in ("ok", "note")]
        rest = [row for row in rows if row not in urgent]
        return (
            f'<div style="padding:4px 5px"><p><b>{html.escape(self.summary())}</b></p>{_html_table(urgent)}'
            f"<details><summary>What was looked at: {_count(len(rest), 'line')} more</summary>{_html_table(rest)}</details></div>"
        )


def _html_table(rows: list[Row]) -> str:
    if not rows:
        return ""
    head = "".join(f'<th scope="col" style="text-align:left">{word}</th>' for word in ("State", "Requirement", "Found"))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(_html_row(row) for row in rows)}</tbody></table>"


def _folded(rows: list[Row]) -> Iterator[Row]:
    first = rows[0]
    alike = [row for row in rows if row.state == first.state and not row.remedy]
    if first.state != "ok":
        alike = [row for row in alike if row.found == first.found]
    if len(alike) > 1:
        names = ", ".join(row.requirement.removeprefix(f"{row.group} ") for row in alike)
        found = names if first.state == "ok" else first.found
        yield replace(first, requirement=f"{first.group} ({len(alike)})", found=found)
    else:
        alike = []
    yield from (row for row in rows if row not in alike)


def _html_row(row: Row) -> str:
    remedy = f"<br>→ <code>{html.escape(row.remedy)}</code>" if row.remedy else ""
    weight = "bold" if row.state == "missing" else "normal"
    cells = (f"{_MARKS[row.state]} {row.state}", html.escape(row.requirement), html.escape(row.found) + remedy)
    return "<tr>" + "".join(f'<td style="text-align:left;font-weight:{weight}">{cell}</td>' for cell in cells) + "</tr>"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
