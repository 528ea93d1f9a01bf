"""Formats of metadata: structures whose types the kernel was told of, so that two numbers name each of them.

A reader that never saw a format when it was compiled can still read its fields: ``formats.offsets("sent_ns")`` tells where
the field is in each format that has it, and a map brings that to the reader::

    LAB_HASH(sent_at, u64, struct meta_field, 16);           in C, with common/meta.h

    struct meta_id *id = META_ID(ctx);                        (NULL: no metadata that says what it is)
    u64 full = id ? meta_full_id(id) : 0, value;
    struct meta_field *at = sent_at.lookup(&full);            (NULL: foreign, or a format without this field)

    if (at && META_FIELD(ctx, at, &value))
        …

    formats.teach(program.maps["sent_at"], "sent_ns")         in Python

Offsets count from the packet's start to the left, so what other programs put further left changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import HintError, MapError, StateError, resources
from labkit.hints.declared import LOADING, declared
from labkit.hints.format import Format
from labkit.hints.kernel_types import load_types, types_by_id
from labkit.hints.layout import GENERIC_BYTES, ID_BYTES, Layout
from labkit.hints.table import table
from labkit.kernel import bpf
from labkit.kernel.btf import Btf, Kind
from labkit.program.map import Map
from labkit.program.program import Program
from labkit.program.spec import ProgramSpec

__all__ = ["Formats", "open_formats"]

_MAP = "meta_formats"
_TELLING, _PLACING = "to tell a program the ids", "to tell where a field is"
_FIELD_SIZES = (1, 2, 4, 8)

_open: weakref.WeakSet[Formats] = weakref.WeakSet()
_lock = threading.Lock()


def open_formats() -> list[Formats]:
    """Those of this process that are open."""
    with _lock:
        return list(_open)


class Formats:
    """The formats of one BTF object of the kernel's. Their ids are valid until ``close()``: then every reader finds them foreign.

    ``formats["meta_flow"]`` is a Format, ``formats.by_id(full_id)`` the same by number. ``formats.tell(program)`` gives the
    ids to a program that writes metadata, ``formats.teach(map, field)`` the places of a field to one that reads.
    """

    def __init__(self, btf: Btf, formats: Sequence[Format], fd: int) -> None:
        self.btf = btf
        self._formats = {each.name: each for each in formats}
        self._ids = {each.full_id: each for each in formats}
        self._close = weakref.finalize(self, os.close, fd)
        with _lock:
            _open.add(self)

    @classmethod
    @resources(LOADING)
    def load(cls, spec: ProgramSpec | None = None, names: Sequence[str] | None = None) -> Formats:
        """Load the types of a compiled program into the kernel (BPF_BTF_LOAD): as root or in a sandbox.

        ``names``: the structures that are formats; by default those that the C text declares by LAB_META_FORMAT. Without
        ``spec`` the three of bpf/common/meta.h. Each call makes a BTF object of its own, with an id of its own. Raises
        HintError, FeatureError, PrivilegeError.
        """
        if spec is None:
            spec = compile_source(path=lesson_directory() / "lab" / "meta_formats.c")
        if not isinstance(spec, ProgramSpec) or not spec.btf:
            raise HintError(
                f"{spec!r} has no type information.", tried=LOADING, remedy="give what lk.compile(…) returned"
            )
        btf = Btf(spec.btf)
        found = declared(btf, names, spec.name)
        return cls._of(load_types(spec.btf, spec.name), btf, found)

    @classmethod
    @resources(LOADING)
    def of_kernel(cls, btf_id: int, names: Sequence[str] | None = None) -> Formats:
        """The formats of a BTF object that somebody else loaded, by its id: types of a reader who knows nothing but metadata.

        Needs privilege over the machine: a sandbox has not. Raises HintError where there is none with this id.
        """
        if isinstance(btf_id, bool) or not isinstance(btf_id, int) or not 0 < btf_id < 1 << 32:
            raise HintError(f"btf_id can't be {btf_id!r}.", tried=LOADING, remedy="give the upper half of a full id")
        fd = types_by_id(btf_id)
        try:
            btf = Btf(bpf.btf_of(fd))
            found = declared(btf, names, f"BTF object {btf_id}")
        except BaseException:
            os.close(fd)
            raise
        return cls._of(fd, btf, found)

    @classmethod
    def _of(cls, fd: int, btf: Btf, found: Sequence[tuple[int, Layout]]) -> Formats:
        """With the descriptor, which is closed where it can't be done."""
        try:
            ident = bpf.btf_id(fd)
            formats = [Format(each, ident, btf.find(each.name, Kind.STRUCT), slot) for slot, each in found]
            return cls(btf, formats, fd)
        except BaseException:
            os.close(fd)
            raise

    @property
    def closed(self) -> bool:
        """Whether close was called."""
        return not self._close.alive

    @property
    def names(self) -> tuple[str, ...]:
        """The formats' names, by slot."""
        return tuple(self._formats)

    @property
    def btf_id(self) -> int:
        """The id of the BTF object. Raises StateError after close."""
        self._check_open("to ask for the id")
        return next(iter(self._formats.values())).btf_id

    def by_id(self, full_id: int) -> Format | None:
        """The format of this full id; None where it is none of these, or they are closed."""
        return self._ids.get(full_id) if isinstance(full_id, int) and not self.closed else None

    def offsets(self, field: str) -> dict[int, dict[str, int]]:
        """Where ``field`` is in each format that has it: full id → ``struct meta_field`` of bpf/common/meta.h.

        ``before``: bytes from the field's start to the packet's; ``bytes``: 1, 2, 4 or 8. What is in network byte order
        is read as it is. Raises HintError where no format has such a field, or it is no whole number.
        """
        self._check_open(_PLACING)
        having = [each for each in self if isinstance(field, str) and field in each.layout]
        if not having:
            raise HintError(
                f"No format has a field {field!r}.",
                tried=_PLACING,
                remedy="; ".join(f"{each.name} has {', '.join(f.name for f in each.layout.fields)}" for each in self),
            )
        return {each.full_id: _place(each, field) for each in having}

    def teach(self, places: Map, field: str) -> None:
        """Write ``offsets(field)`` to a reader's map (``LAB_HASH(name, u64, struct meta_field, entries)``).

        Raises HintError, and MapError where the map is another.
        """
        _check_map(places)
        for full_id, at in self.offsets(field).items():
            places[full_id] = at

    def forget(self, places: Map) -> None:
        """Take these formats out of a reader's map: it finds them foreign then."""
        _check_map(places)
        for full_id in self._ids:
            with contextlib.suppress(KeyError):
                del places[full_id]

    def tell(self, program: Program) -> None:
        """Write the formats' ids to the program's map ``meta_formats``: from then on ``meta_compose`` makes metadata.

        Raises HintError where the program writes no metadata.
        """
        self._check_open(_TELLING)
        slots = program.maps.get(_MAP) if isinstance(program, Program) else None
        if slots is None:
            raise HintError(
                f"{getattr(program, 'name', program)!r} has no map {_MAP}: it writes no metadata of a format.",
                tried=_TELLING,
                remedy='include "common/meta.h" and write by meta_compose()',
            )
        for each in self:
            if each.slot >= slots.spec.max_entries:
                raise MapError(
                    f"The map {_MAP} has {slots.spec.max_entries} slots: none for {each.name}.",
                    tried=_TELLING,
                    remedy="load fewer formats: Formats.load(spec, names=[…])",
                )
            slots[each.slot] = {"type_id": each.type_id, "btf_id": each.btf_id}

    def close(self) -> None:
        """Let go of the types: the kernel forgets them, as soon as no program holds them either. Safe to call again."""
        with _lock:
            _open.discard(self)
        self._close()

    def _check_open(self, tried: str) -> None:
        if self.closed:
            raise StateError(
                "These formats are closed: their ids are nobody's.",
                tried=tried,
                remedy="load them again: run the cell that calls Formats.load(…)",
            )

    def __getitem__(self, name: str) -> Format:
        try:
            return self._formats[name]
        except (KeyError, TypeError):
            raise HintError(
                f"There is no format {name!r} here.",
                tried="to look a format up",
                remedy="the formats are " + ", ".join(self._formats),
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._formats

    def __iter__(self) -> Iterator[Format]:
        return iter(self._formats.values())

    def __len__(self) -> int:
        return len(self._formats)

    def __enter__(self) -> Formats:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else ", ".join(str(each) for each in self)
        return f"<formats: {state}>"

    def _repr_html_(self) -> str:
        rows = (
            (each.name, str(each.btf_id), str(each.type_id), str(each.size_bytes), ", ".join(_own_fields(each)) or "–")
            for each in self
        )
        caption = "Formats of metadata" + (" (closed)" if self.closed else " that the kernel knows")
        return table(caption, rows, ("format", "BTF id", "type id", "bytes", "own fields"))


def _own_fields(form: Format) -> list[str]:
    """The names of those left of the generic ones."""
    return [each.name for each in form.layout.fields if form.layout.before(each.name) > GENERIC_BYTES]


def _place(form: Format, name: str) -> dict[str, int]:
    field, before = form.layout[name], form.layout.before(name)
    if field.kind != "int" or field.size_bytes not in _FIELD_SIZES or before <= ID_BYTES:
        raise HintError(
            f"The field {name} of {form.name} is no number that a program can be given.",
            tried=_PLACING,
            on=form.name,
            remedy="take a field of 1, 2, 4 or 8 bytes left of the ids",
        )
    return {"before": before, "bytes": field.size_bytes}


def _check_map(places: Any) -> None:
    if not isinstance(places, Map):
        raise HintError(f"{places!r} is no map.", tried=_PLACING, remedy='give one, as program.maps["sent_at"]')
