"""Reading a map's bytes through a descriptor of one's own, never more than was asked for at a time."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import MapError
from labkit.kernel import bpf
from labkit.kernel.cpus import possible_cpus
from labkit.program.map import Map
from labkit.program.targets import SocketMap
from labkit.uapi import MapType

__all__ = ["NAME_BYTES", "READABLE", "Fill", "Reading", "SocketsReading", "Told", "fill_of", "reading_of", "told_of"]

READABLE = (
    *(MapType.HASH, MapType.ARRAY, MapType.PERCPU_HASH, MapType.PERCPU_ARRAY, MapType.LRU_HASH),
    *(MapType.LRU_PERCPU_HASH, MapType.LPM_TRIE, MapType.DEVMAP, MapType.DEVMAP_HASH, MapType.CPUMAP),
    *(MapType.PROG_ARRAY, MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS, MapType.XSKMAP),
)
"""Types whose entries can be told one by one."""

NAME_BYTES = 64  # room for a socket's name, where the kernel gives no value

_BATCHED = (
    *(MapType.HASH, MapType.ARRAY, MapType.PERCPU_HASH, MapType.PERCPU_ARRAY),
    *(MapType.LRU_HASH, MapType.LRU_PERCPU_HASH, MapType.LPM_TRIE),
)
_NO_BATCH = (errno.EINVAL, errno.EOPNOTSUPP, 524)  # 524: ENOTSUPP, include/linux/errno.h
_VANISHED = (errno.ENOENT, errno.EAGAIN)
_AS_FOUR = (MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS, MapType.PROG_ARRAY)
_POSITION = struct.Struct("=Q")

Entry = tuple[bytes, bytes]


class Reading:
    """One map's entries as bytes; of a per-CPU map a value is ``stride`` bytes for each of ``cpus``.

    It goes on where the Map is closed and another program uses the same one. The walk from entry to entry has one place at
    a time. Raises MapError where the kernel refuses.
    """

    def __init__(self, each: Map) -> None:
        self.spec, self.id = each.spec, each.id
        self.fd = os.dup(each.fd)
        per_cpu = each.spec.type.per_cpu
        self.cpus = possible_cpus() if per_cpu else 1
        self.value_size = 4 if each.spec.type in _AS_FOUR else each.spec.value_size
        self.stride = (self.value_size + 7) & ~7 if per_cpu else self.value_size
        self.bytes = self.stride * self.cpus
        self._batches = each.spec.type in _BATCHED
        self._place: bytes | None = None

    def close(self) -> None:
        """Let go of the descriptor. Safe to call again."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def parts(self, raw: bytes) -> list[bytes]:
        """The value of each CPU; for other maps a list of one."""
        return [raw[at : at + self.value_size] for at in range(0, self.bytes, self.stride or 1)][: self.cpus]

    def lookup(self, key: bytes) -> bytes | None:
        """One value; None where there is no such entry (any more)."""
        try:
            return bpf.map_lookup(self.fd, key, self.bytes)
        except OSError as error:
            if error.errno in _VANISHED:
                return None
            raise self._refused(error) from error

    def whole(self) -> dict[bytes, bytes]:
        """Every entry of a map that is small."""
        self.rewind()
        found: dict[bytes, bytes] = {}
        for _ in range(3):  # one batch has it all, unless a program adds and deletes while it is read
            entries, ended = self.step(self.spec.max_entries)
            found.update(entries)
            if ended:
                break
        return found

    def rewind(self) -> None:
        """Begin with the first entry again."""
        self._place = None

    def step(self, most: int) -> tuple[list[Entry], bool]:
        """The next entries, about ``most`` of them, and whether that was the end. Some may come twice where others write."""
        if self._batches:
            try:
                return self._batch(most)
            except OSError as error:
                if error.errno not in _NO_BATCH:
                    raise self._refused(error) from error
                self._batches = False
        try:
            return self._walk(most)
        except OSError as error:
            raise self._refused(error) from error

    def _batch(self, most: int) -> tuple[list[Entry], bool]:
        size, many = self.spec.key_size, most
        while True:
            try:
                keys, values, found, place = bpf.map_lookup_on(self.fd, self._place, many, size, self.bytes)
                break
            except OSError as error:  # more than that are in one bucket of a hash
                if error.errno != errno.ENOSPC or many >= 16 * most:
                    raise
                many *= 2
        self._place = place
        step = self.bytes
        entries = [(keys[i * size : (i + 1) * size], values[i * step : (i + 1) * step]) for i in range(found)]
        return entries, place is None

    def _walk(self, most: int) -> tuple[list[Entry], bool]:
        found: list[Entry] = []
        for _ in range(most):
            key = bpf.map_next_key(self.fd, self._place, self.spec.key_size)
            self._place = key
            if key is None:
                return found, True
            raw = self.lookup(key)
            if raw is not None:
                found.append((key, raw))
        return found, False

    def _refused(self, error: OSError) -> MapError:
        return MapError(
            f"The map {self.spec.name} would not be read.",
            tried="to read a map's entries",
            on=f"{self.spec.name} ({self.spec.type.name.lower()})",
            errno=error.errno,
            remedy="a map with BPF_F_WRONLY is for programs to read alone; others can be read by whoever holds them",
        )


class SocketsReading(Reading):
    """An XSKMAP gives nothing back to read: what the lab itself has put into its slots, each as the socket's name."""

    def __init__(self, each: SocketMap) -> None:
        super().__init__(each)
        self.value_size = self.stride = self.bytes = NAME_BYTES
        self._sockets = each

    def whole(self) -> dict[bytes, bytes]:
        """Every slot that the lab knows to be taken."""
        return {
            struct.pack("=I", slot): socket.where.encode()[:NAME_BYTES].ljust(NAME_BYTES, b"\0")
            for slot, socket in sorted(self._sockets.held().items())
        }

    def lookup(self, key: bytes) -> bytes | None:
        """The socket's name in a slot."""
        return self.whole().get(key)


def reading_of(each: Map) -> Reading:
    """How its entries are read. Raises StateError where the map is closed."""
    return SocketsReading(each) if isinstance(each, SocketMap) else Reading(each)


@dataclass(frozen=True)
class Told:
    """What the kernel tells of a map beside its shape; ``memory_bytes`` None where it doesn't say."""

    memory_bytes: int | None = None
    flags: int = 0
    frozen: bool = False


def told_of(reading: Reading) -> Told:
    """Of its descriptor's /proc/self/fdinfo (kernel/bpf/syscall.c, bpf_map_show_fdinfo)."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/self/fdinfo/{reading.fd}").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("memlock", "map_flags", "frozen"):
                found[name] = int(value, 0)
    flags = reading.spec.flags | found.get("map_flags", 0)  # the kernel doesn't keep who may read and write there
    return Told(found.get("memlock"), flags, bool(found.get("frozen")))


@dataclass(frozen=True)
class Fill:
    """A ring buffer's: bytes that wait for a reader, of how many, and bytes written since it was made."""

    waiting_bytes: int
    size_bytes: int
    written_bytes: int


def fill_of(reading: Reading) -> Fill:
    """Both positions of a ring buffer, of its own first pages (Documentation/bpf/ringbuf.rst). Raises MapError."""
    page = os.sysconf("SC_PAGE_SIZE")
    try:
        taken = _position(reading.fd, 0)  # first, so that what is written meanwhile makes it more and never less than 0
        written = _position(reading.fd, page)
    except (OSError, ValueError) as error:
        raise MapError(
            f"The ring buffer {reading.spec.name} could not be looked into.",
            tried="to map its positions",
            on=reading.spec.name,
            errno=getattr(error, "errno", None),
            remedy="its positions can be read by whoever may map it",
        ) from error
    size = reading.spec.max_entries
    return Fill(min(written - taken, size), size, written)


def _position(fd: int, offset: int) -> int:
    with mmap.mmap(fd, os.sysconf("SC_PAGE_SIZE"), prot=mmap.PROT_READ, offset=offset) as positions:
        return int(_POSITION.unpack_from(positions)[0])
