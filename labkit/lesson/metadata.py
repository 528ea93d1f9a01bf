"""The first exercise of lesson 04, bytes before the packet: one program writes a note, another reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from labkit.lesson import odd_frames
from labkit.lesson.metadata_trial import NOTE_BYTES, Arrival, Note, NoteTrial
from labkit.lesson.practice import Exercise, Row, register
from labkit.program.program import Program
from labkit.program.spec import ProgramSpec

__all__ = ["ALTERED", "LEAVE_NOTE", "PASSES", "ROOM", "arrival_words", "missing_map", "two_functions"]

ROOM = (
    "room: bpf_xdp_adjust_meta(ctx, -(int)sizeof(*note)) makes it, to the left; ask for it once, and then read "
    "ctx->data_meta anew"
)
_LENGTH = f"the length: a struct note has {NOTE_BYTES} bytes, no more and no less"
_BLANK = "what is written: room before a packet isn't cleared, so both fields need a value in every note"
_SWAPPED = "byte order: the port is in network order in the packet, and in host order in the note: ntohs(udp->dest)"
_SOURCE = "which port: the destination's"
_NUMBER = "the number: read it from the map counter, and count the map's value up, so that the next packet finds it"
PASSES = "the verdict: a packet goes on, whatever can be said about it"
_TYPE = "what has no UDP port has the mark 0: other protocols, IPv6, VLAN tags, frames that end too early"
_OPTIONS = "IPv4 options: the header is ip->ihl * 4 bytes long; next_ipv4 moves the cursor behind it"
_FRAGMENT = "fragments: only the first one has a UDP header; see is_later_fragment in bpf/common/parse.h"
_SHORT = "short frames: one without a payload has 42 bytes, and is whole"
ALTERED = "the frame itself: a note goes in front of it, and leaves it as it is"
_CLOSED = (
    "read_note: the note is at skb->data_meta, if (void *)(note + 1) <= (void *)(long)skb->data; drop if its mark is the "
    "one in closed[0]"
)
_NOT_THE_PACKET = "read_note: the note's mark decides, and neither the packet nor a number in the text"
_NOBODYS = "a packet without a note has no mark, not even 0: look at the length first"
_HALF = "four bytes aren't a note: (void *)(note + 1) has to be at skb->data or before it"
_HAND_OVER = "with both programs in place: what leave_note writes has to be what read_note looks for"


@dataclass(frozen=True)
class _Case:
    """A frame, and the mark that its note should have."""

    what: str
    frame: bytes
    mark: int
    look: str


@cache
def _cases() -> tuple[_Case, ...]:
    udp = odd_frames.udp
    return (
        _Case("UDP to port 9999", udp(), 9999, _BLANK),
        _Case("UDP to port 53", udp(dport=53), 53, _BLANK),
        _Case("UDP to port 9999, no payload: 42 bytes", udp(payload=0), 9999, _SHORT),
        _Case("UDP to port 9999, behind IPv4 options", udp(options=odd_frames.nops()), 9999, _OPTIONS),
        _Case("UDP to port 9999, first fragment", udp(flags="MF"), 9999, _FRAGMENT),
        _Case("later fragment of UDP", odd_frames.later_fragment(), 0, _FRAGMENT),
        _Case("TCP to port 9999", odd_frames.tcp(9999), 0, _TYPE),
        _Case("ARP, 42 bytes", odd_frames.arp(), 0, _TYPE),
        _Case("UDP cut off after two bytes", udp()[:36], 0, _TYPE),
        _Case("IPv6, 17 and 9999 where IPv4 has them", odd_frames.ipv6_look_alike(), 0, _TYPE),
        _Case("UDP to port 9999 in VLAN 10", odd_frames.tagged(), 0, _TYPE),
    )


def _run_leave_note(trial: NoteTrial) -> list[Row]:
    rows: list[Row] = []
    next_number: int | None = None
    with trial.arranged(trial.writer, trial.own_reader):
        for case in _cases():
            seen = trial.send(case.frame)
            rows.append(_note_row(case, seen, next_number))
            next_number = seen.notes[-1].number + 1 if seen.notes else next_number
    rows = _one_cause(rows)
    if missing := missing_map(trial.reader, "closed", "the mark to drop: read_note has to look it up"):
        return [*rows, missing]
    return [*rows, *_reader_rows(trial)]


def _one_cause(rows: list[Row]) -> list[Row]:
    """Where even plain UDP is wrong, its cause is what to look at, and nothing else."""
    return rows if rows[0].good else [replace(row, look=rows[0].look) for row in rows]


def _note_row(case: _Case, seen: Arrival, next_number: int | None) -> Row:
    expected = f"passed, {NOTE_BYTES} bytes: mark {case.mark}, numbers counting"
    numbers = [note.number for note in seen.notes]
    first = next_number if next_number is not None else (numbers[0] if numbers else 0)
    counting = numbers == list(range(first, first + seen.sent))
    marks = {note.mark for note in seen.notes}
    lengths = {note.bytes for note in seen.notes}
    good = seen.untouched and lengths == {NOTE_BYTES} and marks == {case.mark} and counting
    return Row(
        f"{seen.sent} × {case.what}", expected, arrival_words(seen, counting), good, _diagnosis(case, seen, counting)
    )


def arrival_words(seen: Arrival, counting: bool) -> str:
    """What was seen, for people."""
    if seen.passed < seen.sent:
        return f"{seen.passed} of {seen.sent} passed"
    if seen.altered:
        return f"passed, {seen.altered} of them altered"
    if len(seen.notes) < seen.sent:
        return f"passed, {len(seen.notes)} of {seen.sent} came to TC"
    lengths = sorted({note.bytes for note in seen.notes})
    if lengths == [0]:
        return "passed, no metadata"
    marks = sorted({note.mark for note in seen.notes})
    shown = ", ".join(map(str, marks[:2])) + ("…" if len(marks) > 2 else "")
    said = f"passed, {' or '.join(map(str, lengths))} bytes: mark {shown}"
    return f"{said}, numbers counting" if counting else f"{said}, numbers {_first_few(seen.notes)}"


def _first_few(notes: Sequence[Note]) -> str:
    return ", ".join(str(note.number) for note in notes[:3]) + " …"


def _diagnosis(case: _Case, seen: Arrival, counting: bool) -> str:
    """The first thing that is wrong."""
    marks = {note.mark for note in seen.notes}
    lengths = {note.bytes for note in seen.notes}
    if seen.passed < seen.sent:
        return PASSES
    if seen.altered:
        return ALTERED
    if lengths != {NOTE_BYTES}:
        return ROOM if lengths <= {0} else _LENGTH
    if marks == {case.mark} and not counting:
        return _NUMBER
    if case.mark and marks == {_backwards(case.mark)}:
        return _SWAPPED
    if case.mark and marks == {int.from_bytes(case.frame[34:36], "big")}:
        return _SOURCE
    return _BLANK if case.mark and not counting else case.look


def _backwards(port: int) -> int:
    return int.from_bytes(port.to_bytes(2, "big"), "little")


def missing_map(program: Program, name: str, what: str) -> Row | None:
    """A row where the program doesn't use the map that the check wants to fill or to read."""
    if name in program.maps:
        return None
    return Row(f"the map {name}", "there", f"not used by {program.name}", False, f"the map {name}: {what}")


def _reader_rows(trial: NoteTrial) -> list[Row]:
    """What read_note does with notes of the lab's own, then with those of leave_note."""
    closed, frame = trial.reader.maps["closed"], trial.datagram()
    wanted: tuple[tuple[str, int, int | None, bool, bool, str], ...] = (
        ("a note with the mark 4242, closed[0] is 4242", 4242, 4242, False, True, _CLOSED),
        ("a note with the mark 4242, closed[0] is 9999, as the UDP port", 9999, 4242, False, False, _NOT_THE_PACKET),
        ("a note with the mark 9999, closed[0] is 4242", 4242, 9999, False, False, _NOT_THE_PACKET),
        ("no metadata, closed[0] is 4242", 4242, None, False, False, _NOBODYS),
        ("no metadata, closed[0] is 0", 0, None, False, False, _NOBODYS),
        ("half a note: four bytes, 4242, as closed[0]", 4242, 4242, True, False, _HALF),
    )
    rows = []
    for what, shut, mark, short, drop, look in wanted:
        closed[0] = shut
        with trial.given(mark, short=short):
            rows.append(_drop_row(f"read_note: {what}", trial.send(frame), drop, look))
    with trial.arranged(trial.writer, trial.reader):
        for shut in (9999, 53):
            closed[0] = shut
            what = f"both: UDP to port 9999, closed[0] is {shut}"
            rows.append(_drop_row(what, trial.send(frame), shut == 9999, _HAND_OVER))
    return rows


def _drop_row(what: str, seen: Arrival, drop: bool, look: str) -> Row:
    expected = "dropped by TC" if drop else "delivered"
    good = seen.untouched and seen.delivered == (0 if drop else seen.sent)
    words = {0: "dropped by TC", seen.sent: "delivered"}.get(
        seen.delivered, f"{seen.delivered} of {seen.sent} delivered"
    )
    if not seen.untouched:
        words, look = f"{seen.passed} of {seen.sent} passed XDP", PASSES
    return Row(f"{seen.sent} × {what}", expected, words, good, look)


def two_functions(writes: str, reads: str) -> Callable[[ProgramSpec, str | None], NoteTrial]:
    """A trial of these two functions of a text."""

    def make(spec: ProgramSpec, _: str | None) -> NoteTrial:
        return NoteTrial(spec, writes, reads)

    return make


LEAVE_NOTE = register(
    Exercise(
        "leave-a-note",
        "XDP leaves a note, TC reads it",
        "Two programs. leave_note (XDP): in front of every frame write a struct note (bpf/common/note.h), and pass the frame. "
        "Its mark is the UDP destination port in host byte order, where the frame is IPv4, untagged, UDP, and not a later "
        "fragment; else 0. Its number counts the notes: 0, 1, 2 … (map counter). read_note (TC ingress): drop "
        "(TC_ACT_SHOT) a packet whose note has the mark that is in closed[0]; let all others go on (TC_ACT_OK), those "
        "without a note among them.",
        "leave_note",
        (
            "Room first: bpf_xdp_adjust_meta(ctx, -(int)sizeof(struct note)). It moves pointers, so take from the headers what "
            "you need before it, and read ctx->data_meta and ctx->data after it.",
            "The check that the verifier wants: metadata ends where the packet begins, so (void *)(note + 1) must not be beyond "
            "(void *)(long)ctx->data. Against data_end it is refused.",
            "In TC the same: struct note *note = (void *)(long)skb->data_meta; where there is no metadata, data_meta equals "
            "data, and the same check says so.",
            "u32 only = 0, *number = counter.lookup(&only); … note->mark = port; note->number = (*number)++; and in read_note "
            "u32 only = 0, *mark = closed.lookup(&only); … return note->mark == *mark ? TC_ACT_SHOT : TC_ACT_OK;",
        ),
        _run_leave_note,
        two_functions("leave_note", "read_note"),
    )
)
