"""Writing to a map from the page: typed text, checked, into the kernel, and back again."""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.errors import LabError, MapError
from labkit.interface import Interface
from labkit.kernel import bpf
from labkit.lab import Lab
from labkit.program.program import Program
from labkit.uapi import MapType
from labkit.widgets.map_browser_fields import Leaf
from labkit.widgets.map_browser_maps import Known
from labkit.widgets.map_browser_reading import Reading
from labkit.widgets.map_browser_text import cell, packed

__all__ = ["ALL_CPUS", "THE_SUM", "Done", "Writing", "texts_of"]

ALL_CPUS, THE_SUM = "each", "sum"
"""Which CPUs a typed value is for, beside the number of one: every one, or the sum, which CPU 0 then has alone."""

_ANY, _NOT_THERE, _THERE = 0, 1, 2  # BPF_ANY, BPF_NOEXIST, BPF_EXIST, include/uapi/linux/bpf.h
_FIXED = (MapType.ARRAY, MapType.PERCPU_ARRAY)
_TARGETS = (MapType.DEVMAP, MapType.DEVMAP_HASH, MapType.CPUMAP, MapType.PROG_ARRAY)
_TRIED = "to write a map"
_SLOT = struct.Struct("=I")


@dataclass(frozen=True)
class Done:
    """What an edit did, for the way back: an entry's bytes before it and after it (None: no entry)."""

    map_id: int
    key: bytes
    before: bytes | None
    after: bytes | None
    words: str
    way_back: str


@dataclass(frozen=True)
class Writing:
    """One map, to be written to. What doesn't fit raises MapError, and nothing has changed."""

    lab: Lab
    known: Known
    reading: Reading
    keys: Sequence[Leaf]
    values: Sequence[Leaf]

    @property
    def kind(self) -> MapType:
        """The map's type."""
        return self.known.map.spec.type

    @property
    def can_add(self) -> bool:
        """Whether entries can be added from here."""
        return self.kind not in _FIXED and self.kind is not MapType.XSKMAP

    @property
    def can_delete(self) -> bool:
        """Whether entries can be deleted."""
        return self.kind not in _FIXED

    @property
    def can_write(self) -> bool:
        """Whether a value can be typed."""
        return self.kind is not MapType.XSKMAP

    def named(self, key: bytes) -> str:
        """An entry's key in words."""
        parts = [f"{leaf.name} {cell(leaf, key)[0]}".strip() for leaf in self.keys]
        return f"{self.known.map.name}[{', '.join(parts)[:80]}]"

    # What can be done

    def write(self, key: bytes, texts: Mapping[int, str], cpus: str) -> Done:
        """Set some fields (by their number) of the entry, for ``cpus``: "each", "sum", or the number of one."""
        self.check_key(key)
        if not texts:
            raise MapError("Nothing was changed.", tried=_TRIED, remedy="type another value first")
        before = self.reading.lookup(key)
        if before is None:
            raise self._vanished(key)
        if self.kind in _TARGETS:
            self._write_target(key, before, texts)
        else:
            self._update(key, self._filled(before, texts, cpus), _ANY if self.kind in _FIXED else _THERE)
        name = self.named(key)
        return Done(
            self.known.map.id, key, before, self.reading.lookup(key), f"{name} was written.", f"the value of {name}"
        )

    def add(self, key_texts: Mapping[int, str], texts: Mapping[int, str], cpus: str) -> Done:
        """A new entry."""
        if not self.can_add:
            raise MapError(
                f"No entry can be added to {self.known.map.name}.", tried=_TRIED, remedy="write to one that is there"
            )
        key = bytes(self.reading.spec.key_size)
        for number, leaf in enumerate(self.keys):
            key = packed(leaf, key_texts.get(number, ""), key)
        name = self.named(key)
        if self.kind in _TARGETS:
            if self.reading.lookup(key) is not None:
                raise self._refused(key, OSError(errno.EEXIST, ""))
            self._write_target(key, bytes(self.reading.bytes), texts)
        else:
            self._update(key, self._filled(bytes(self.reading.bytes), texts, cpus), _NOT_THERE)
        return Done(
            self.known.map.id, key, None, self.reading.lookup(key), f"{name} was added.", f"that {name} was added"
        )

    def delete(self, key: bytes) -> Done:
        """Let go of an entry."""
        self.check_key(key)
        if not self.can_delete:
            raise MapError(
                f"The entries of {self.known.map.name} can't be deleted.", tried=_TRIED, remedy="write 0 instead"
            )
        before, name = self.reading.lookup(key), self.named(key)
        if before is None:
            raise self._vanished(key)
        self._delete(key)
        back = "" if self.kind is MapType.XSKMAP else f"that {name} was deleted"
        return Done(self.known.map.id, key, before, None, f"{name} was deleted.", back)

    def undo(self, done: Done) -> str:
        """Put an entry back as it was before an edit; what was done, in words."""
        now, name = self.reading.lookup(done.key), self.named(done.key)
        meanwhile = " It had changed again meanwhile: that is gone, too." if now != done.after else ""
        if done.before is None:
            if now is not None:
                self._delete(done.key)
            return f"{name} is out again.{meanwhile}"
        if self.kind in _TARGETS:
            self._write_target(done.key, done.before, {})
        else:
            self._update(done.key, done.before, _ANY)
        return f"{name} is as it was before.{meanwhile}"

    # Bytes

    def check_key(self, key: bytes) -> None:
        """Raises MapError for what is no key of this map."""
        if len(key) != self.reading.spec.key_size:
            raise MapError(
                f"{key!r} is no key of {self.known.map.name}.", tried=_TRIED, remedy="choose a row of the table"
            )

    def _filled(self, raw: bytes, texts: Mapping[int, str], cpus: str) -> bytes:
        parts = self.reading.parts(raw)
        for number, text in texts.items():
            if not 0 <= number < len(self.values):
                raise MapError(f"There is no field {number}.", tried=_TRIED, remedy="choose one that is shown")
            parts = self._in_each(self.values[number], text, parts, cpus)
        return b"".join(part.ljust(self.reading.stride, b"\0") for part in parts)

    def _in_each(self, leaf: Leaf, text: str, parts: list[bytes], cpus: str) -> list[bytes]:
        if len(parts) == 1 or cpus == ALL_CPUS:
            return [packed(leaf, text, part) for part in parts]
        if cpus == THE_SUM:
            empty = [part[: leaf.at] + bytes(leaf.size) + part[leaf.at + leaf.size :] for part in parts[1:]]
            return [packed(leaf, text, parts[0]), *empty]
        if not cpus.isdecimal() or int(cpus) >= len(parts):
            raise MapError(f"There is no CPU {cpus}.", tried=_TRIED, remedy=f"there are 0 to {len(parts) - 1}")
        return [packed(leaf, text, part) if number == int(cpus) else part for number, part in enumerate(parts)]

    def _update(self, key: bytes, raw: bytes, flags: int) -> None:
        try:
            bpf.map_update(self.reading.fd, key, raw, flags)
        except OSError as error:
            raise self._refused(key, error) from error

    def _delete(self, key: bytes) -> None:
        try:
            if self.kind is MapType.XSKMAP:
                del self.known.map[_SLOT.unpack(key)[0]]
            else:
                bpf.map_delete(self.reading.fd, key)
        except KeyError:
            raise self._vanished(key) from None
        except OSError as error:
            raise self._refused(key, error) from error

    # Interfaces, CPUs and programs in slots

    def _write_target(self, key: bytes, raw: bytes, texts: Mapping[int, str]) -> None:
        """By the Map itself, which knows where an interface is looked up and what the kernel's refusals mean."""
        fields = [texts.get(number) or self._as_it_is(leaf, raw) for number, leaf in enumerate(self.values)]
        (slot,) = _SLOT.unpack(key)
        if self.kind is MapType.PROG_ARRAY:
            program = self._program(fields[0])
            if program is None:
                raise MapError("A slot can't hold no program.", tried=_TRIED, remedy="delete the entry instead")
            self.known.map[slot] = program.fd
            return
        program = self._program(fields[1]) if len(fields) > 1 else None
        target = self._queue(fields[0]) if self.kind is MapType.CPUMAP else self._interface(fields[0])
        self.known.map[slot] = target if program is None else (target, program)

    def _as_it_is(self, leaf: Leaf, raw: bytes) -> str:
        """An interface by its name, for an index says too little; a program by its id, for there may be two of a name."""
        by_name = leaf.at == 0 and self.kind is not MapType.PROG_ARRAY
        return cell(leaf, raw)[0] if by_name else str(leaf.number(raw))

    def _queue(self, text: str) -> int:
        try:
            return int(text.replace(",", ""), 0)
        except ValueError as error:
            raise MapError(
                f"“{text[:60]}” is no length of a queue.", tried=_TRIED, remedy="give 1 to 16384 packets"
            ) from error

    def _interface(self, text: str) -> Interface:
        wanted = text.strip().lower()
        found = [each for each in self.lab.interfaces if wanted in (each.where.lower(), str(each.ifindex))]
        if len(found) != 1:
            some = ", ".join(each.where for each in self.lab.interfaces[:8])
            problem = "is of several hosts" if found else "is no interface of this lab"
            raise MapError(f"“{text[:60]}” {problem}.", tried=_TRIED, remedy=f"give host and name, one of: {some}")
        return found[0]

    def _program(self, text: str) -> Program | None:
        wanted = text.strip()
        if wanted.lower() in ("", "0", "none"):
            return None
        there = [program for program in list(self.lab.programs) if not program.closed]
        found = [program for program in there if wanted in (program.name, str(program.id))]
        if not found:
            some = ", ".join(dict.fromkeys(program.name for program in there[:8]))
            raise MapError(
                f"“{text[:60]}” is no program of this lab.", tried=_TRIED, remedy=f"give none, or one of: {some}"
            )
        fits = [each for each in found if str(each.id) == wanted] or found
        return fits[-1]  # of one name, the one that was loaded last

    # Refusals

    def _vanished(self, key: bytes) -> MapError:
        return MapError(
            f"{self.named(key)} isn't there any more.", tried=_TRIED, remedy="add it again, where you want it back"
        )

    def _refused(self, key: bytes, error: OSError) -> MapError:
        spec, name = self.known.map.spec, self.named(key)
        said = {
            errno.E2BIG: (f"{spec.name} is full: it has room for {spec.max_entries:,}.", "delete an entry first"),
            errno.EEXIST: (f"{name} is there already.", "choose its row, and write to it"),
            errno.ENOENT: (f"{name} isn't there any more.", "add it again, where you want it back"),
            errno.EPERM: (
                f"The kernel lets nobody write to {spec.name} from here.",
                "look at its flags: only programs may",
            ),
            errno.ENOMEM: ("The kernel has no memory for it.", "close other labs, or use a smaller map"),
        }
        message, remedy = said.get(
            error.errno or 0, (f"The kernel would not take {name}.", "check the key and the value")
        )
        return MapError(
            message, tried=_TRIED, on=f"{spec.name} ({self.kind.name.lower()})", errno=error.errno, remedy=remedy
        )


def texts_of(told: Any, most: int = 64) -> dict[int, str]:
    """What a page says was typed, by the field's number. Raises LabError for anything else."""
    if not isinstance(told, Mapping) or len(told) > most:
        raise LabError("The page sent no fields.", tried=_TRIED, remedy="reload the page")
    return {int(number): str(text)[:4_096] for number, text in told.items()}
