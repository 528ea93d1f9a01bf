"""The examination: every check in turn, each by itself, so that one that breaks costs only its own row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar, overload

from labkit.doctor import machine, sandbox, software
from labkit.doctor.kernel import kernel_rows
from labkit.doctor.report import PRIVILEGE, Report, Row
from labkit.kernel import features

__all__ = ["doctor", "examine"]

T = TypeVar("T")
_last: Report | None = None


@overload
def doctor(*, strict: bool = True, json: Literal[False] = False) -> Report: ...
@overload
def doctor(*, strict: bool = True, json: Literal[True]) -> dict[str, Any]: ...


def doctor(*, strict: bool = True, json: bool = False) -> Report | dict[str, Any]:
    """What this machine has of what the lab needs; with ``json`` the same as a dict of plain values.

    Raises LabError with every remedy where something needed is missing (PrivilegeError where it is privilege);
    with ``strict=False`` it only reports. Takes well under a second, changes nothing, leaves nothing.
    """
    global _last
    if _last is not None and (_last.missing or _last.degraded):
        features.forget()  # whoever asks again may have mended it
    report = _last = examine()
    if strict:
        report.demand()
    return report.as_dict() if json else report


def examine() -> Report:
    """The report, whatever is in it. Kernel probes are remembered for the life of the process."""
    began = time.perf_counter()
    rows: list[Row] = []
    survey = _guarded("BCC", software.Survey, rows)
    try:
        rows += _section("Linux", machine.linux)
        rows += _section(PRIVILEGE, machine.privilege)
        rows += _section("sandbox", sandbox.sandbox_rows)
        privileged = any(row.requirement == PRIVILEGE and row.state == "ok" for row in rows)
        rows += _section("kernel", lambda: list(kernel_rows(privileged)))
        if survey is not None:
            rows += _section("BCC and packages", lambda: _surveyed(survey))
        for name, check in (
            ("UAPI headers", software.headers),
            ("Python", software.python_row),
            ("memory lock", machine.memory_lock),
            ("commands", machine.commands),
            ("leftovers", machine.leftovers),
        ):
            rows += _section(name, check)
    finally:
        if survey is not None:
            survey.close()
    return Report(tuple(rows), time.perf_counter() - began)


def _surveyed(survey: software.Survey) -> list[Row]:
    found = survey.result()
    return [software.bcc_row(found["bcc"]), *software.package_rows(found["packages"])]


def _section(name: str, check: Callable[[], Iterable[Row]]) -> list[Row]:
    rows: list[Row] = []
    rows += _guarded(name, lambda: list(check()), rows) or []
    return rows


def _guarded(name: str, check: Callable[[], T], rows: list[Row]) -> T | None:
    """The result of ``check``; where it breaks, None and a row that says so."""
    try:
        return check()
    except Exception as error:  # whatever it is, the rest of the report is worth having
        said = f"the check itself failed: {type(error).__name__}: {error}"
        rows.append(Row(name, "degraded", said, "please report this line", needed=False))
        return None
