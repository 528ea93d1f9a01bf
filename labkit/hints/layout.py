"""The layout of a C structure, learnt from type information (BTF): its fields by name, nested ones among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from labkit.errors import HintError
from labkit.hints.field import Field
from labkit.kernel.btf import Btf, BtfType, Kind, Member

__all__ = ["GENERIC_BYTES", "ID_BYTES", "Layout"]

GENERIC_BYTES = 32  # struct meta_generic, bpf/common/meta.h; a newer one may be longer, to the left
ID_BYTES = 10  # struct meta_id
_GENERIC, _ID = "meta_generic", "meta_id"
_NETWORK_ORDER = ("__be16", "__be32", "__be64")  # include/uapi/linux/types.h
_DEEPEST = 32


@dataclass(frozen=True)
class Layout:
    """A structure's ``fields`` in order, those of nested structures among them.

    A nested structure's fields are named ``outer.inner``; those of the generic structure at the end of a format keep their
    own names, as ``hash``, where the format has no field of that name. ``unsupported`` names what can't be read: bit
    fields and what has no size. ``generic_at`` is the offset of the generic structure's 32 bytes, None where the
    structure isn't a format.
    """

    name: str
    size_bytes: int
    fields: tuple[Field, ...]
    unsupported: tuple[str, ...] = ()
    generic_at: int | None = None
    _by_name: dict[str, Field] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._by_name.update((each.name, each) for each in self.fields)

    @classmethod
    def from_btf(cls, btf: Btf, name: str) -> Layout:
        """The layout of ``struct name``. Raises HintError where the type information has none."""
        if not isinstance(btf, Btf) or not isinstance(name, str):
            raise HintError(
                f"{btf!r} and {name!r} name no structure.",
                tried="to read a layout",
                remedy='give the type information and a name, as Layout.from_btf(Btf(spec.btf), "meta_flow")',
            )
        try:
            found = btf.type(btf.find(name, Kind.STRUCT))
        except KeyError:
            raise HintError(
                f"The type information has no struct {name}.",
                tried="to read a layout",
                on=name,
                remedy=f"below the struct in the C text write LAB_META_FORMAT({name}); else the compiler leaves it out",
            ) from None
        return cls.of(btf, found)

    @classmethod
    def of(cls, btf: Btf, struct_type: BtfType) -> Layout:
        """The layout of a struct or union of ``btf``."""
        fields: list[Field] = []
        unsupported: list[str] = []
        taken: set[str] = set()
        embedded = _embedded(btf, struct_type)
        for found in _walk(btf, struct_type, "", "", 0, embedded is not None, 0):
            if isinstance(found, str):
                unsupported.append(found)
                continue
            short, made = found
            name = short if short not in taken else made.name
            if name in taken:  # of an unnamed member, or said twice
                name = f"{name}@{made.offset}"
            taken.add(name)
            fields.append(replace(made, name=name))
        at = None if embedded is None else struct_type.size - GENERIC_BYTES
        return cls(struct_type.name, struct_type.size, tuple(fields), tuple(unsupported), at)

    def __getitem__(self, name: str) -> Field:
        try:
            return self._by_name[name]
        except (KeyError, TypeError):
            raise HintError(
                f"struct {self.name} has no field {name!r}.",
                tried="to look a field up",
                on=self.name,
                remedy="its fields are " + (", ".join(self._by_name) or "none that can be read"),
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def decode(self, data: bytes | bytearray | memoryview) -> dict[str, Any]:
        """name → value: int, list of int for an array, bytes for anything else.

        ``data`` has the structure's size. Raises HintError for anything else.
        """
        held = bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else None
        if held is None or len(held) != self.size_bytes:
            raise HintError(
                f"{data!r} can't be a struct {self.name}."
                if held is None
                else f"{len(held)} bytes are no {self.name}.",
                tried="to decode metadata",
                on=self.name,
                remedy=f"give exactly {self.size_bytes} bytes",
            )
        return {each.name: each.read(held) for each in self.fields}

    def encode(self, /, **values: Any) -> bytes:
        """The structure's bytes with these values, 0 in every other field: ``encode(mark=7)``, ``encode(**{"outer.inner": 7})``.

        Raises HintError for a field it doesn't have or a value that doesn't fit.
        """
        out = bytearray(self.size_bytes)
        for name, value in values.items():
            self[name].write(out, value)
        return bytes(out)

    def before(self, name: str) -> int:
        """Bytes from the field's start to the packet's, where the structure ends. Raises HintError."""
        return self.size_bytes - self[name].offset

    def __str__(self) -> str:
        width = max((len(each.name) for each in self.fields), default=0)
        lines = [f"struct {self.name}, {self.size_bytes} bytes"]
        lines += [f"  {each.offset:4}  {each.name:<{width}}  {each.describe()}" for each in self.fields]
        lines += [f"        {name}  (can't be read)" for name in self.unsupported]
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def _embedded(btf: Btf, struct_type: BtfType, depth: int = 0) -> BtfType | None:
    """The generic structure at the very end of this one, at whatever depth; itself, too."""
    if depth > _DEEPEST or struct_type.kind is not Kind.STRUCT or struct_type.size < GENERIC_BYTES:
        return None
    if struct_type.name == _GENERIC:
        return struct_type if _ends_in_id(btf, struct_type) else None
    members = btf.members(struct_type)
    if not members or members[-1].bit_size:
        return None
    last = btf.resolve(members[-1].type)
    if members[-1].bit_offset // 8 + last.size != struct_type.size:
        return None
    return _embedded(btf, last, depth + 1)


def _ends_in_id(btf: Btf, struct_type: BtfType) -> bool:
    members = btf.members(struct_type)
    if not members:
        return False
    last = btf.resolve(members[-1].type)
    return last.name == _ID and last.size == ID_BYTES and members[-1].bit_offset // 8 + ID_BYTES == struct_type.size


def _walk(
    btf: Btf, struct_type: BtfType, short: str, long: str, at: int, is_format: bool, depth: int
) -> Iterator[tuple[str, Field] | str]:
    """(name among the format's own, field with its full name) of each field; the name alone where it can't be read.

    ``short`` and ``long`` are the two prefixes. The last member of a format has no prefix of its own in ``short``: it is
    the generic structure, or a format that this one extends.
    """
    members = btf.members(struct_type)
    for place, member in enumerate(members):
        inner = btf.resolve(member.type)
        last = is_format and place == len(members) - 1
        name = f"{short}{member.name}"
        full = f"{long}{member.name}"
        if inner.kind in (Kind.STRUCT, Kind.UNION) and not member.bit_size and depth < _DEEPEST:
            dot = f"{name}." if member.name and not last else short
            full_dot = f"{full}." if member.name else long
            yield from _walk(btf, inner, dot, full_dot, at + member.bit_offset // 8, last, depth + 1)
            continue
        made = _field(btf, member, inner, full, at)
        yield full if made is None else (name, made)


def _field(btf: Btf, member: Member, inner: BtfType, name: str, at: int) -> Field | None:
    """The field of a member that is no structure; None where it can't be read."""
    if member.bit_size or member.bit_offset % 8:
        return None
    offset = at + member.bit_offset // 8
    if inner.kind is Kind.ARRAY:
        return _array(btf, inner, name, offset)
    number = _number(btf, member.type)
    if number is None:
        size = 0 if inner.kind is Kind.INT else btf.size(member.type)  # such an INT is a bit field, too
        return Field(name, offset, size, kind="bytes") if size else None
    size, signed, network = number
    return Field(name, offset, size, signed, network_order=network)


def _array(btf: Btf, array_type: BtfType, name: str, offset: int) -> Field | None:
    size = btf.size(array_type.id)
    element, count = btf.array(array_type)
    number = _number(btf, element)
    if not size:  # a flexible one
        return None
    if number is None:
        return Field(name, offset, size, kind="bytes")
    return Field(name, offset, size, number[1], "array", count, number[2])


def _number(btf: Btf, ident: int) -> tuple[int, bool, bool] | None:
    """(bytes, signed, network order) of a whole number; None for another type."""
    found = btf.resolve(ident)
    network = btf.named(ident, _NETWORK_ORDER)
    if found.kind is Kind.INT and btf.whole(found):
        return found.size, btf.signed(found), network
    if found.kind in (Kind.ENUM, Kind.ENUM64):
        return found.size, found.kind_flag, network  # the flag says that values may be negative
    if found.kind is Kind.PTR:
        return btf.size(ident), False, False
    return None
