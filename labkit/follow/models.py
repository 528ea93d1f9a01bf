"""Maps of a replay as the follower has them: the same content as the kernel's copies, one CPU's part of it."""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass, field

from labkit.analysis.memory import Memory, Region
from labkit.follow.copies import SHARED, Content
from labkit.program.spec import MapSpec
from labkit.uapi import MapType, MapUpdate

__all__ = ["CannotFollow", "MapModel"]

_ARRAYS = (MapType.ARRAY, MapType.PERCPU_ARRAY)
_LRU = (MapType.LRU_HASH, MapType.LRU_PERCPU_HASH)
_RECORD_HEAD = 8  # BPF_RINGBUF_HDR_SZ


class CannotFollow(Exception):
    """From here on the way can't be followed; says why, for people."""


@dataclass
class MapModel:
    """One map. A value is a region of ``memory``, made when it is looked at first; ``changed`` has keys that were written."""

    content: Content
    memory: Memory
    cpu: int
    values: dict[bytes, Region | None] = field(default_factory=dict)
    written: int = 0

    @property
    def spec(self) -> MapSpec:
        """What the C text declares."""
        return self.content.spec

    def value(self, key: bytes) -> Region | None:
        """Where the value of this very key is, or None where there is none."""
        if key not in self.values:
            raw = self.original(key)
            self.values[key] = None if raw is None else self.memory.add("map value", len(raw), raw)
        return self.values[key]

    def original(self, key: bytes) -> bytes | None:
        """The bytes of this CPU's value before the replay."""
        raw = self.content.entries.get(key)
        if raw is None:
            inside = self.spec.type in _ARRAYS and int.from_bytes(key, "little") < self.spec.max_entries
            return bytes(self.spec.value_size) if inside else None
        stride = (self.spec.value_size + 7) & ~7 if self.spec.type.per_cpu else 0
        return raw[self.cpu * stride : self.cpu * stride + self.spec.value_size]

    def lookup(self, key: bytes) -> tuple[bytes, Region | None]:
        """bpf_map_lookup_elem: the key that was found (a prefix may be shorter), and its value."""
        if self.spec.type in SHARED:
            raise CannotFollow(
                f"it looks into {self.spec.name}, a {self.spec.type.name.lower()}, which can't be copied"
            )
        if self.spec.type is MapType.LPM_TRIE:
            key = self._prefix(key)
        return key, self.value(key)

    def _prefix(self, key: bytes) -> bytes:
        """The longest entry that ``key`` is in; ``key`` where there is none."""
        (bits,) = struct.unpack_from("=I", key)
        wanted = int.from_bytes(key[4:], "big")
        best, length = key, -1
        for entry in {*self.content.entries, *self.values}:
            (prefix,) = struct.unpack_from("=I", entry)
            shift = 8 * len(entry[4:]) - prefix
            fits = prefix <= bits and wanted >> shift == int.from_bytes(entry[4:], "big") >> shift
            if fits and prefix > length and (self.values.get(entry) or self.original(entry) is not None):
                best, length = entry, prefix
        return best

    def update(self, key: bytes, value: bytes, flags: int) -> int:
        """bpf_map_update_elem: 0 or an errno below 0."""
        if flags > MapUpdate.EXIST:
            raise CannotFollow(f"it updates {self.spec.name} with flags {flags:#x}")
        here = self.value(key)
        if self.spec.type in _ARRAYS:
            if here is None:
                return -errno.E2BIG
            if flags == MapUpdate.NOEXIST:
                return -errno.EEXIST
            here.data[:] = value
            return 0
        if here is not None and flags == MapUpdate.NOEXIST:
            return -errno.EEXIST
        if here is None and flags == MapUpdate.EXIST:
            return -errno.ENOENT
        return self._put(key, value, here)

    def _put(self, key: bytes, value: bytes, here: Region | None) -> int:
        if here is not None and self.spec.type.per_cpu:
            here.data[:] = value
            return 0
        if here is None and self._count() >= self.spec.max_entries:
            if self.spec.type in _LRU:
                raise CannotFollow(f"{self.spec.name} is full, and which entry makes room is the kernel's choice")
            return -errno.E2BIG if self.spec.type is not MapType.LPM_TRIE else -errno.ENOSPC
        self.values[key] = self.memory.add("map value", len(value), value)
        return 0

    def _count(self) -> int:
        looked_at = sum(1 for each in self.values.values() if each is not None)
        return looked_at + sum(1 for key in self.content.entries if key not in self.values)

    def delete(self, key: bytes) -> int:
        """bpf_map_delete_elem: 0 or an errno below 0."""
        if self.spec.type in _ARRAYS:
            return -errno.EINVAL
        if self.value(key) is None:
            return -errno.ENOENT
        self.values[key] = None
        return 0

    def reserve(self, size: int) -> bool:
        """Room in a ring buffer that was empty: whether there is."""
        needed = (size + _RECORD_HEAD + 7) & ~7
        if size > self.spec.max_entries or self.written + needed > self.spec.max_entries - 1:
            return False
        self.written += needed
        return True

    def changes(self) -> dict[bytes, tuple[bytes | None, bytes | None]]:
        """Keys whose value is another one now: before and after, None for none."""
        found = {}
        for key, region in self.values.items():
            before, after = self.original(key), None if region is None else bytes(region.data)
            if before != after:
                found[key] = (before, after)
        return found
