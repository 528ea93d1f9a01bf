"""BPF maps as Python mappings: typed, per-CPU values summed or one by one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

from labkit.errors import LabError, MapError, PrivilegeError, StateError, kernel_word
from labkit.kernel import bpf
from labkit.kernel.btf import Btf
from labkit.kernel.cpus import possible_cpus
from labkit.kernel.gate import privilege_remedy
from labkit.program.layout import Layout, layout_of
from labkit.program.spec import MapSpec
from labkit.uapi import MapType

__all__ = ["Map"]

_ENOTSUPP = 524  # include/linux/errno.h; what batch commands answer where the map's type has none
_ARRAYS = (MapType.ARRAY, MapType.PERCPU_ARRAY)


class Map:
    """A map of the kernel: ``m[key]``, ``m[key] = value``, ``del m[key]``, ``items()``, ``read()``.

    Keys and values follow the C types: whole numbers, dicts for structs, lists for arrays. For per-CPU maps ``m[key]``
    is the sum over all CPUs (of each field, for structs) and ``per_cpu(key)`` the list. A missing key raises KeyError.
    """

    def __init__(self, spec: MapSpec, fd: int, btf: Btf | None = None) -> None:
        self.spec = spec
        self._fd: int | None = fd
        self._key = layout_of(btf, spec.key_type, spec.key_size)
        self._value = layout_of(btf, spec.value_type, spec.value_size)
        self._per_cpu = spec.type.per_cpu
        self._cpus = possible_cpus()
        self._stride = (spec.value_size + 7) & ~7 if self._per_cpu else spec.value_size
        self._bytes = self._stride * (self._cpus if self._per_cpu else 1)
        self._batches = True
        self.id = bpf.map_info(fd).id

    @classmethod
    def create(cls, spec: MapSpec, btf: Btf | None = None) -> Map:
        """A new map in the kernel. Raises MapError or PrivilegeError, with the kernel's word, where it refuses."""
        try:
            fd = bpf.map_create(spec.type, spec.key_size, spec.value_size, spec.max_entries, spec.flags, spec.name)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # nothing to do with this map
                raise
            raise _not_created(spec, error) from error
        try:
            return cls(spec, fd, btf)
        except BaseException:
            os.close(fd)
            raise

    @property
    def fd(self) -> int:
        """The descriptor. Raises StateError after close."""
        if self._fd is None:
            raise StateError(
                f"The map {self.spec.name} is closed.",
                tried="to use a map",
                on=self.spec.name,
                remedy="load the program again: run the cell that calls lab.load(…)",
            )
        return self._fd

    @property
    def name(self) -> str:
        """The map's name in the C text."""
        return self.spec.name

    def close(self) -> None:
        """Let go of the descriptor; the map itself lives on while a program uses it. Safe to call again."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _lookup(self, key: Any) -> bytes:
        packed = self._key.pack(key, f"a key of the map {self.name}")
        try:
            return bpf.map_lookup(self.fd, packed, self._bytes)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise KeyError(key) from None
            raise self._refused("read", key, error) from error

    def __getitem__(self, key: Any) -> Any:
        return self._total(self._lookup(key))

    def per_cpu(self, key: Any) -> list[Any]:
        """The value of each possible CPU at ``key``; for other maps a list of one."""
        return self._parts(self._lookup(key))

    def _parts(self, raw: bytes) -> list[Any]:
        return [self._value.unpack(raw[at : at + self.spec.value_size]) for at in range(0, self._bytes, self._stride)]

    def _total(self, raw: bytes) -> Any:
        parts = self._parts(raw)
        return _sum(self._value, parts) if self._per_cpu else parts[0]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write ``value``; in a per-CPU map a list gives one value a CPU, anything else is written for every CPU."""
        self._write(key, self._packed(value))

    def _packed(self, value: Any) -> bytes:
        what = f"a value of the map {self.name}"
        if not self._per_cpu:
            return self._value.pack(value, what)
        given = value if isinstance(value, list) and len(value) == self._cpus else [value] * self._cpus
        return b"".join(self._value.pack(part, what).ljust(self._stride, b"\0") for part in given)

    def _write(self, key: Any, packed: bytes) -> None:
        packed_key = self._key.pack(key, f"a key of the map {self.name}")
        try:
            bpf.map_update(self.fd, packed_key, packed)
        except OSError as error:
            raise self._refused("write", key, error) from error

    def __delitem__(self, key: Any) -> None:
        packed = self._key.pack(key, f"a key of the map {self.name}")
        try:
            bpf.map_delete(self.fd, packed)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise KeyError(key) from None
            raise self._refused("delete", key, error) from error

    def __contains__(self, key: object) -> bool:
        try:
            self._lookup(key)
        except (KeyError, MapError):
            return False
        return True

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def items(self) -> Iterator[tuple[Any, Any]]:
        """(key, value) of every entry, each entry once, per-CPU values summed; safe while programs write.

        Where the kernel has a batch read (arrays), all entries are read in one call, else one by one with a bound
        of twice the map's size: a program that keeps replacing keys can't keep the reader for ever.
        """
        for key, raw in self._raw_items():
            yield self._key.unpack(key), self._total(raw)

    def items_by_cpu(self) -> Iterator[tuple[Any, list[Any]]]:
        """(key, the value of each possible CPU) of every entry, read as ``items`` reads them."""
        for key, raw in self._raw_items():
            yield self._key.unpack(key), self._parts(raw)

    def raw_items(self) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of every entry as the kernel has them: a per-CPU value is a multiple of 8 bytes for each CPU."""
        return self._raw_items()

    def read(self) -> dict[Any, Any]:
        """All entries as a dict; struct keys become tuples of their values."""
        return {tuple(key.values()) if isinstance(key, dict) else key: value for key, value in self.items()}

    def _raw_items(self) -> Iterator[tuple[bytes, bytes]]:
        if self._batches and self.spec.type in _ARRAYS:
            try:
                keys, values, count = bpf.map_lookup_batch(
                    self.fd, self.spec.max_entries, self.spec.key_size, self._bytes
                )
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, _ENOTSUPP):
                    raise self._refused("read", "all", error) from error
                self._batches = False
            else:
                size = self.spec.key_size
                for i in range(count):
                    yield keys[i * size : (i + 1) * size], values[i * self._bytes : (i + 1) * self._bytes]
                return
        yield from self._walk()

    def _walk(self) -> Iterator[tuple[bytes, bytes]]:
        key, seen = bpf.map_next_key(self.fd, None, self.spec.key_size), set[bytes]()
        for _ in range(2 * self.spec.max_entries):
            if key is None:
                return
            if key not in seen:
                seen.add(key)
                try:
                    yield key, bpf.map_lookup(self.fd, key, self._bytes)
                except OSError as error:  # deleted between the two calls, or an empty slot
                    if error.errno != errno.ENOENT:
                        raise self._refused("read", self._key.unpack(key), error) from error
            key = bpf.map_next_key(self.fd, key, self.spec.key_size)

    def __len__(self) -> int:
        return sum(1 for _ in self._raw_items())

    def _refused(self, verb: str, key: Any, error: OSError) -> MapError:
        remedy = {
            errno.E2BIG: f"the map has {self.spec.max_entries} entries: use a smaller key, or delete one first",
            errno.EINVAL: "check that this kind of map allows it",
            errno.EOPNOTSUPP: "maps of this kind can't be read from user space",
        }.get(error.errno or 0, "check the key and the value against the C declaration")
        message = f"The map {self.name} would not {verb} entry {key!r}."
        if self.spec.type is MapType.PROG_ARRAY and error.errno == errno.EINVAL:
            message = f"The map {self.name} does not take this program for entry {key!r}."
            remedy = "its programs must be of one type with those that call them, and bound to no device"
        return MapError(
            message,
            tried=f"to {verb} an entry",
            on=f"{self.name} ({self.spec.type.name.lower()})",
            errno=error.errno,
            remedy=remedy,
        )

    def __repr__(self) -> str:
        state = "closed" if self._fd is None else f"id {self.id}"
        return (
            f"<map {self.name}: {self.spec.type.name.lower()}, {self.spec.max_entries} entries, "
            f"{self.spec.key_size} → {self.spec.value_size} bytes, {state}>"
        )


def _sum(layout: Layout, parts: list[Any]) -> Any:
    if layout.kind == "int":
        return sum(parts)
    if layout.kind == "struct":
        return {name: _sum(part, [p[name] for p in parts]) for name, _, part in layout.fields}
    if layout.element is not None:
        return [_sum(layout.element, list(column)) for column in zip(*parts, strict=True)]
    return parts


def _not_created(spec: MapSpec, error: OSError) -> LabError:
    on = f"{spec.name} ({spec.type.name.lower()}, {spec.max_entries} entries)"
    if error.errno == errno.EPERM:
        return PrivilegeError(
            "This process may not make BPF maps.",
            tried="BPF_MAP_CREATE",
            on=on,
            errno=error.errno,
            remedy=f"{privilege_remedy()}; the C text is not the cause",
        )
    remedy = "check its type, sizes and number of entries against the kernel's documentation"
    if error.errno in (errno.ENOMEM, errno.E2BIG):
        remedy = "there is no memory for a map of this size: give it fewer entries"
    elif spec.type.per_cpu and spec.value_size % 8:
        remedy = "pad the value to a multiple of 8 bytes"
    return MapError(
        f"The kernel would not make the map {spec.name}: {kernel_word(error.errno or 0)}.",
        tried="BPF_MAP_CREATE",
        on=on,
        errno=error.errno,
        remedy=remedy,
    )
