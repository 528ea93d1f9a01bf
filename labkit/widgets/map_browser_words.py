"""What a map is, in words: its type, its size, who uses it and how, and why it is not to be written."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from labkit.program.program import Program
from labkit.program.spec import INSTRUCTION_BYTES
from labkit.uapi import MapType, ProgType
from labkit.widgets.map_browser_reading import Told

__all__ = ["TYPES", "facts", "flags_in_words", "locked", "uses", "where_it_runs"]

_PER_CPU = (
    "Each CPU has a value of its own, so that a program counts without waiting for another CPU; the sum is the count."
)
TYPES = {
    MapType.ARRAY: "One value for each index from 0 on. All are there from the beginning, and none can be deleted.",
    MapType.PERCPU_ARRAY: f"One value for each index from 0 on, and CPU. {_PER_CPU}",
    MapType.HASH: "Values by key. Programs and you add and delete entries, as long as there is room.",
    MapType.PERCPU_HASH: f"Values by key and CPU. {_PER_CPU}",
    MapType.LRU_HASH: "Values by key. Where it is full, the kernel lets go of entries that were not used lately.",
    MapType.LRU_PERCPU_HASH: f"Values by key and CPU; where it is full, entries not used lately go. {_PER_CPU}",
    MapType.LPM_TRIE: "Values by prefix, as in a routing table: a lookup finds the longest prefix that an address begins with.",
    MapType.DEVMAP: "Slots for interfaces: bpf_redirect_map sends a packet out of the one in a slot. "
    "A slot's program, where there is one, meets each packet on its way out.",
    MapType.DEVMAP_HASH: "Interfaces by key: bpf_redirect_map sends a packet out of one. "
    "An entry's program, where there is one, meets each packet on its way out.",
    MapType.CPUMAP: "Slots for CPUs: bpf_redirect_map queues a packet for the CPU of the slot's number, which takes it up the "
    "stack. The value is the queue's length in packets, and a program that runs there, where there is one.",
    MapType.XSKMAP: "Slots for AF_XDP sockets: bpf_redirect_map gives a packet to the one in a slot. "
    "The kernel tells nobody what is in a slot: shown are the sockets that this lab put there.",
    MapType.PROG_ARRAY: "Slots for programs: bpf_tail_call goes on in the one of a slot, and doesn't come back.",
    MapType.RINGBUF: "A queue of lines from programs to one reader. Taking a line out is using it up, so nothing is taken here: "
    "shown is how full it is.",
    MapType.PERF_EVENT_ARRAY: "One queue for each CPU, from programs to readers of perf events. It has no entries to look up.",
    MapType.ARRAY_OF_MAPS: "Slots for other maps; the value is the id of the map in a slot.",
    MapType.HASH_OF_MAPS: "Other maps by key; the value is the id of a map.",
    MapType.QUEUE: "Values in the order they came. They have no keys, and looking at one from here would not show the others.",
    MapType.STACK: "Values, the last one first. They have no keys, and looking at one from here would not show the others.",
    MapType.BLOOM_FILTER: "Answers whether a value may have been put in. What is in it can't be listed.",
    MapType.STACK_TRACE: "Traces of the kernel's stack, by a number that the kernel gave them.",
}

_FLAGS = {  # include/uapi/linux/bpf.h, BPF_F_…
    1 << 0: "NO_PREALLOC (memory comes with each entry)",
    1 << 1: "NO_COMMON_LRU",
    1 << 2: "NUMA_NODE",
    1 << 3: "RDONLY (only programs write)",
    1 << 4: "WRONLY (only programs read)",
    1 << 7: "RDONLY_PROG (programs only read)",
    1 << 8: "WRONLY_PROG (programs only write)",
    1 << 9: "CLONE",
    1 << 10: "MMAPABLE (can be mapped into memory)",
    1 << 11: "PRESERVE_ELEMS",
    1 << 12: "INNER_MAP",
}
_RDONLY = 1 << 3
_KIB = 1 << 10

# enum bpf_func_id, include/uapi/linux/bpf.h: what a call with the map as its first argument does.
_CALLS = {
    1: "looks entries up, and may write to what it finds",
    2: "writes entries",
    3: "deletes entries",
    12: "goes on by it",
    51: "redirects by it",
    130: "writes lines",
    131: "writes lines",
    195: "looks entries up, and may write to what it finds",
}
_SECOND = {12: "goes on by it", 25: "writes events"}  # the map is the second argument
_LOAD_64, _CALL, _JUMPS = 0x18, 0x85, (0x05, 0x06)
_NOT_WRITTEN = {
    MapType.RINGBUF: "Only programs write to a ring buffer.",
    MapType.PERF_EVENT_ARRAY: "Its readers put themselves in.",
    MapType.ARRAY_OF_MAPS: "A slot takes a map's descriptor: write it from Python.",
    MapType.HASH_OF_MAPS: "An entry takes a map's descriptor: write it from Python.",
}


def facts(kind: MapType, key_bytes: int, value_bytes: int, most: int, ident: int, told: Told) -> list[list[str]]:
    """The map's line: pairs of what and how much."""
    memory = "not told" if told.memory_bytes is None else _memory(told.memory_bytes)
    entries = ("size", _memory(most)) if kind is MapType.RINGBUF else ("room for", f"{most:,} {_unit(kind, most)}")
    per_cpu = ", for each CPU" if kind.per_cpu else ""
    rows = [
        ("type", kind.name.lower()),
        ("key", f"{key_bytes:,} bytes"),
        ("value", f"{value_bytes:,} bytes{per_cpu}"),
        entries,
        ("memory", memory),
        ("id", str(ident)),
        ("flags", flags_in_words(told)),
    ]
    without = ("key", "value") if kind is MapType.RINGBUF else ()
    return [[name, value] for name, value in rows if name not in without]


def _unit(kind: MapType, most: int) -> str:
    slots = kind in (MapType.DEVMAP, MapType.CPUMAP, MapType.XSKMAP, MapType.PROG_ARRAY)
    word = "slot" if slots else "entr"
    return word + ({True: "", False: "s"}[most == 1] if slots else {True: "y", False: "ies"}[most == 1])


def _memory(count: int) -> str:
    if count < 10 * _KIB:
        return f"{count:,} bytes"
    return f"{count / _KIB:,.0f} KiB" if count < 10 * _KIB * _KIB else f"{count / _KIB / _KIB:,.1f} MiB"


def flags_in_words(told: Told) -> str:
    """The names of its flags, and whether it is frozen."""
    known = [words for bit, words in _FLAGS.items() if told.flags & bit]
    rest = told.flags & ~sum(_FLAGS)
    named = [*known, *([f"{rest:#x}"] if rest else []), *(["frozen"] if told.frozen else [])]
    return ", ".join(named) or "none"


def locked(name: str, kind: MapType, told: Told, programs: Iterable[Program]) -> str:
    """Why it is not to be written from here; "" where it may be."""
    users = list(programs)
    if name == "verdicts" or (name == "tc_verdicts" and any(p.type is ProgType.SCHED_CLS for p in users)):
        return (
            "The ledger counts from this map: another number in it, and packets would be missing or too many. "
            "lab.reset() makes the ledger count from zero."
        )
    if told.frozen:
        return "The map is frozen: its values are constants of the program, and the kernel takes no others."
    if told.flags & _RDONLY:
        return "The map was made with BPF_F_RDONLY: only programs write to it."
    if kind in _NOT_WRITTEN:
        return _NOT_WRITTEN[kind]
    return (
        ""
        if kind in TYPES and kind.name not in ("QUEUE", "STACK", "BLOOM_FILTER", "STACK_TRACE")
        else "It has no keys."
    )


def uses(program: Program, name: str) -> str:
    """What the program does with the map, as far as its calls tell; "uses it" where they don't."""
    code, references = program.function.instructions, program.function.map_references
    found = []
    for index in (index for index, each in references if each == name):
        words = _call_after(code, index)
        if words and words not in found:
            found.append(words)
    return ", ".join(found) or "uses it"


def _call_after(code: bytes, index: int) -> str:
    """The first call after the map has gone into an argument's register, if nothing jumps away before it."""
    register = code[index * INSTRUCTION_BYTES + 1] & 0x0F
    calls = {1: _CALLS, 2: _SECOND}.get(register)
    if calls is None:
        return ""
    for at in range((index + 2) * INSTRUCTION_BYTES, len(code), INSTRUCTION_BYTES):
        if code[at] == _CALL:
            return calls.get(struct.unpack_from("=i", code, at + 4)[0], "")
        if code[at] & 0x07 in _JUMPS or (code[at] & 0x07 == 0x07 and code[at + 1] & 0x0F == register):
            return ""
    return ""


def where_it_runs(program: Program, links: Iterable[tuple[Program, str, str]]) -> str:
    """Where it is attached, in words; ``links`` are (program, interface, mode)."""
    places = [f"{where}, {mode}" for each, where, mode in links if each is program]
    return "at " + "; ".join(places) if places else "attached to no interface"
