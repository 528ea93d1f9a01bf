"""A listing on a page and in plain text: each C line that costs something, with its instructions beneath it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labkit.analysis.listing import Form, ProgramListing, Row

__all__ = ["as_html", "as_text"]

_BAR = 12  # characters


def as_text(what: ProgramListing) -> str:
    """Facts, the cost of each line, then every form in the order in which it runs."""
    lines = [f"{what.name}, {what.file}", *(f"  {name}: {value}" for name, value in what.facts)]
    lines += [f"  {note}" for note in what.notes]
    lines += ["", *_costs(what)]
    for form in what.forms:
        lines += ["", {"compiled": "As compiled", "kernel": "As the kernel has rewritten it"}[form.name]]
        lines += _form(form)
    return "\n".join(lines)


def _costs(what: ProgramListing) -> list[str]:
    costs = what.costs
    most = max((each.compiled for each in costs), default=1) or 1
    found = [f"{'line':>6}  {'compiled':>8}  {'kernel':>6}  {'bytes':>6}"]
    for each in costs:
        bar = "█" * round(each.compiled / most * _BAR)
        numbers = f"{each.compiled:8}  {_number(each.kernel):>6}  {_number(each.jited):>6}"
        place = "" if each.line.file == what.file else f"{each.line.file}: "
        found.append(f"{each.line.number:6}  {numbers}  {bar:<{_BAR}}  {place}{each.line.text.strip()}")
    return found


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)


def _form(form: Form) -> list[str]:
    found: list[str] = []
    before: Row | None = None
    for row in form.rows:
        if before is None or row.function != before.function:
            found.append(f"{row.function}:")
        if row.line is not None and (before is None or row.line != before.line or row.function != before.function):
            found.append(f"  {row.line}")
        found.append(f"    {row.slot:5}  {row.words}")
        before = row
    return found


def as_html(what: ProgramListing) -> str:
    """The same, as HTML of its own: a table of costs, and the forms to unfold."""
    facts = "".join(f"<li>{escape(name)}: {escape(value)}</li>" for name, value in what.facts)
    notes = "".join(f"<p>{escape(note)}</p>" for note in what.notes)
    rows = "".join(
        f"<tr><th scope='row'>{escape(each.line.file.rpartition('/')[2])}:{each.line.number}</th><td>{each.compiled}</td>"
        f"<td>{_number(each.kernel)}</td><td>{_number(each.jited)}</td>"
        f"<td style='text-align:left'><code>{escape(each.line.text.strip())}</code></td></tr>"
        for each in what.costs
    )
    head = "".join(
        f"<th scope='col'>{name}</th>" for name in ("line", "as compiled", "the kernel's", "bytes of machine code", "C")
    )
    forms = "".join(
        f"<details><summary>{title}</summary><pre tabindex='0' aria-label='{title}'>{escape(chr(10).join(_form(form)))}</pre>"
        "</details>"
        for form in what.forms
        for title in [{"compiled": "As compiled", "kernel": "As the kernel has rewritten it"}[form.name]]
    )
    title = f"<p><b>{escape(what.name)}</b>, {escape(what.file)}</p>"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<div>{title}<ul>{facts}</ul>{notes}{table}{forms}</div>"
