"""A register's state as the verifier writes it, in plain words. kernel/bpf/log.c: print_reg_state."""

from __future__ import annotations

import re

__all__ = ["ended_words", "in_words"]

_SHAPE = re.compile(r"^P?(?P<kind>[a-zA-Z_]+)(?P<off>-?\d+)?(?:\((?P<inside>.*)\))?$")
_NUMBER = re.compile(r"^(?:P|inv|invP)?(-?(?:0x[0-9a-f]+|\d+))$")
_FULL = ((1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1)
_KINDS = {
    "ctx": "the context, struct xdp_md: what the program was called with",
    "pkt_end": "data_end: where the packet ends",
    "sock": "a socket",
    "sock_common": "a socket",
    "tcp_sock": "a TCP socket",
    "func": "a function of the program",
    "map_key": "a key of a map",
    "mem": "memory that a helper gave",
    "rdonly_mem": "memory to read only",
    "ringbuf_mem": "a record reserved in a ring buffer",
    "dynptr_ptr": "a dynamic pointer",
}


def in_words(state: str) -> str:
    """``pkt(off=14,r=14)`` → what that is, for a reader who has never seen the verifier's notation."""
    if found := _NUMBER.match(state):
        return f"the number {int(found[1], 0):,}"
    found = _SHAPE.match(state)
    if not found:
        return "something that the verifier calls by this name"
    kind, inside = found["kind"], _fields(found["inside"] or "")
    if kind == "fp":
        return _stack(int(found["off"] or 0))
    if kind in ("scalar", "inv", "invP"):
        return _number(inside)
    if kind in ("pkt", "pkt_meta"):
        return _packet(kind, inside)
    if kind.startswith("map_"):
        return _map(kind, inside)
    or_null = kind.endswith("_or_null")
    words = _KINDS.get(kind.removesuffix("_or_null"), f"a pointer of the kind {kind}")
    return words + (", or NULL: not compared with NULL yet" if or_null else "")


def ended_words(helper: str) -> str:
    """A register that pointed into the packet until ``helper`` moved the packet's ends."""
    return f"pointed into the packet until {helper} moved its ends; now no more than a number"


def _fields(inside: str) -> dict[str, str]:
    """``id=1,smin=smin32=0,var_off=(0x0; 0xff)`` → name → value; names that share a value all get it."""
    found: dict[str, str] = {}
    for part in re.split(r",(?![^()]*\))", inside):
        *names, value = part.split("=")
        found.update((name.strip(), value) for name in names)
    return found


def _stack(offset: int) -> str:
    if offset == 0:
        return "the frame pointer: where the stack ends"
    return f"the address of a variable on the stack, {-offset} {_bytes(-offset)} below its end"


def _whole(text: str | None) -> int | None:
    try:
        return int(text or "", 0)
    except ValueError:
        return None


def _number(inside: dict[str, str]) -> str:
    low, high = _whole(inside.get("umin")), _whole(inside.get("umax"))
    bottom, top = _whole(inside.get("smin")), _whole(inside.get("smax"))
    if high is not None and high not in _FULL[1:]:
        if high == _FULL[0] and not low:
            return "a number of 32 bits that may be anything (0 to 4,294,967,295)"
        return f"a number from {low or 0:,} to {high:,}"
    if bottom is not None and top is not None:
        return f"a number from {bottom:,} to {top:,}"
    if low:
        return f"a number of at least {low:,}"
    return "a number that may be anything"


def _packet(kind: str, inside: dict[str, str]) -> str:
    what, start = ("packet", "data") if kind == "pkt" else ("metadata before the packet", "data_meta")
    offset, shown = _whole(inside.get("off")) or 0, _whole(inside.get("r")) or 0
    most = _whole(inside.get("umax")) or _whole(inside.get("umax_value")) or 0
    if most:
        where = (
            f"points into the {what}, {f'{offset} ' + _bytes(offset) + ' and ' if offset else ''}0 to {most:,} bytes on"
        )
        return f"{where}; {_checked(shown, 'that place')}"
    where = f"points to the start of the {what} ({start})"
    if offset:
        where = f"points {abs(offset)} {_bytes(offset)} {'into' if offset > 0 else 'before'} the {what}"
    return f"{where}; {_checked(shown, 'its start')}"


def _checked(shown: int, start: str) -> str:
    if shown <= 0:
        return "no byte has been shown to be there: it was not compared with the end"
    return f"{shown} {_bytes(shown)} from {start} {'has' if shown == 1 else 'have'} been shown to be there"


def _map(kind: str, inside: dict[str, str]) -> str:
    name = f"the map {inside['map']}" if "map" in inside else "a map"
    size = f" ({inside['vs']} bytes)" if "vs" in inside else ""
    if kind == "map_ptr":
        return name
    if kind == "map_value_or_null":
        return f"a value of {name}{size}, or NULL where there is no such key: not compared with NULL yet"
    offset = _whole(inside.get("off")) or 0
    at = f", {offset} {_bytes(offset)} into it" if offset else ""
    most = _whole(inside.get("umax"))
    at += f", at a place 0 to {most:,} bytes on" if most else ""
    return f"a value of {name}{size}{at}"


def _bytes(count: int) -> str:
    return "byte" if abs(count) == 1 else "bytes"
