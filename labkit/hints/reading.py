"""Reading metadata: its last ten bytes tell which format it is, or that it is foreign."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from labkit.errors import HintError
from labkit.hints.format import Format
from labkit.hints.formats import Formats, open_formats
from labkit.hints.generic import MAGIC, GenericMeta, ids_of
from labkit.hints.layout import GENERIC_BYTES, ID_BYTES
from labkit.hints.table import table

__all__ = ["Decoded", "Foreign", "read"]


@dataclass(frozen=True)
class Decoded:
    """Metadata of a known format: its ``fields`` by name, without ids and magic, and the ``generic`` ones among them."""

    format: Format
    fields: dict[str, Any]
    generic: GenericMeta | None

    def _rows(self) -> list[tuple[str, str]]:
        """Names and values for people; of the generic fields those that say nothing as "not known"."""
        words = self.generic.describe() if self.generic is not None else {}
        generic = [name for name in words if name in self.fields and self.format.layout.before(name) <= GENERIC_BYTES]
        return [(name, words[name] if name in generic else str(value)) for name, value in self.fields.items()]

    def __str__(self) -> str:
        width = max(map(len, self.fields), default=0)
        return "\n".join([str(self.format), *(f"  {name:<{width}}  {text}" for name, text in self._rows())])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return table(str(self.format), self._rows())


@dataclass(frozen=True)
class Foreign:
    """Metadata that can't be decoded, and why. Where the magic is right its ``generic`` fields can be read all the same."""

    reason: str
    generic: GenericMeta | None = None

    def __str__(self) -> str:
        return f"foreign: {self.reason}"


def read(frame_or_bytes: Any, formats: Formats | Iterable[Formats] | None = None) -> Decoded | Foreign:
    """What metadata says: Decoded where its format is one of ``formats``, by default all that this process has open.

    ``frame_or_bytes`` is the metadata, which ends where the packet starts, or something that has it as ``meta``, as what
    ``Capture.take()`` gives. Any bytes are answered. Raises HintError for what is no bytes.
    """
    meta = _bytes_of(frame_or_bytes)
    known = _sets(formats)
    ids = ids_of(meta)
    if ids is None:
        return Foreign("no metadata" if not meta else f"no magic: {len(meta)} bytes are fewer than the last {ID_BYTES}")
    type_id, btf_id, magic = ids
    if magic != MAGIC:
        return Foreign(f"no magic: {magic:#06x} in place of {MAGIC:#06x}")
    generic = GenericMeta.from_bytes(meta)
    full_id = btf_id << 32 | type_id
    found = next((each for one in known if (each := one.by_id(full_id)) is not None), None)
    if found is None:
        return Foreign(f"unknown format {btf_id}:{type_id}", generic)
    if len(meta) < found.size_bytes:
        return Foreign(f"cut short: {found.name} has {found.size_bytes} bytes, here are {len(meta)}", generic)
    return Decoded(found, found.decode(meta), generic)


def _bytes_of(given: Any) -> bytes:
    meta = getattr(given, "meta", given)
    if not isinstance(meta, (bytes, bytearray, memoryview)):
        raise HintError(
            f"{given!r} has no metadata to read.",
            tried="to read metadata",
            remedy="give bytes that end where the packet starts, or what capture.take() returned, one at a time",
        )
    return bytes(meta)


def _sets(formats: Any) -> list[Formats]:
    if formats is None:
        return open_formats()
    found = [formats] if isinstance(formats, Formats) else formats
    try:
        found = list(found)
    except TypeError:
        found = [found]
    if not all(isinstance(each, Formats) for each in found):
        raise HintError(
            f"{formats!r} are no formats.", tried="to read metadata", remedy="give what Formats.load(…) returned"
        )
    return found
