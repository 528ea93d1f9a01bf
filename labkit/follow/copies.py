"""A program's copy with maps of its own, so that a replay counts nothing of the student's.

The maps' content is copied as it is now. Maps that no program can write, of devices, CPUs and sockets, are shared: a
replay reads them and sends nothing. What would make two runs differ is answered by a fixed number: the time, chance.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from labkit.analysis import assemble as asm
from labkit.errors import StateError, kernel_word
from labkit.kernel import bpf
from labkit.program.map import Map
from labkit.program.program import Program
from labkit.program.relocate import relocated
from labkit.program.spec import INSTRUCTION_BYTES, MapSpec
from labkit.uapi import MapType, ProgFlag, ProgType

__all__ = ["COPIED", "SHARED", "Content", "contents", "loaded"]

COPIED = (
    *(MapType.ARRAY, MapType.PERCPU_ARRAY, MapType.HASH, MapType.PERCPU_HASH),
    *(MapType.LRU_HASH, MapType.LRU_PERCPU_HASH, MapType.LPM_TRIE),
)
SHARED = (MapType.DEVMAP, MapType.DEVMAP_HASH, MapType.CPUMAP, MapType.XSKMAP)
_ARRAYS = (MapType.ARRAY, MapType.PERCPU_ARRAY)
_EMPTY = (MapType.RINGBUF,)  # the copy begins with no line in it
_MOST_BYTES = 64 << 20
_MOST_KEYS = 65_536
_CALL = 0x85  # BPF_JMP | BPF_CALL
_TRIED = "to replay a frame"


@dataclass(frozen=True)
class Content:
    """A map as it was at one moment: ``entries`` are raw keys and values, those of all CPUs side by side.

    ``entries`` is empty for a map that is shared.
    """

    spec: MapSpec
    entries: Mapping[bytes, bytes]


def contents(program: Program) -> dict[str, Content]:
    """The program's maps as they are now. Raises StateError where one can't be copied, or the program is closed."""
    program.fd  # noqa: B018  closed, it says so itself
    return {name: Content(each.spec, dict(_entries(each))) for name, each in program.maps.items()}


def _entries(given: Map) -> Iterator[tuple[bytes, bytes]]:
    spec = given.spec
    if spec.type in (*SHARED, *_EMPTY):
        return
    size = spec.max_entries * (spec.key_size + spec.value_size)
    if spec.type not in COPIED:
        raise _not_copied(spec, f"it is a {spec.type.name.lower()}, whose content can't be copied")
    if spec.type in _ARRAYS and size > _MOST_BYTES:
        raise _not_copied(spec, f"it has {size >> 20:,} MiB, and {_MOST_BYTES >> 20} are the most")
    for number, entry in enumerate(given.raw_items()):
        if number >= _MOST_KEYS and spec.type not in _ARRAYS:
            raise _not_copied(spec, f"it has more than {_MOST_KEYS:,} keys")
        yield entry


def _not_copied(spec: MapSpec, why: str) -> StateError:
    return StateError(
        f"The map {spec.name} can't be copied: {why}.",
        tried=_TRIED,
        on=spec.name,
        remedy="a replay works on copies, so that it counts nothing of yours; without one it is left alone",
    )


@contextlib.contextmanager
def loaded(
    program: Program, found: Mapping[str, Content], fixed: Mapping[int, int]
) -> Iterator[tuple[int, dict[str, Map]]]:
    """The copy's descriptor and its maps, as long as it lasts. ``fixed``: helpers by number, and what each answers.

    Raises StateError where the kernel takes no such copy, MapError, PrivilegeError.
    """
    with contextlib.ExitStack() as stack:
        maps: dict[str, Map] = {}
        for name, content in found.items():
            maps[name] = _made(program.maps[name], content)
            stack.callback(maps[name].close)
        answered = replace(program.function, instructions=with_answers(program.function.instructions, fixed))
        code = relocated(answered, maps)
        try:
            fd = bpf.prog_load(
                ProgType.XDP,
                code,
                name=program.name,
                license=program.spec.license,
                flags=program.flags & ProgFlag.XDP_HAS_FRAGS,
            )
        except OSError as error:
            raise _no_copy(program, error) from error
        stack.callback(os.close, fd)
        yield fd, maps


def _no_copy(program: Program, error: OSError) -> StateError:
    message = f"The kernel takes no copy of {program.name} to replay: {kernel_word(error.errno or 0)}."
    remedy = "a copy runs from no map's slot: programs that ask where they go out can't be replayed"
    if program.device is not None:
        message = (
            f"{program.name} is bound to {program.device.where}, and the kernel runs no such program on a given frame."
        )
        remedy = "silent_driver=True replays it as if the driver had no hints"
    return StateError(message, tried=_TRIED, on=program.name, errno=error.errno, remedy=remedy)


def _made(original: Map, content: Content) -> Map:
    if content.spec.type in SHARED:
        fd = os.dup(original.fd)
        try:
            return type(original)(content.spec, fd)
        except BaseException:
            os.close(fd)
            raise
    made = type(original).create(content.spec)
    try:
        for key, value in content.entries.items():
            if content.spec.type not in _ARRAYS or any(value):  # an array begins with zeroes
                bpf.map_update(made.fd, key, value)
    except BaseException:
        made.close()
        raise
    return made


def with_answers(code: bytes, fixed: Mapping[int, int]) -> bytes:
    """``code`` with each call of a helper in ``fixed`` made a call of a function, put behind it, that returns the number.

    One slot takes the place of one slot, so that everything else stays where it is.
    """
    patched, behind = bytearray(code), b""
    starts: dict[int, int] = {}
    for at in range(0, len(code), INSTRUCTION_BYTES):
        (number,) = struct.unpack_from("=i", code, at + 4)
        if code[at] != _CALL or code[at + 1] or number not in fixed:
            continue
        if number not in starts:
            starts[number] = (len(code) + len(behind)) // INSTRUCTION_BYTES
            behind += asm.wide(0, fixed[number]) + asm.exit_()
        patched[at : at + INSTRUCTION_BYTES] = asm.call(starts[number] - at // INSTRUCTION_BYTES - 1, 1)
    return bytes(patched) + behind
