"""What was compared, in words: the frame's fields and the maps' entries by their names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from labkit.analysis.arithmetic import signed
from labkit.analysis.helpers import MAP_LOOKUP, helper_name
from labkit.follow.buffer import HEADROOM
from labkit.follow.origin import Origin, Origins
from labkit.follow.way import Branch, Called, Side
from labkit.kernel.btf import Btf
from labkit.lesson.frame_map_fields import Field, fields_of
from labkit.program.layout import Layout, layout_of
from labkit.program.spec import MapSpec, ProgramSpec
from labkit.uapi import XdpAction

__all__ = ["Naming", "verdict_name"]

_RELATIONS = {"eq": "=", "ne": "≠", "gt": ">", "ge": "≥", "lt": "<", "le": "≤", "set": "&"}
_OPPOSITE = {"=": "≠", "≠": "=", ">": "≤", "≥": "<", "<": "≥", "≤": ">"}
_TURNED = {"=": "=", "≠": "≠", ">": "<", "≥": "≤", "<": ">", "≤": "≥"}
_ERRNOS = 4095  # MAX_ERRNO, include/linux/err.h: a number just below 0 is meant so
_HEX = ("h_proto", "check", "checksum")


def verdict_name(verdict: int | None) -> str:
    """As XDP_DROP; a number that is no action by itself; "not known" for None."""
    if verdict is None:
        return "not known"
    return f"XDP_{XdpAction(verdict).name}" if verdict in list(XdpAction) else f"{verdict}, which is no action"


class Naming:
    """Names for one frame and one program."""

    def __init__(
        self, spec: ProgramSpec, frame: bytes, keys: Mapping[tuple[str, bytes], Origins] | None = None
    ) -> None:
        self.frame, self.keys = frame, keys or {}
        self.fields = fields_of(frame)
        btf = Btf(spec.btf) if spec.btf else None
        self._layouts = {name: _layouts(btf, each) for name, each in spec.maps.items()}

    def branch(self, branch: Branch) -> str:
        """As "IPv4 protocol (17) = 17": what holds, whichever way the jump went."""
        looked_up = [each for each in branch.left.origins | branch.right.origins if each.kind in ("map", "entry")]
        return self._held(branch) + "".join(map(self._key, looked_up[:1]))

    def _key(self, origin: Origin) -> str:
        """What the key of an entry is, where the frame has it."""
        places = self._key_places(origin)
        if not places:
            return ""
        named = self.place(places[0][0], sum(length for _, length in places))
        return f", the key being {named}"

    def _key_places(self, origin: Origin) -> list[tuple[int, int]]:
        """The bytes of the frame that a key was made of."""
        found = self.keys.get((origin.name, origin.key), frozenset())
        frame = [(each.offset, each.length) for each in found if each.kind == "frame"]
        return sorted(frame) if len(frame) == len(found) else []

    def _held(self, branch: Branch) -> str:
        pointers = self._pointers(branch)
        if pointers:
            return pointers
        sign = branch.operation.removeprefix("s") if branch.operation != "set" else "set"
        relation, left, right = _RELATIONS[sign], *self._numbers(branch)
        if sign == "set":
            return f"{left} & {right} {'≠' if branch.taken else '='} 0"
        held = relation if branch.taken else _OPPOSITE[relation]
        if not branch.left.origins and branch.right.origins:  # what is asked about goes first
            return f"{right} {_TURNED[held]} {left}"
        return f"{left} {held} {right}"

    def _pointers(self, branch: Branch) -> str:
        """Two places of the frame, or an entry of a map and nothing; "" for numbers."""
        left, right = branch.left, branch.right
        if _in_packet(left) and _in_packet(right):
            relation = _RELATIONS[branch.operation]
            held = relation if branch.taken else _OPPOSITE[relation]
            return f"{_place(left)} {held} {_place(right)}"
        null = right.constant and right.number == 0 and branch.operation in ("eq", "ne")
        if _in_packet(left) and null:
            return f"{_place(left)} is there" if (branch.operation == "ne") == branch.taken else "NULL"
        entry = next((each for each in left.origins if each.kind == "entry"), None)
        if entry is not None and null:
            found = (branch.operation == "ne") == branch.taken
            return f"{self.entry(entry.name, entry.key)} {'found' if found else 'not found: NULL'}"
        return ""

    def _numbers(self, branch: Branch) -> tuple[str, str]:
        left, right = branch.left, branch.right
        wire = branch.operation in ("eq", "ne") and next((s.read for s in (left, right) if _on_wire(s)), None)
        texts = []
        for side in (left, right):
            number = side.number & ((1 << branch.bits) - 1)
            signs = branch.operation.startswith("s") and branch.operation != "set"
            if signs or -_ERRNOS <= signed(number, branch.bits) < 0:
                number = signed(number, branch.bits)
            shown = self._on_wire(number, wire) if wire else self._plain(number, side)
            texts.append(self._told(side, shown))
        return texts[0], texts[1]

    def _on_wire(self, number: int, origin: Origin) -> str:
        """A number as the field's own bytes say it."""
        data = (number & ((1 << 8 * origin.length) - 1)).to_bytes(origin.length, sys.byteorder)
        field = self.field(origin)
        if (field is not None and field.name in _HEX) or (origin.offset, origin.length) == (12, 2):
            return "0x" + data.hex()
        if field is not None and field.name in ("saddr", "daddr") and origin.length == 4:
            return ".".join(map(str, data))
        if field is not None and origin.length == field.length:
            return f"{int.from_bytes(data, 'big'):,}".replace(",", "")
        return data.hex(" ")

    @staticmethod
    def _plain(number: int, side: Side) -> str:
        return str(number) if number < 1 << 20 else f"{number:#x}"

    def _told(self, side: Side, number: str) -> str:
        """As "IPv4 protocol (17)", "20 (from IPv4 ihl)", or the number alone for one that the text itself has."""
        if side.read is not None:
            return f"{self.origin(side.read)} ({number})"
        names = [self.origin(each) for each in sorted(side.origins, key=lambda o: (o.kind, o.offset, o.name))]
        return f"{number} (from {', '.join(dict.fromkeys(names))})" if names else number

    def origin(self, origin: Origin) -> str:
        """As "IPv4 protocol", "choice[0].slot", "what bpf_redirect_map answered"."""
        if origin.kind == "frame":
            return self.place(origin.offset, origin.length)
        if origin.kind == "map":
            return self.entry(origin.name, origin.key) + self._member(origin) if origin.key else f"the {origin.name}"
        if origin.kind == "entry":
            return self.entry(origin.name, origin.key)
        if origin.kind == "context":
            return f"ctx->{origin.name}"
        return f"what {origin.name} answered" if origin.kind == "answer" else "more"

    def field(self, origin: Origin) -> Field | None:
        """The field at exactly this place."""
        found = [each for each in self.fields if (each.offset, each.length) == (origin.offset, origin.length)]
        return found[0] if found else None

    def place(self, offset: int, length: int) -> str:
        """Bytes of the frame by the name of their field, or by number."""
        names = self._fields_at(offset, length)
        if names and len(names) <= 2:
            return ", ".join(names)
        return f"byte {offset}" if length == 1 else f"bytes {offset}–{offset + length - 1}"

    def _fields_at(self, offset: int, length: int) -> list[str]:
        touched = (f for f in self.fields if f.offset < offset + length and offset < f.offset + f.length)
        return list(dict.fromkeys(f"{each.part} {each.name}" for each in touched))

    def entry(self, name: str, key: bytes) -> str:
        """As "keep_protocol[17]"."""
        layouts = self._layouts.get(name)
        if layouts is None:
            return name
        value: Any = self._address(key) or layouts[0].unpack(key)
        if isinstance(value, Mapping):
            value = ", ".join(f"{part} {each}" for part, each in value.items())
        return f"{name}[{value.hex(' ') if isinstance(value, bytes) else value}]"

    def _address(self, key: bytes) -> str:
        """A key that is an address of the frame, as people write it; "" for others."""
        found = (each for each in self.fields if each.name in ("saddr", "daddr") and each.length == len(key))
        return next((each.value for each in found if self.frame[each.offset : each.offset + each.length] == key), "")

    def _member(self, origin: Origin) -> str:
        """Which member of a structure."""
        layout: Layout | None = self._layouts[origin.name][1] if origin.name in self._layouts else None
        for name, at, part in layout.fields if layout is not None else ():
            if at <= origin.offset < at + part.size:
                return f".{name}"
        return ""

    def read_by(self, branch: Branch) -> tuple[tuple[int, int], ...]:
        """The bytes of the frame that a test is of: (offset, bytes); those of a key, too."""
        origins = branch.left.origins | branch.right.origins
        found = [(each.offset, each.length) for each in origins if each.kind == "frame"]
        keys = (place for each in origins if each.kind in ("map", "entry") for place in self._key_places(each))
        return tuple(sorted({*found, *keys}))

    def value(self, name: str, raw: bytes | None) -> str:
        """A value of a map for people."""
        if raw is None:
            return "none"
        layouts = self._layouts.get(name)
        value: Any = layouts[1].unpack(raw) if layouts is not None else raw
        return value.hex(" ") if isinstance(value, bytes) else str(value)

    def called(self, called: Called) -> str:
        """What a helper did, as "bpf_redirect_map answered 4"."""
        if called.entry is not None and called.name == helper_name(MAP_LOOKUP):
            return f"{self.entry(*called.entry)} {'found' if called.answer else 'not found'}"
        if called.entry is not None:
            return f"{called.name} of {self.entry(*called.entry)} answered {verdict_name(called.answer)}"
        answer = signed(called.answer, 64)
        return f"{called.name} answered {answer if abs(answer) < 1 << 32 else hex(called.answer)}"

    def reads(self, reads: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Stretches of the frame as it came that were read: (offset, bytes), joined where they touch."""
        found: list[tuple[int, int]] = []
        for offset, length in sorted(reads):
            start, end = max(0, offset), min(len(self.frame), offset + length)
            if start < end and found and start <= sum(found[-1]):
                found[-1] = (found[-1][0], max(sum(found[-1]), end) - found[-1][0])
            elif start < end:
                found.append((start, end - start))
        return tuple(found)


def _layouts(btf: Btf | None, spec: MapSpec) -> tuple[Layout, Layout]:
    return layout_of(btf, spec.key_type, spec.key_size), layout_of(btf, spec.value_type, spec.value_size)


def _in_packet(side: Side) -> bool:
    return side.pointer is not None and side.pointer[0] == "packet"


def _place(side: Side) -> str:
    assert side.pointer is not None
    at = side.pointer[1] - HEADROOM
    ends = [each.name for each in side.origins if each.kind == "context"]
    return f"{ends[0]} ({at})" if ends == ["data_end"] else f"byte {at}"


def _on_wire(side: Side) -> bool:
    return side.read is not None and side.read.kind == "frame" and side.read.length > 1 and side.read.name == ""
