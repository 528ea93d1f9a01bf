"""What a student predicted, measured and solved: one small file, written whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.lesson.page import Table, block, number

__all__ = ["Progress", "ProgressWarning", "change", "forget", "progress", "progress_file", "read"]

_SECTIONS = ("predictions", "comparisons", "checks")
_VERSION = 1
_unsaved: dict[Path, dict[str, Any]] = {}  # what could not be written lives on here until the kernel ends


class ProgressWarning(UserWarning):
    """The progress file could not be read or written as expected; nothing was lost."""


def progress_file() -> Path:
    """Where progress is kept: ``$XDP_LAB_PROGRESS``, else ``xdp-lab/progress.json`` in the user's data directory."""
    if given := os.environ.get("XDP_LAB_PROGRESS"):
        return Path(given)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "xdp-lab" / "progress.json"


def read() -> dict[str, Any]:
    """All that is stored: section → id → record. A file that can't be understood is put aside, never lost."""
    path = progress_file()
    if path in _unsaved:
        return _unsaved[path]
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return _empty()
    except NotADirectoryError:
        return _empty()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError):
            _warn(f"Your progress in {path} can't be read ({error.strerror}); it is left as it is.")
            return _empty()
        return _put_aside(path, "it is not UTF-8 text")
    try:
        found = json.loads(text)
    except ValueError as error:
        return _put_aside(path, f"it is not JSON: {error}")
    if not isinstance(found, dict) or not all(
        isinstance(found.get(section, {}), dict) and all(isinstance(r, dict) for r in found.get(section, {}).values())
        for section in _SECTIONS
    ):
        return _put_aside(path, "it has another form than this lab writes")
    return {**_empty(), **found}


def change(edit: Callable[[dict[str, Any]], None]) -> None:
    """Apply ``edit`` to the stored record; several notebooks may do so at once.

    Where the file can't be written, the record is kept until the kernel ends, and a warning says so.
    """
    path = progress_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            record = read()
            edit(record)
            _write(path, record)
            _unsaved.pop(path, None)
    except OSError as error:
        if path not in _unsaved:
            _unsaved[path] = read()
            _warn(
                f"Your progress can't be written to {path} ({error.strerror}): it is kept until this kernel ends. "
                "Set XDP_LAB_PROGRESS to a file of your own to keep it longer."
            )
        edit(_unsaved[path])


def _empty() -> dict[str, Any]:
    return {"version": _VERSION, **{section: {} for section in _SECTIONS}}


def _write(path: Path, record: dict[str, Any]) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path.with_name(f".{path.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _put_aside(path: Path, why: str) -> dict[str, Any]:
    aside = path.with_name(f"{path.name}.unreadable-{time.strftime('%Y%m%d-%H%M%S')}")
    number = 1
    while aside.exists():
        aside, number = aside.with_name(f"{aside.name}.{number}"), number + 1
    try:
        path.rename(aside)
    except OSError as error:
        _warn(f"Your progress file {path} can't be understood ({why}) nor be put aside ({error.strerror}).")
        return _empty()
    _warn(f"Your progress file can't be understood: {why}. It is kept as {aside}; a new one is begun.")
    return _empty()


def _warn(text: str) -> None:
    warnings.warn(text, ProgressWarning, stacklevel=4)


@dataclass(frozen=True)
class Progress:
    """What is stored, for showing and for export: ``predictions``, ``comparisons`` and ``checks`` by id."""

    predictions: dict[str, dict[str, Any]]
    comparisons: dict[str, dict[str, Any]]
    checks: dict[str, dict[str, Any]]
    file: Path

    @property
    def solved(self) -> tuple[str, ...]:
        """Ids of the exercises that passed."""
        return tuple(ident for ident, record in self.checks.items() if record.get("passed"))

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "predictions": self.predictions,
            "comparisons": self.comparisons,
            "checks": self.checks,
            "file": str(self.file),
        }

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to ``path`` as JSON, and return the path."""
        target = Path(path)
        _write(target.absolute(), self.as_dict())
        return target

    def _tables(self) -> tuple[Table, Table]:
        told = []
        for ident, record in self.predictions.items():
            unit = record.get("unit") or ""
            measured = self.comparisons.get(ident, {}).get("measured")
            told.append((ident, _with_unit(record.get("answer"), unit), _with_unit(measured, unit)))
        solved = [
            (ident, "solved" if record.get("passed") else "not yet", record.get("attempts", 0))
            for ident, record in self.checks.items()
        ]
        return (
            Table(("prediction", "you said", "measured"), tuple(told), "Predictions"),
            Table(("exercise", "state", "attempts"), tuple(solved), "Exercises"),
        )

    def __str__(self) -> str:
        if not (self.predictions or self.checks):
            return f"Nothing stored yet in {self.file}."
        return "\n\n".join(str(table) for table in self._tables() if table.rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not (self.predictions or self.checks):
            return block("<p>Nothing stored yet.</p>")
        return block("".join(table.html() for table in self._tables() if table.rows))


def _with_unit(value: object, unit: str) -> str:
    return "–" if value is None else f"{number(value) if isinstance(value, float) else value} {unit}".strip()


def progress() -> Progress:
    """Everything the student predicted, measured and solved so far."""
    record = read()
    return Progress(record["predictions"], record["comparisons"], record["checks"], progress_file())


def forget(prefix: str = "") -> int:
    """Forget the records whose id begins with ``prefix`` (all of them by default); returns how many went."""
    gone = 0

    def edit(record: dict[str, Any]) -> None:
        nonlocal gone
        for section in _SECTIONS:
            kept = {ident: r for ident, r in record[section].items() if not ident.startswith(prefix)}
            gone += len(record[section]) - len(kept)
            record[section] = kept

    change(edit)
    return gone
