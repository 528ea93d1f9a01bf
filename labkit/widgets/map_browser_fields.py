"""A key's or a value's bytes, field by field, as the program's own types (BTF) name them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from labkit.kernel.btf import Btf, BtfType, Kind, Member

__all__ = ["Leaf", "leaves", "named"]

_ORDER: Any = sys.byteorder
_MOST_LEAVES = 64
_SIZES = (1, 2, 4, 8)
_NETWORK = ("__be16", "__be32", "__be64", "be16", "be32", "be64")
# A name alone is no proof: it counts only where the type says how the bytes lie.
_ADDRESSES = ("addr", "address", "saddr", "daddr", "ip", "src", "dst", "source", "dest", "next_hop", "gateway")
_PORTS = ("source", "dest")
_MACS = ("mac", "h_dest", "h_source", "eth_addr", "lladdr")


@dataclass(frozen=True)
class Leaf:
    """One number, address or run of bytes inside a key or value: ``size`` bytes from byte ``at`` on.

    ``shape`` is "number", "network" (a number in network byte order), "port", "ipv4", "ipv6", "mac", "text", "bytes",
    "numbers" (several of one size), "prefix" (an LPM trie's key) or "bits" (a bit field). ``words`` names some of its numbers.
    """

    name: str
    at: int
    size: int
    shape: str = "bytes"
    signed: bool = False
    words: Mapping[int, str] = field(default_factory=dict)
    step: int = 0  # bytes of each, for "numbers"
    bits: tuple[int, int] = (0, 0)  # first one and how many, for "bits"

    @property
    def adds_up(self) -> bool:
        """Whether a sum over the CPUs means something."""
        return self.shape in ("number", "numbers") and not self.words

    def cut(self, data: bytes) -> bytes:
        """The bytes of this field."""
        return data[self.at : self.at + self.size]

    def number(self, data: bytes) -> int | None:
        """The whole number as the machine reads it; None for what is none."""
        if self.shape in ("number", "network", "port", "ipv4"):
            return int.from_bytes(self.cut(data), _ORDER, signed=self.signed)
        if self.shape == "bits":
            first, many = self.bits
            return int.from_bytes(self.cut(data), _ORDER) >> first & (1 << many) - 1
        return None

    def numbers(self, data: bytes) -> list[int]:
        """Each of several numbers."""
        cut, step = self.cut(data), self.step
        return [int.from_bytes(cut[i : i + step], _ORDER, signed=self.signed) for i in range(0, len(cut), step)]

    def described(self) -> str:
        """What it is, for a column's head: "" for a plain number."""
        return {
            "network": "network order",
            "port": "port",
            "ipv4": "IPv4 address",
            "ipv6": "IPv6 address",
            "mac": "MAC address",
            "text": "text",
            "bytes": f"{self.size} bytes" if self.size else "no bytes",
            "numbers": f"{self.size // self.step if self.step else 0} numbers",
            "prefix": "prefix / length",
            "bits": f"{self.bits[1]} bits",
        }.get(self.shape, "")


def named(leaf: Leaf, words: Mapping[int, str]) -> Leaf:
    """The same with names for some of its numbers."""
    return replace(leaf, words=words)


def leaves(btf: Btf | None, ident: int, size: int) -> tuple[Leaf, ...]:
    """The fields of a type, in order, at most 64; without a type, one number where ``size`` is 1, 2, 4 or 8, else bytes."""
    if btf is None or not ident or btf.size(ident) != size:
        return (Leaf("", 0, size, "number" if size in _SIZES else "bytes"),)
    return _short(list(_walk(btf, ident, "", 0)), size)


def _short(found: list[Leaf], size: int) -> tuple[Leaf, ...]:
    """What has too many fields to be shown ends with the rest as bytes."""
    if len(found) <= _MOST_LEAVES:
        return tuple(found)
    kept = found[: _MOST_LEAVES - 1]
    at = kept[-1].at + kept[-1].size
    return (*kept, Leaf("the rest", at, size - at))


def _walk(btf: Btf, ident: int, name: str, at: int) -> Iterator[Leaf]:
    found, size = btf.resolve(ident), btf.size(ident)
    if found.kind is Kind.STRUCT:
        yield from _structure(btf, found, name, at)
    elif found.kind is Kind.ARRAY:
        yield from _array(btf, found, ident, name, at)
    elif found.kind in (Kind.INT, Kind.ENUM) and size in _SIZES:
        yield _number(btf, found, ident, name, at)
    else:
        yield Leaf(name, at, size, "number" if found.kind is Kind.PTR else "bytes")


def _structure(btf: Btf, found: BtfType, name: str, at: int) -> Iterator[Leaf]:
    if whole := _whole(found, name, at):
        yield whole
        return
    members = btf.members(found)
    if len(members) == 1 and _is_mac(btf, members[0].type, f"{found.name} {members[0].name}"):
        yield Leaf(name or members[0].name, at, 6, "mac")
        return
    for member in members:
        path = ".".join(part for part in (name, member.name) if part)
        if member.bit_size:
            yield _bit_field(btf, member, path, at)
        else:
            yield from _walk(btf, member.type, path, at + member.bit_offset // 8)


def _whole(found: BtfType, name: str, at: int) -> Leaf | None:
    """The kernel's own structures for an address."""
    if found.name == "in_addr" and found.size == 4:
        return Leaf(name, at, 4, "ipv4")
    return Leaf(name, at, 16, "ipv6") if found.name == "in6_addr" and found.size == 16 else None


def _bit_field(btf: Btf, member: Member, path: str, at: int) -> Leaf:
    size = btf.size(member.type)
    first = member.bit_offset // 8 // size * size  # the whole number that it is a part of
    bit = member.bit_offset - 8 * first
    if _ORDER == "big":
        bit = 8 * size - bit - member.bit_size
    return Leaf(path, at + first, size, "bits", bits=(bit, member.bit_size))


def _array(btf: Btf, found: BtfType, ident: int, name: str, at: int) -> Iterator[Leaf]:
    element, count = btf.array(found)
    inner, step = btf.resolve(element), btf.size(element)
    if _is_mac(btf, ident, name):
        yield Leaf(name, at, 6, "mac")
    elif inner.kind is Kind.INT and inner.name == "char":
        yield Leaf(name, at, count, "text")
    elif inner.kind is Kind.INT and step == 1:
        yield Leaf(name, at, count, "bytes")
    elif inner.kind is Kind.INT and step in _SIZES:
        yield Leaf(name, at, step * count, "numbers", signed=btf.signed(inner), step=step)
    else:
        for i in range(min(count, _MOST_LEAVES + 1)):
            yield from _walk(btf, element, f"{name}[{i}]", at + i * step)


def _number(btf: Btf, found: BtfType, ident: int, name: str, at: int) -> Leaf:
    last, size = name.rpartition(".")[2].lower(), btf.size(ident)
    if found.kind is Kind.ENUM:
        return Leaf(name, at, size, "number", words=btf.words(found))
    if btf.named(ident, _NETWORK) and size > 1:
        return Leaf(name, at, size, _in_network_order(last, size))
    return Leaf(name, at, size, "number", signed=btf.signed(found))


def _in_network_order(name: str, size: int) -> str:
    parts = name.split("_")
    if size == 4 and (name in _ADDRESSES or any(part in _ADDRESSES for part in parts)):
        return "ipv4"
    return "port" if size == 2 and (name in _PORTS or any("port" in part for part in parts)) else "network"


def _is_mac(btf: Btf, ident: int, name: str) -> bool:
    """Six bytes whose names say that they are an Ethernet address."""
    found = btf.resolve(ident)
    if found.kind is not Kind.ARRAY:
        return False
    element, count = btf.array(found)
    return (count, btf.size(element)) == (6, 1) and any(
        word in _MACS or "mac" in word.split("_") for word in _words(name.lower())
    )


def _words(name: str) -> Iterable[str]:
    return name.replace(".", " ").replace("[", " ").split()
