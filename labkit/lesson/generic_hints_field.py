"""Exercise of lesson 05: a format grows by a field, and readers that know nothing of it go on reading."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import HintError, LessonError
from labkit.hints import Capture, Decoded, Formats, GenericMeta, read
from labkit.lesson import odd_frames
from labkit.lesson.generic_hints_path import Want
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.trial import Seen, Trial
from labkit.program.spec import ProgramSpec
from labkit.uapi import XdpAction

__all__ = ["ADD_A_FIELD"]

_FORMAT, _FIELD = "meta_mine", "frame_bytes"
_COPIES = 5
_OWN = 3  # META_OWN, bpf/common/meta.h
_PATIENCE_S = 20.0
_RIGHT = (
    "the place of the new field: metadata is read from the packet's start to the left, so the generic part has to stay the last "
    "member, and what is new goes above it"
)
_PADDED = (
    "the size: metadata is a multiple of 4 bytes. The compiler fills up a struct at its end, on the right, where the generic "
    "part should be; fill it up on the left yourself, or take a u32"
)
_IDS = (
    "the ids: readers take META_GENERIC's for the old format, and don't look for more. A format of its own needs ids of its own: "
    "META_OWN, the first slot behind the standard ones"
)
_NAME = "the field's name: a reader finds it in the type information, and it is called frame_bytes there"
_FROM_META = "the frame's length: from ctx->data to ctx->data_end; what is before ctx->data is the metadata"
_ORDER = (
    "the byte order: metadata never leaves the machine, so numbers are as the machine has them; htonl() is for packets"
)
_UNWRITTEN = "the field: is it written, and where mine isn't NULL? The frame's length is ctx->data_end less ctx->data"
_NONE = (
    "whether mine is NULL: meta_compose() gives room for a multiple of 4 bytes, and only for a slot that has ids; yours are in "
    "META_OWN"
)
_ROOM = (
    "the room: meta_compose() was asked for fewer bytes than the struct has, so everything in it lies further right than readers "
    "look for it. sizeof(*mine) is always right"
)
_GENERIC = "the generic fields: hash and hash_type as in the stub, at mine->generic"
_PASSES = "the packet's way: every packet passes, unaltered, with metadata or without"


@dataclass(frozen=True)
class Reading:
    """What came of a frame: its metadata, what the trial saw, and what an old reader should find."""

    frame: bytes
    meta: bytes
    seen: Seen
    expected: GenericMeta


class FieldTrial(Trial):
    """A trial whose program was told the ids of its formats; ``why`` says what is wrong with the format, where it is."""

    def __init__(self, spec: ProgramSpec, function: str | None = None) -> None:
        super().__init__(spec, function)
        self._ending = contextlib.ExitStack()
        self.lab.on_close(self._ending.close)
        self.why: HintError | None = None
        try:
            self.formats = self._ending.enter_context(self._load(spec))
            self._tell()
            self._reference = self.lab.load(compile_source(path=lesson_directory() / "generic_composer.c"), "compose")
            self.formats.tell(self._reference)
            self._reference.maps["plan"][0] = {"wanted": Want.HASH, "action": XdpAction.PASS}
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def _load(self, spec: ProgramSpec) -> Formats:
        try:
            return Formats.load(spec)
        except HintError as error:
            self.why = error
            return Formats.load()

    def _tell(self) -> None:
        """Ids for every slot; where the format can't be one, such as nobody knows: its packets show what comes of it."""
        if "meta_formats" not in self.program.maps:
            return
        self.formats.tell(self.program)
        if self.why is not None:
            self.program.maps["meta_formats"][_OWN] = {"type_id": 1, "btf_id": self.formats.btf_id}

    def readings(self, frames: list[bytes]) -> Iterator[Reading]:
        """Each frame through the program on trial, and what the lab's own composer puts before it."""
        with Capture(self.lab, self.server, packets=2 * _COPIES * len(frames)) as capture:
            self._reference.attach(self.server)
            expected = [self._one(frame, capture)[0] for frame in frames]
            self.program.attach(self.server)
            for frame, meta in zip(frames, expected, strict=True):
                found, seen = self._one(frame, capture)
                yield Reading(frame, found, seen, GenericMeta.from_bytes(meta) or GenericMeta())

    def _one(self, frame: bytes, capture: Capture) -> tuple[bytes, Seen]:
        """The metadata of the first of its copies that passed, and what the trial saw."""
        seen = self.send(frame, _COPIES, ask=False)
        came = capture.take(seen.passed, timeout_s=_PATIENCE_S)
        return (came[0].meta if came else b""), seen


def _frames() -> dict[str, bytes]:
    return {
        "UDP, 64 bytes": odd_frames.udp(),
        "UDP, 1,042 bytes": odd_frames.udp(payload=1_000),
        "TCP, 60 bytes": odd_frames.tcp(80),
        "ARP, 42 bytes": odd_frames.arp(),
    }


def _run(trial: FieldTrial) -> list[Row]:
    _check_composes(trial)
    rows = [_format_row(trial)]
    frames = _frames()
    for what, reading in zip(frames, trial.readings(list(frames.values())), strict=True):
        rows += [_old_reader(what, reading, trial, rows[0]), _new_reader(what, reading, trial, rows[0])]
        good = reading.seen.passed == _COPIES and not reading.seen.altered
        rows.append(Row(f"{what}: the packet itself", "passed", reading.seen.words, good, _PASSES))
    return rows


def _check_composes(trial: FieldTrial) -> None:
    if "meta_formats" not in trial.program.maps:
        raise LessonError(
            "This program never calls meta_compose(): no packet gets metadata.",
            tried="to check an exercise",
            on="add-a-field",
            remedy="begin with the stub, which composes already, and add to it",
        )


def _format_row(trial: FieldTrial) -> Row:
    """What the kernel's type information says of the struct; a reason here explains what the readers see."""
    expected = f"{_FIELD}, then the generic part"
    if trial.why is not None:
        look = _PADDED if "bytes" in trial.why.message or _has_on_the_left(trial) else _RIGHT
        return Row(f"struct {_FORMAT}", expected, trial.why.message, False, look)
    if _FORMAT not in trial.formats:
        return Row(f"struct {_FORMAT}", expected, "not there", False, f"the struct's name: {_FORMAT}, as in the stub")
    layout = trial.formats[_FORMAT].layout
    own = [each.name for each in layout.fields if each.offset < (layout.generic_at or 0)]
    seen = f"{', '.join(own) or 'nothing'}, then the generic part; {layout.size_bytes} bytes"
    return Row(f"struct {_FORMAT}", expected, seen, _FIELD in own, _NAME if own else _UNWRITTEN_YET)


_UNWRITTEN_YET = "the struct: a field is added like any other member, above what is there already"


def _has_on_the_left(trial: FieldTrial) -> bool:
    """Whether the struct's first member is not the generic part: then what follows that is the compiler's filling."""
    source = trial.program.spec.source
    body = source.partition(f"struct {_FORMAT} {{")[2].partition("}")[0]
    members = [line.strip() for line in body.splitlines() if line.strip().endswith(";")]
    return bool(members) and members[-1].startswith("struct meta_generic")


def _old_reader(what: str, reading: Reading, trial: FieldTrial, form: Row) -> Row:
    """A reader that knows the generic part alone, and the magic."""
    found = GenericMeta.from_bytes(reading.meta)
    wanted = reading.expected
    expected = f"hash {wanted.hash:#010x}, type {wanted.hash_type:#x}"
    if found is None:
        seen = f"no magic in {len(reading.meta)} bytes" if reading.meta else "no metadata"
        look = form.look if not form.good else _RIGHT if reading.meta else _NONE
        return Row(f"{what}: an old reader", expected, seen, False, look if reading.seen.passed else "")
    seen = f"hash {found.hash:#010x}, type {found.hash_type:#x}"
    good = (found.hash, found.hash_type) == (wanted.hash, wanted.hash_type)
    look = form.look if not form.good else _ROOM if _too_short(reading, trial) else _GENERIC
    return Row(f"{what}: an old reader", expected, seen, good, look)


def _too_short(reading: Reading, trial: FieldTrial) -> bool:
    """Whether there is less metadata than the struct has."""
    return _FORMAT in trial.formats and 0 < len(reading.meta) < trial.formats[_FORMAT].size_bytes


def _new_reader(what: str, reading: Reading, trial: FieldTrial, form: Row) -> Row:
    """A reader that looks the field up in the type information of whatever format the ids name."""
    name, expected = f"{what}: a new reader", f"{_FORMAT}, {_FIELD} {len(reading.frame)}"
    said = read(reading.meta, trial.formats)
    if not isinstance(said, Decoded):
        look = form.look if not form.good else _ROOM if _too_short(reading, trial) else _IDS if reading.meta else _NONE
        return Row(name, expected, f"foreign: {said.reason}", False, look if reading.seen.passed else "")
    if said.format.name != _FORMAT:
        return Row(name, expected, f"{said.format.name}: no {_FIELD}", False, _IDS)
    if _FIELD not in said.fields:
        return Row(name, expected, f"{_FORMAT} without {_FIELD}", False, form.look)
    value = said.fields[_FIELD]
    seen = f"{_FORMAT}, {_FIELD} {value}"
    return Row(name, expected, seen, value == len(reading.frame), _wrong_value(value, reading, trial))


def _wrong_value(value: int, reading: Reading, trial: FieldTrial) -> str:
    size = trial.formats[_FORMAT].layout[_FIELD].size_bytes
    if value == len(reading.frame) + len(reading.meta):
        return _FROM_META
    swapped = int.from_bytes(len(reading.frame).to_bytes(size, "little"), "big")
    return _ORDER if value == swapped else _UNWRITTEN


ADD_A_FIELD = register(
    Exercise(
        "add-a-field",
        "A field more, and nobody's reader breaks",
        "Input: any frame. The program composes struct meta_mine, which is the generic format so far. Give it a field of its "
        "own, u32 frame_bytes, the frame's length in bytes. A new reader finds it by name, whatever else the struct has. An old "
        "reader, which knows the generic fields only and was compiled long ago, must find them where they always were.",
        "add_a_field",
        (
            "Old readers start at the packet and count to the left. So what is new has to be further left than all they know: "
            "above the generic part, which stays the last member.",
            "The ids say which struct it is. With META_GENERIC's a reader would never look for your field: compose in the slot "
            "META_OWN. labkit fills that with your struct's ids.",
            "sizeof(*mine) grows by itself, and with it the room that meta_compose() asks for. It must stay a multiple of 4.",
            "mine->frame_bytes = (void *)(long)ctx->data_end - (void *)(long)ctx->data; it comes after meta_compose(), where "
            "mine isn't NULL.",
        ),
        _run,
        FieldTrial,
    )
)
