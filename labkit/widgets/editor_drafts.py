"""Edited texts kept on disk, so that one outlives the notebook's kernel, its page and a second run of its cell."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from labkit.errors import StateError
from labkit.lesson.progress import progress_file

__all__ = ["Draft", "save_text"]

_KEPT = 200


class Draft:
    """The edited form of one original text at one place. What can't be written to disk is kept until the process ends."""

    _unsaved: dict[Path, str] = {}  # noqa: RUF012  (shared on purpose: an editor shown again finds it)

    def __init__(self, place: str, original: str) -> None:
        self.original = original
        name = hashlib.sha256(f"{place}\0{original}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self.path = progress_file().parent / "drafts" / f"{name}.c"

    def read(self) -> str | None:
        """The edited text, None where there is none."""
        if self.path in self._unsaved:
            return self._unsaved[self.path]
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        return text if text != self.original else None

    def keep(self, text: str) -> bool:
        """Keep ``text``; whether it is on disk. The original itself needs no keeping."""
        try:
            if text == self.original:
                self.path.unlink(missing_ok=True)
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                _write(self.path, text)
                _prune(self.path.parent)
        except (OSError, UnicodeEncodeError):
            self._unsaved[self.path] = text
            return False
        self._unsaved.pop(self.path, None)
        return True


def save_text(text: str, path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Write ``text`` to a file and return its path. Raises StateError, also for a file that is there already."""
    tried = "to save the text"
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path) or "\0" in str(path):
        raise StateError(f"path can't be {path!r}.", tried=tried, remedy='give a file\'s name, as "mine.c"')
    target = Path(path)
    if target.is_dir():
        raise StateError(f"{target} is a directory.", tried=tried, remedy="give a file's name in it")
    if not overwrite and target.exists():
        raise StateError(
            f"{target} is there already, and was left as it is.",
            tried=tried,
            remedy="choose another name, or say that it may be replaced: save(path, overwrite=True)",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(target, text)
    except UnicodeEncodeError as error:
        message = "The text has half a character in it (a lone surrogate)."
        raise StateError(message, tried=tried, on=str(target), remedy="take it out") from error
    except OSError as error:
        raise StateError(
            "The file can't be written.",
            tried=tried,
            on=str(target),
            errno=error.errno,
            remedy="choose a folder that you may write to",
        ) from error
    return target


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    data = text.encode()
    handle, building = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.chmod(building, 0o644)
        os.replace(building, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(building)
        raise


def _prune(directory: Path) -> None:
    files = [entry for entry in os.scandir(directory) if entry.name.endswith(".c")]
    if len(files) > _KEPT:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: len(files) - _KEPT]:
            with contextlib.suppress(OSError):
                os.unlink(entry)
