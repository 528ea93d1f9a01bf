"""What became of a frame in a program, and why: the verdict, the way through the source, the test that decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from labkit.lesson.page import Table, block

__all__ = ["Change", "Mark", "Step", "Trace"]

_MOST_SHOWN = 60  # steps in a printed trace
_VERBS = {0: "Aborted", 1: "Dropped", 2: "Passed on", 3: "Sent back", 4: "Redirected"}
_TICKS = {True: "yes", False: "no", None: "–"}


@dataclass(frozen=True)
class Step:
    """A test or a call of a helper on the frame's way.

    ``file``, ``line`` and ``text`` are where the instruction came from; ``via`` is the last line of the program's own text
    before it, the same as ``line`` outside of headers. ``words`` say what held, as "IPv4 protocol 17 = 17"; ``taken``
    whether the jump was (None for a call). ``decides``: the verdict hangs on this one. ``reads``: the bytes of the frame that
    it is of, (offset, bytes).
    """

    number: int
    slot: int
    kind: str  # "test" or "call"
    file: str
    line: int
    text: str
    via: int
    words: str
    taken: bool | None
    decides: bool = False
    reads: tuple[tuple[int, int], ...] = ()

    @property
    def where(self) -> str:
        """As "line 38"; "line 26, then common/parse.h:58" in a header, which doesn't say who came to it."""
        return f"line {self.via}, then {self.inside}:{self.line}" if self.inside else f"line {self.line}"

    @property
    def inside(self) -> str:
        """The header that the step is in, by its last two names; "" for the program's own text."""
        return "" if not self.file else "/".join(self.file.split("/")[-2:])


@dataclass(frozen=True)
class Mark:
    """A line of the program's own text that the frame came by, ``times`` by instructions that follow one another."""

    line: int
    times: int


@dataclass(frozen=True)
class Change:
    """An entry of a map that the replay changed, in its copy."""

    entry: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.entry}: {self.before} → {self.after}"


@dataclass(frozen=True)
class Trace:
    """A frame's way through a program.

    ``verdict`` is the kernel's (BPF_PROG_TEST_RUN of a copy on exactly these bytes), None where it can't run one.
    ``steps`` has the tests and calls in order, ``marks`` the lines of the text, ``last_branch`` the test that decided, or
    None; ``otherwise`` is the verdict had that test gone the other way, "" where it can't be told. ``result`` and
    ``result_metadata`` are the bytes afterwards, ``reads`` (offset, bytes) of the frame that were read, ``changes`` what it
    wrote into its maps. ``problem`` says where following ended and why, "" where it came to the end and agreed with the
    kernel in verdict, bytes and maps; where they disagree there are no steps. ``notes``: what differs from a real packet.
    """

    program: str
    place: str
    frame: bytes
    verdict: int | None
    verdict_name: str
    steps: tuple[Step, ...]
    marks: tuple[Mark, ...]
    last_branch: Step | None
    otherwise: str
    reads: tuple[tuple[int, int], ...]
    changes: tuple[Change, ...]
    problem: str
    notes: tuple[str, ...]
    source: str = field(repr=False, default="")
    file: str = ""
    metadata: bytes = b""
    result: bytes = b""
    result_metadata: bytes = b""
    reason: str = ""

    @property
    def followed(self) -> bool:
        """Whether the way was followed to its end, and agreed with the kernel."""
        return not self.problem

    @property
    def sentence(self) -> str:
        """What became of the frame and why, in one sentence or two."""
        verb = _VERBS.get(self.verdict, self.verdict_name) if self.verdict is not None else "Verdict not known"
        last = self.last_branch
        if last is not None:
            same = " too, for these bytes" if self.otherwise == self.verdict_name else ""
            rest = f" Had it gone the other way: {self.otherwise}{same}." if self.otherwise else ""
            return f"{verb} at {last.where}: {last.words}.{rest}"
        if self.problem:
            return f"{verb}. {self.problem}"
        return f"{verb}: {self.reason}." if self.reason else f"{verb}: no test on its way decided it."

    def table(self) -> Table:
        """The steps as a table."""
        rows = tuple(
            (
                each.number,
                each.where,
                each.text.strip(),
                each.words,
                _TICKS[each.taken],
                "decides" if each.decides else "",
            )
            for each in self.steps[:_MOST_SHOWN]
        )
        left = len(self.steps) - len(rows)
        caption = f"The frame's way, step by step{f', {left:,} more steps left out' if left > 0 else ''}"
        return Table(("", "where", "in the text", "what held", "jump taken", ""), rows, caption)

    def source_text(self) -> str:
        """The program's own text with its lines' numbers; ● by lines on the way, ▶ by the one that decided, words behind."""
        marked = {each.line for each in self.marks}
        said: dict[int, list[str]] = {}
        for each in self.steps:
            if each.kind == "test" and (each.decides or not each.inside) and each.words not in said.get(each.via, ()):
                said.setdefault(each.via, []).append(each.words)
        decides = self.last_branch.via if self.last_branch is not None else 0
        lines = []
        for number, text in enumerate(self.source.splitlines(), 1):
            mark = "▶" if number == decides else "●" if number in marked else " "
            words = f"    ← {'; '.join(said[number][:4])}" if number in said else ""
            lines.append(f"{number:4} {mark} {text.expandtabs(8)}{words}")
        return "\n".join(lines)

    def _head(self) -> str:
        return f"{self.program} at {self.place}: {self.verdict_name} for this frame of {len(self.frame):,} bytes"

    def __str__(self) -> str:
        parts = [self._head(), self.sentence]
        if self.problem and self.last_branch is not None:
            parts.append(self.problem)
        if self.steps:
            parts += ["", str(self.table())]
        if self.changes:
            parts += ["", "What it wrote into its maps (copies: nothing of yours was changed):"]
            parts += [f"  {each}" for each in self.changes]
        return "\n".join([*parts, *(("", *self.notes) if self.notes else ())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        bad = " class='bad'" if self.problem else ""
        changes = "".join(f"<li>{escape(str(each))}</li>" for each in self.changes)
        wrote = (
            f"<p>What it wrote into its maps (copies: nothing of yours was changed):</p><ul>{changes}</ul>"
            if changes
            else ""
        )
        notes = "".join(f"<p class='soft' style='margin:.3em 0'>{escape(each)}</p>" for each in self.notes)
        table = self.table().html() if self.steps else ""
        return block(
            f"<p><b>{escape(self._head())}</b><br><span{bad}>{escape(self.sentence)}</span></p>"
            f"<pre>{escape(self.source_text())}</pre>"
            f"<details><summary>Step by step, and what it wrote</summary>{table}{wrote}</details>"
            f"{notes}"
        )
