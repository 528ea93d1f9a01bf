"""Ring buffers: lines that programs write, read by one reader through shared memory."""

from __future__ import annotations

import mmap
import os
from struct import Struct
from typing import Any

from labkit.errors import MapError
from labkit.program.map import Map

__all__ = ["RingMap"]

# BPF_RINGBUF_BUSY_BIT, BPF_RINGBUF_DISCARD_BIT and BPF_RINGBUF_HDR_SZ, include/uapi/linux/bpf.h
_BUSY, _DISCARDED, _HEADER_BYTES = 1 << 31, 1 << 30, 8
_U32, _POSITION = Struct("=I"), Struct("=Q")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class RingMap(Map):
    """A ring buffer: ``drain()`` takes out what programs have written. One reader at a time."""

    _consumer: mmap.mmap | None = None
    _producer: mmap.mmap | None = None

    def drain(self) -> list[bytes]:
        """What was written since the last time, oldest first, each as the program's bytes. Raises StateError if closed."""
        mine, theirs = self._mapped()
        (at,) = _POSITION.unpack_from(mine)
        (end,) = _POSITION.unpack_from(theirs)
        found = []
        while at < end:
            start = _PAGE + at % self.spec.max_entries
            (length,) = _U32.unpack_from(theirs, start)
            if length & _BUSY:  # its program is still at it
                break
            size = length & ~_DISCARDED
            if not length & _DISCARDED:
                found.append(theirs[start + _HEADER_BYTES : start + _HEADER_BYTES + size])
            at += (_HEADER_BYTES + size + 7) & ~7
        _POSITION.pack_into(mine, 0, at)
        return found

    def _mapped(self) -> tuple[mmap.mmap, mmap.mmap]:
        """The reader's position, and the writers' with the lines behind it, twice so that none is cut at the end."""
        fd = self.fd
        if self._consumer is None or self._producer is None:
            self._consumer = mmap.mmap(fd, _PAGE)
            length = _PAGE + 2 * self.spec.max_entries
            self._producer = mmap.mmap(fd, length, prot=mmap.PROT_READ, offset=_PAGE)
        return self._consumer, self._producer

    def close(self) -> None:
        """Let go of the memory and the descriptor. Safe to call again."""
        super().close()
        for each in (self._consumer, self._producer):
            if each is not None:
                each.close()
        self._consumer = self._producer = None

    def __getitem__(self, key: Any) -> Any:
        """A ring buffer has no entries. Raises MapError."""
        raise MapError(
            f"The ring buffer {self.name} has no entries to look up.",
            tried="to read an entry",
            on=self.name,
            remedy=f"take out what was written: {self.name}.drain()",
        )
