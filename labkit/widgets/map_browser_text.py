"""A field's bytes as text for people, a difference in words, and the way back: typed text as bytes, checked."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Sequence
from typing import Any

from labkit.errors import MapError
from labkit.widgets.map_browser_fields import Leaf

__all__ = ["NUMBERS", "cell", "difference", "packed", "summed", "typed", "wants"]

NUMBERS = ("decimal", "hex", "network order")
"""How plain numbers are shown. The last one is for whoever knows that they lie in network byte order."""

Cell = tuple[str, str]
"""What is read first, and what stands beside it: the raw number, a name."""

_ORDER: Any = sys.byteorder
_MOST_NUMBERS, _MOST_BYTES = 8, 32
_MAC = re.compile(r"[0-9a-f]{2}([:-][0-9a-f]{2}){5}", re.IGNORECASE)


def cell(leaf: Leaf, data: bytes, how: str = "decimal") -> Cell:
    """The field in one CPU's value, or in a key. ``how`` is one of NUMBERS."""
    cut = leaf.cut(data)
    if leaf.shape == "numbers":
        return _several(leaf.numbers(data), leaf.step, how), ""
    number = leaf.number(data)
    if number is not None:
        return _number(leaf, number, cut, how)
    return _bytes(leaf, cut), ""


def summed(leaf: Leaf, parts: Sequence[bytes], how: str = "decimal") -> Cell:
    """The field over all CPUs: numbers added up; what doesn't add up is shown where it is the same on each CPU."""
    if leaf.adds_up and leaf.shape == "numbers":
        return _several([sum(column) for column in zip(*map(leaf.numbers, parts), strict=True)], leaf.step, how), ""
    if leaf.adds_up:
        return _number(leaf, sum(leaf.number(part) or 0 for part in parts), b"", how)
    same = len({leaf.cut(part) for part in parts}) == 1
    return cell(leaf, parts[0], how) if same else ("not the same on each CPU", "")


def difference(leaf: Leaf, before: Sequence[bytes], now: Sequence[bytes]) -> str:
    """What has changed between two readings, all CPUs together: "+7", "was 3"; "" where nothing has."""
    if all(leaf.cut(old) == leaf.cut(new) for old, new in zip(before, now, strict=True)):
        return ""
    if leaf.adds_up and leaf.shape == "number":
        gained = sum(leaf.number(part) or 0 for part in now) - sum(leaf.number(part) or 0 for part in before)
        return f"{'+' if gained > 0 else '−'}{abs(gained):,}" if gained else "other CPUs, the same sum"
    was, _ = summed(leaf, before) if len(before) > 1 else cell(leaf, before[0])
    return f"was {was}"


def _number(leaf: Leaf, number: int, cut: bytes, how: str) -> Cell:
    if number in leaf.words:
        return leaf.words[number], str(number)
    if leaf.shape == "ipv4":
        return socket.inet_ntoa(cut), f"raw {number:,}"
    if leaf.shape in ("port", "network"):
        beside = f"raw {number:,}" + (f", as an address {socket.inet_ntoa(cut)}" if leaf.size == 4 else "")
        return f"{int.from_bytes(cut, 'big'):,}", beside
    if how == "network order" and cut and leaf.size in (2, 4) and leaf.shape == "number":
        turned = socket.inet_ntoa(cut) if leaf.size == 4 else f"{int.from_bytes(cut, 'big'):,}"
        return turned, f"raw {number:,}"
    return (f"{number:#x}" if how == "hex" else f"{number:,}"), ""


def _several(numbers: Sequence[int], step: int, how: str) -> str:
    shown = [f"{number:#x}" if how == "hex" else f"{number:,}" for number in numbers[:_MOST_NUMBERS]]
    more = len(numbers) - _MOST_NUMBERS
    return "  ".join(shown) + (f"  … {more} more" if more > 0 else "")


def _bytes(leaf: Leaf, cut: bytes) -> str:
    if leaf.shape == "mac":
        return cut.hex(":")
    if leaf.shape == "ipv6":
        return socket.inet_ntop(socket.AF_INET6, cut)
    if leaf.shape == "prefix":
        return _prefix(cut)
    if leaf.shape == "text":
        text = cut.split(b"\0")[0]
        if text.isascii() and text.decode().isprintable() and not cut[len(text) :].strip(b"\0"):
            return f"“{text.decode()}”"
    more = len(cut) - _MOST_BYTES
    return cut[:_MOST_BYTES].hex(" ") + (f" … {more} more bytes" if more > 0 else "") if cut else "nothing"


def _prefix(cut: bytes) -> str:
    """The key of an LPM trie: the bytes are compared from the first one on, so that their order is known."""
    length, address = int.from_bytes(cut[:4], _ORDER), cut[4:]
    if len(address) == 4:
        return f"{socket.inet_ntoa(address)}/{length}"
    if len(address) == 16:
        return f"{socket.inet_ntop(socket.AF_INET6, address)}/{length}"
    return f"{address.hex(' ')}/{length}"


# The way back


def typed(leaf: Leaf, data: bytes) -> str:
    """The field as somebody would type it."""
    if leaf.shape == "numbers":
        return ", ".join(map(str, leaf.numbers(data)))
    number = leaf.number(data)
    if leaf.shape in ("network", "port"):
        return str(int.from_bytes(leaf.cut(data), "big"))
    if number is not None and leaf.shape != "ipv4":
        return str(number)
    if leaf.shape == "text":
        shown = _bytes(leaf, leaf.cut(data))
        return shown[1:-1] if shown.startswith("“") else leaf.cut(data).hex(" ")
    return leaf.cut(data).hex(" ") if leaf.shape == "bytes" else cell(leaf, data)[0]


def wants(leaf: Leaf) -> str:
    """What fits, in words."""
    if leaf.shape in ("number", "network", "port", "bits"):
        low, high = _range(leaf)
        words = f", or {', '.join(list(leaf.words.values())[:6])}" if leaf.words else ""
        order = (
            "; you type the plain number, it is written in network byte order"
            if leaf.shape in ("network", "port")
            else ""
        )
        return f"a whole number from {low:,} to {high:,}{words}{order}"
    if leaf.shape == "prefix":
        return f"an address and a length of 0 to {8 * (leaf.size - 4)} bits, as {_prefix(bytes(leaf.size))}"
    return {
        "ipv4": "an IPv4 address, as 10.0.0.2",
        "ipv6": "an IPv6 address, as fd00::2",
        "mac": "a MAC address, as 02:00:00:00:00:01",
        "text": f"at most {leaf.size} letters, or {leaf.size} bytes in hex",
        "numbers": f"{leaf.size // (leaf.step or 1)} whole numbers with commas between",
        "bytes": f"exactly {leaf.size} bytes in hex, as {bytes(range(min(leaf.size, 4))).hex(' ')}"
        + ("" if leaf.size <= 4 else " …"),
    }[leaf.shape]


def _range(leaf: Leaf) -> tuple[int, int]:
    bits = leaf.bits[1] if leaf.shape == "bits" else 8 * leaf.size
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if leaf.signed else (0, (1 << bits) - 1)


def packed(leaf: Leaf, text: str, into: bytes) -> bytes:
    """``into`` with the field set to what was typed. Raises MapError, with what would fit."""
    try:
        new = _packed(leaf, text.strip(), into)
    except (ValueError, OverflowError, OSError) as error:
        name = leaf.name or "this"
        raise MapError(
            f"“{text[:60]}” does not fit {name}.", tried="to write a map", remedy=f"give {wants(leaf)}"
        ) from error
    return into[: leaf.at] + new + into[leaf.at + leaf.size :]


def _packed(leaf: Leaf, text: str, into: bytes) -> bytes:
    if leaf.shape == "numbers":
        return _numbers_packed(leaf, [part for part in re.split(r"[,\s]+", text) if part])
    if leaf.shape == "ipv4" and "." in text:
        return socket.inet_pton(socket.AF_INET, text)
    if leaf.shape == "ipv6":
        return socket.inet_pton(socket.AF_INET6, text)
    if leaf.shape == "mac":
        if not _MAC.fullmatch(text):
            raise ValueError(text)
        return bytes.fromhex(text.replace(":", "").replace("-", ""))
    if leaf.shape == "prefix":
        return _prefix_packed(leaf, text)
    if leaf.shape in ("text", "bytes"):
        return _run_packed(leaf, text)
    return _number_packed(leaf, text, into)


def _number_packed(leaf: Leaf, text: str, into: bytes) -> bytes:
    known = {word.lower(): number for number, word in leaf.words.items()}
    if text.lower() in known:
        number = known[text.lower()]
    elif leaf.size == 4 and leaf.shape in ("number", "network") and text.count(".") == 3:
        return socket.inet_pton(socket.AF_INET, text)  # a dotted quad says the order of its bytes
    else:
        number = int(text.replace(",", ""), 0)
    low, high = _range(leaf)
    if not low <= number <= high:
        raise OverflowError
    if leaf.shape == "bits":
        first, many = leaf.bits
        mask = (1 << many) - 1 << first
        number = int.from_bytes(leaf.cut(into), _ORDER) & ~mask | number << first
    order: Any = "big" if leaf.shape in ("network", "port") else _ORDER
    return number.to_bytes(leaf.size, order, signed=leaf.signed)


def _numbers_packed(leaf: Leaf, parts: list[str]) -> bytes:
    if len(parts) != leaf.size // leaf.step:
        raise ValueError
    return b"".join(int(part, 0).to_bytes(leaf.step, _ORDER, signed=leaf.signed) for part in parts)


def _run_packed(leaf: Leaf, text: str) -> bytes:
    letters = text.encode()
    if leaf.shape == "text" and len(letters) <= leaf.size:
        return letters.ljust(leaf.size, b"\0")
    run = bytes.fromhex(text.replace(":", " "))
    if len(run) != leaf.size:
        raise ValueError
    return run


def _prefix_packed(leaf: Leaf, text: str) -> bytes:
    address, slash, length = text.partition("/")
    room = leaf.size - 4
    if room in (4, 16):
        run = socket.inet_pton(socket.AF_INET if room == 4 else socket.AF_INET6, address.strip())
    else:
        run = bytes.fromhex(address)
    bits = int(length) if slash else 8 * room
    if len(run) != room or not 0 <= bits <= 8 * room:
        raise ValueError
    return bits.to_bytes(4, _ORDER) + run
