"""What the verifier knew of each register where it stopped, read from its log: its last path, followed step by step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from labkit.compile.lines import Place
from labkit.compile.register_words import ended_words, in_words
from labkit.errors import Register

__all__ = ["Path", "last_path", "place_at", "registers_at_the_end"]

_STEP = re.compile(r"^(\d+): \([0-9a-f]{2}\) ([^;]*)(?:;(.*))?$")
_FROM = re.compile(r"^from (\d+) to \d+[^:]*: ?(.*)$")
_BARE = re.compile(r"^(?:\d+: )?(R\d+(?:_[rwD]+)?=.*)$")
# One register's state: its value may have brackets in brackets, with blanks in them.
_STATE = re.compile(r"\b(R\d+)(?:_[rwD]+)?=((?:[^\s()]|\((?:[^()]|\([^()]*\))*\))+)")
_WRITES = re.compile(r"^[rw](\d+) (?:[^=\s]+)?= ")
_BY_ATOMIC = re.compile(r"^[rw](\d+) = (?:atomic|xchg|cmpxchg|load_acquire)")
_MOVES_THE_PACKET = re.compile(r"call (bpf_(?:xdp_adjust_|skb_(?:change_|adjust_|pull_|store_|vlan_))\w+)")
_OPERAND = re.compile(r"\b[rw](\d+)\b")
_RANGE = re.compile(r"(?P<kind>pkt|pkt_meta)\((?:id=(?P<id>\d+),)?.*?\br=(?P<r>\d+)")
_NAMED = re.compile(r"\bR(\d+)\b")


@dataclass
class Path:
    """The last path of a log: which instructions, the last of them as text, and each register's state and last writer."""

    visited: list[int] = field(default_factory=list)
    code: str = ""
    states: dict[str, str] = field(default_factory=dict)
    writers: dict[str, int] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)  # by which helper a pointer into the packet was ended

    def step(self, index: int, code: str, after: str) -> None:
        """One instruction, and what its line says of the state behind it."""
        self.visited.append(index)
        self.code = code.strip()
        if not after:
            return  # the refused one has none, nor has an exit
        if "call " in self.code:
            for number in range(1, 6):  # R1 to R5 hold nothing behind a call
                self._forget(f"R{number}")
            self.writers["R0"] = index
            if found := _MOVES_THE_PACKET.search(self.code):
                self._end_packet_pointers(found[1], index)
        elif (found := _WRITES.match(self.code) or _BY_ATOMIC.match(self.code)) and not self.code.startswith("if "):
            self.writers[f"R{found[1]}"] = index
        known = dict(self.states)
        self.learn(after)
        if self.code.startswith("if "):
            self._share_range(known)

    def _share_range(self, known: dict[str, str]) -> None:
        """A comparison with the end holds for every pointer to the same packet; the log tells of one only."""
        for name, state in list(self.states.items()):
            now, before = _RANGE.match(state), _RANGE.match(known.get(name, ""))
            if now and before and int(now["r"]) > int(before["r"]):
                self.widen(now["kind"], now["id"], int(now["r"]))

    def widen(self, kind: str, ident: str | None, shown: int) -> None:
        """``shown`` bytes are there for every pointer of that kind and identity."""
        for name, state in self.states.items():
            found = _RANGE.match(state)
            if found and (found["kind"], found["id"]) == (kind, ident) and int(found["r"]) < shown:
                self.states[name] = f"{state[: found.start('r')]}{shown}{state[found.end('r') :]}"

    def _end_packet_pointers(self, helper: str, index: int) -> None:
        """The verifier makes numbers of them all, and its log has no word of it."""
        for name, state in self.states.items():
            if state.startswith("pkt"):
                self.states[name], self.ended[name], self.writers[name] = "scalar()", helper, index

    def learn(self, words: str) -> None:
        """Take in the states that a line tells."""
        for name, state in _STATE.findall(words):
            self.states[name] = state
            self.ended.pop(name, None)

    def _forget(self, name: str) -> None:
        self.states.pop(name, None)
        self.writers.pop(name, None)


def last_path(log: str) -> Path:
    """The path on which the verifier stopped. It starts one anew where it goes back to a branch not taken yet."""
    path = Path()
    writers_at: dict[int, dict[str, int]] = {}
    visited_at: dict[int, list[int]] = {}
    for line in log.splitlines():
        if found := _STEP.match(line):
            path.step(int(found[1]), found[2], (found[3] or "").strip())
            writers_at[int(found[1])] = dict(path.writers)
            visited_at[int(found[1])] = path.visited[-200:]
        elif found := _FROM.match(line):
            branch = int(found[1])
            path = Path(visited=list(visited_at.get(branch, ())), writers=dict(writers_at.get(branch, {})))
            path.learn(found[2])
        elif found := _BARE.match(line):
            path.learn(found[1])
    return path


def registers_at_the_end(path: Path, said: str, places: Sequence[Place], own: str) -> tuple[Register, ...]:
    """The registers where the path ends, by number; those that the refusal is about are marked as named.

    ``own`` is the name of the text's own file, among those of ``places``.
    """
    named = {f"R{number}" for number in (*_NAMED.findall(said), *_OPERAND.findall(path.code))}
    found = []
    for name, state in sorted(path.states.items(), key=lambda each: int(each[0][1:])):
        if name == "R10" and name not in named:
            continue  # the end of the stack: the same in every program
        line, text = _set_at(place_at(places, path.writers[name]) if name in path.writers else None, own)
        words = ended_words(path.ended[name]) if name in path.ended else in_words(state)
        found.append(Register(name, state, words, line, text, name in named))
    return tuple(found)


def _set_at(place: Place | None, own: str) -> tuple[int | None, str]:
    if place is None:
        return None, ""
    text = place.text.strip()
    return (place.line, text) if place.file == own else (None, f"{place.file}, line {place.line}: {text}")


def place_at(places: Sequence[Place], index: int) -> Place | None:
    """Where instruction ``index`` comes from; None where the compiler doesn't say."""
    return next((place for place in reversed(places) if place.index <= index and place.line), None)
