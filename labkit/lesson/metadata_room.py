"""The second exercise of lesson 04, bytes before the packet: a note where there is room, and no packet lost."""

from __future__ import annotations

from labkit.lesson import odd_frames
from labkit.lesson.metadata import ALTERED, PASSES, ROOM, arrival_words, missing_map, two_functions
from labkit.lesson.metadata_trial import NOTE_BYTES, SPARE, Arrival, NoteTrial, Room
from labkit.lesson.practice import Exercise, Row, register

__all__ = ["NOTE_IF_ROOM"]

_MOST = 252  # bytes of metadata: a multiple of 4 below 256, xdp_metalen_invalid() in include/net/xdp.h
_BLAMELESS = "no room, no note: bpf_xdp_adjust_meta may fail, for whatever reason, and the packet still has to go on"
_MARK_1 = "the note's mark is to be 1"
_COUNT = (
    "note_or_none: a note is there if (void *)(note + 1) <= (void *)(long)skb->data, and is yours if its mark is 1; "
    "count that in notes[0], all others in notes[1]"
)


def _run_note_if_room(trial: NoteTrial) -> list[Row]:
    rows = []
    frame, arp = ("64 bytes", trial.datagram()), ("ARP, 42 bytes", odd_frames.arp())
    for room in Room:
        with trial.arranged(trial.writer, trial.own_reader, room=room):
            for what, each in (frame, arp)[: 1 if room is Room.FULL else 2]:
                seen = trial.send(each, spare=SPARE if room is Room.FULL else b"")
                if room is not Room.FULL or trial.filled:
                    rows.append(_room_row(what, seen, room))
    if missing := missing_map(trial.reader, "notes", "note_or_none has to count in it"):
        return [*rows, missing]
    return [*rows, *_count_rows(trial)]


_EXPECTED = {
    Room.USUAL: f"{NOTE_BYTES} bytes, mark 1",
    Room.NONE: "no metadata",
    Room.FULL: f"{_MOST} bytes, not yours",
}


def _room_row(what: str, seen: Arrival, room: Room) -> Row:
    lengths, marks = {note.bytes for note in seen.notes}, {note.mark for note in seen.notes}
    length = {Room.USUAL: NOTE_BYTES, Room.NONE: 0, Room.FULL: _MOST}[room]
    good = seen.untouched and len(seen.notes) == seen.sent and lengths == {length}
    if room is Room.USUAL:
        good = good and marks == {1}
    words = arrival_words(seen, counting=True).replace(", numbers counting", "").replace(": mark", ", mark")
    if good and room is Room.FULL:
        words = f"passed, {_EXPECTED[room]}"
    if seen.passed < seen.sent:
        look = PASSES if room is Room.USUAL else _BLAMELESS
    elif seen.altered:
        look = ALTERED
    elif room is Room.USUAL:
        look = _MARK_1 if lengths == {NOTE_BYTES} else ROOM
    else:
        look = _BLAMELESS
    return Row(f"{seen.sent} × {what}, {room.value}", f"passed, {_EXPECTED[room]}", words, good, look)


def _count_rows(trial: NoteTrial) -> list[Row]:
    """What note_or_none counts: with its partner's notes, and with metadata of others."""
    frame, rows = trial.datagram(), []
    for room in (Room.USUAL, Room.NONE):
        with trial.arranged(trial.writer, trial.reader, room=room):
            rows.append(_count_row(trial, f"both: {room.value}", frame, with_note=room is Room.USUAL))
    for what, mark, short in (
        ("no metadata", None, False),
        ("somebody else's metadata: eight bytes, mark 77", 77, False),
        ("four bytes: 1", 1, True),
        ("a note with the mark 1", 1, False),
    ):
        with trial.given(mark, short=short):
            rows.append(_count_row(trial, f"note_or_none: {what}", frame, with_note=mark == 1 and not short))
    return rows


def _count_row(trial: NoteTrial, what: str, frame: bytes, *, with_note: bool) -> Row:
    notes = trial.reader.maps["notes"]
    before = [notes[slot] for slot in (0, 1)]
    seen = trial.send(frame)
    found = [notes[slot] - old for slot, old in zip((0, 1), before, strict=True)]
    wanted = [seen.sent, 0] if with_note else [0, seen.sent]
    good = seen.delivered == seen.sent and found == wanted
    words = f"{found[0]} with, {found[1]} without; "
    words += "delivered" if seen.delivered == seen.sent else f"{seen.delivered} of {seen.sent} delivered"
    look = _COUNT if seen.delivered == seen.sent else _BLAMELESS
    return Row(f"{seen.sent} × {what}", f"{wanted[0]} with, {wanted[1]} without; delivered", words, good, look)


NOTE_IF_ROOM = register(
    Exercise(
        "note-if-room",
        "A note where there is room, and no packet lost where there is none",
        "Two programs. note_if_room (XDP): write a struct note with the mark 1 in front of each frame that has room for it, and "
        "pass every frame, unaltered. Some of those in the check have no headroom left, or all the metadata there can be: a "
        "program before yours saw to that. "
        "note_or_none (TC ingress): let every packet go on, and count in notes[0] those with your note (long enough, "
        "and the mark is 1), in notes[1] all others.",
        "note_if_room",
        (
            "What does a packet do wrong, if the driver it came by has no room for metadata? Look at the verdict after the "
            "refusal.",
            "bpf_xdp_adjust_meta returns 0, or a negative errno, and there are several: -EINVAL without headroom, -ENOTSUPP "
            "where a driver keeps no metadata. Don't look for a certain one: anything but 0 means no note.",
            "In TC: no note where (void *)(note + 1) > (void *)(long)skb->data. And metadata that is there may be somebody "
            "else's: only the mark says that it is yours.",
            "u32 slot = 1; if ((void *)(note + 1) <= (void *)(long)skb->data && note->mark == 1) slot = 0; then count in "
            "notes at &slot, and return TC_ACT_OK.",
        ),
        _run_note_if_room,
        two_functions("note_if_room", "note_or_none"),
    )
)
