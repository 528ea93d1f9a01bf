"""One format of metadata: a structure with the two numbers that name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labkit.hints.generic import NO_QUEUE, id_bytes
from labkit.hints.layout import GENERIC_BYTES, ID_BYTES, Layout

__all__ = ["Format"]

_QUEUE_BEFORE = GENERIC_BYTES - 14  # bytes from the field to the packet, struct meta_generic of bpf/common/meta.h


@dataclass(frozen=True)
class Format:
    """One format: its layout, its type's id, the id of the BTF object in the kernel, the slot of its ids in a program's map."""

    layout: Layout
    btf_id: int
    type_id: int
    slot: int

    @property
    def name(self) -> str:
        """The structure's name in C."""
        return self.layout.name

    @property
    def full_id(self) -> int:
        """Both ids in one number of 64 bits: the BTF object in the upper half, the type in the lower."""
        return self.btf_id << 32 | self.type_id

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole structure, ids and magic among them."""
        return self.layout.size_bytes

    def encode(self, /, **values: Any) -> bytes:
        """Metadata of this format, with its ids and the magic; fields not given are as ``meta_compose`` leaves them.

        Raises HintError for a field it doesn't have or a value that doesn't fit.
        """
        out = self.layout.encode(**{**_unknown(self.layout), **values})
        return out[:-ID_BYTES] + id_bytes(self.type_id, self.btf_id)

    def decode(self, meta: bytes | bytearray | memoryview) -> dict[str, Any]:
        """The fields in metadata that ends where the packet starts, without ids and magic. Raises HintError for less."""
        is_bytes = isinstance(meta, (bytes, bytearray, memoryview))
        found = self.layout.decode(bytes(meta)[-self.size_bytes :] if is_bytes else meta)
        return {name: value for name, value in found.items() if self.layout.before(name) > ID_BYTES}

    def __str__(self) -> str:
        return f"{self.name}: {self.btf_id}:{self.type_id}, {self.size_bytes} bytes"


def _unknown(layout: Layout) -> dict[str, Any]:
    """The generic field that says "not known" by another number than 0."""
    return {each.name: NO_QUEUE for each in layout.fields if layout.before(each.name) == _QUEUE_BEFORE}
