"""Pictures of lesson 10: a program's control flow beside its source, and who takes what for a tail call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from string import ascii_uppercase

import networkx as nx

from labkit.analysis import Report, Site
from labkit.analysis.code import Function, Line
from labkit.analysis.dataflow import bound_ways
from labkit.analysis.explore import entries, walk
from labkit.analysis.graph import Block, flow
from labkit.analysis.opcodes import Kind
from labkit.errors import LessonError
from labkit.lesson.layered import arranged
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, box_at, label_at, svg_of

__all__ = ["flow_picture", "verdict_table"]

_BOX, _GAP = (196, 62), (18, 34)
_LEFT, _TOP, _LINE, _TEXT_W, _CHARACTERS = 6, 8, 17, 580, 66
# What an edge or a mark means: its colour, its stroke, and the sign that says the same without colour.
_TAIL, _BREAK, _PLAIN = ("--lab-good", "", "✓"), ("--lab-bad", "6 4", "✕"), ("--lab-soft", "", "")

# Letters that stand on a line: the page's background around them keeps them legible.
_HALO = '<text style="paint-order:stroke;stroke:var(--jp-layout-color0,Canvas);stroke-width:5px" '


def flow_picture(report: Report, function: str | None = None) -> Picture:
    """The control flow of one function, by default that of the first redirect, beside the lines it was made of.

    Ways that a tail takes are green and bear a ✓; the way that breaks one is red, dashed, and bears a ✕.
    """
    return _FlowPicture(report, _function(report, function)).picture()


def verdict_table(reports: Iterable[Report]) -> Table:
    """For each program: calls, both detectors' verdicts, whether it mixes, and the first reason against."""
    rows, marks = [], []
    for i, report in enumerate(reports):
        reasons = [report.why(site) for site in report.sites if not site.dataflow]
        others = "calls bpf_redirect as well" if report.mixes else "goes on in other programs" if report.leaves else ""
        why = reasons[0] if reasons else others if report.sites else ""
        words = ["–" if not report.sites else "yes" if yes else "no" for yes in (report.peephole, report.dataflow)]
        rows.append((report.code.name, len(report.sites), *words, "yes" if report.qualifies else "no", why))
        marks.append((i, 4, "good" if report.qualifies else "bad"))
    head = ("program", "calls", "peephole", "dataflow", "fast path", "why not")
    return Table(head, tuple(rows), marks=tuple(marks))


def _function(report: Report, name: str | None) -> Function:
    functions = report.code.functions
    if name is None:
        return report.code.function_at(report.sites[0].slot) if report.sites else functions[0]
    for function in functions:
        if function.name == name:
            return function
    raise LessonError(
        f"{report.code.name} has no function {name!r}.",
        tried="to draw a program's control flow",
        remedy="take one of: " + ", ".join(function.name for function in functions),
    )


class _FlowPicture:
    def __init__(self, report: Report, function: Function) -> None:
        self.report, self.code, self.function = report, report.code, function
        whole = flow(self.code, function)
        reached = {function.start, *nx.descendants(whole, function.start)}
        self.graph: nx.DiGraph = whole.subgraph(reached).copy()
        self.names = {start: _letter(i) for i, start in enumerate(sorted(reached))}
        self.file = self._main_file()
        known = walk(self.code, entries(self.code))
        self.tails = {step for s in report.sites if s.dataflow for step in bound_ways(self.code, s.slot, known)}
        self.breaks = {step for s in report.sites if s.broken for step in pairwise(s.broken.path)}

    def picture(self) -> Picture:
        drawing = arranged(self.graph, self.function.start, _BOX, _GAP)
        parts = [self._edge(edge, points) for edge, points in drawing.edges.items()]
        parts += [self._box(start, *drawing.boxes[start]) for start in self.graph]
        lines, high = self._source(_LEFT + drawing.width + 40)
        legend_y = max(_TOP + drawing.height, high) + 24
        parts += [*lines, self._legend(legend_y)]
        title = f"Control flow of {self.function.name}: {self.report.conclusion()}"
        said = "; ".join(f"{row[0]}: {row[3]}, then {row[4]}" for row in self._rows())
        width = int(_LEFT + drawing.width + 40 + _TEXT_W)
        svg = svg_of(title, said, width, int(legend_y + 12), "".join(parts))
        head = ("block", "instructions", "lines", "what", "goes to")
        return Picture(title, said, svg, Table(head, tuple(self._rows())), open=False)

    # --- blocks

    def _block(self, start: int) -> Block:
        block: Block = self.graph.nodes[start]["block"]
        return block

    def _sites(self, start: int) -> list[Site]:
        return [site for site in self.report.sites if site.slot in self._block(start).slots]

    def _broken(self, start: int) -> list[Site]:
        return [s for s in self.report.sites if s.broken and s.broken.slot in self._block(start).slots]

    def _lines(self, start: int) -> list[Line]:
        found = [self.code.line_at(slot) for slot in self._block(start).slots]
        return list(dict.fromkeys(line for line in found if line is not None))

    def _words(self, start: int) -> tuple[str, str]:
        """What matters of a block, and its CSS variable."""
        broken = self._broken(start)
        if broken and broken[0].broken:
            return f"✕ {broken[0].broken.reason}", "--lab-bad"
        sites = self._sites(start)
        if sites:
            return f"● bpf_redirect_map {'✓' if all(s.dataflow for s in sites) else '✕'}", "--lab-accent"
        if any(slot in self.report.redirects for slot in self._block(start).slots):
            return "▲ bpf_redirect", "--lab-bad"
        exits = self.code.instructions[self._block(start).end].kind is Kind.EXIT
        return ("■ exit" if exits else "", "--lab-soft")

    def _box(self, start: int, x: float, y: float) -> str:
        x, y = x + _LEFT, y + _TOP
        block, (words, colour) = self._block(start), self._words(start)
        marked = bool(self._sites(start) or self._broken(start))
        rim = (
            f'<rect x="{x:g}" y="{y:g}" width="{_BOX[0]}" height="{_BOX[1]}" rx="9" fill="none" stroke="var({colour})" '
        )
        parts = [box_at(x, y, *_BOX), rim + 'stroke-width="2.5"/>' if marked else ""]
        parts.append(label_at(x + 10, y + 20, self.names[start], "strong"))
        span = f" {block.start}" if block.start == block.end else f"s {block.start}–{block.end}"
        parts.append(label_at(x + _BOX[0] - 10, y + 20, f"instruction{span}", "soft small", "end"))
        numbers = _spans(self._lines(start), self.file)
        parts.append(label_at(x + 10, y + 37, _short(numbers, 27), "soft small"))
        text = label_at(x + 10, y + 54, _short(words, 27), "small")
        parts.append(text.replace("<text ", f'<text style="fill:var({colour})" ', 1) if words else "")
        return "".join(parts)

    # --- edges

    def _kind(self, a: int, b: int) -> tuple[str, str, str]:
        step = self._block(a).end, b
        return _BREAK if step in self.breaks else _TAIL if step in self.tails else _PLAIN

    def _edge(self, edge: tuple[int, int], points: Sequence[tuple[float, float]]) -> str:
        colour, dashes, sign = self._kind(*edge)
        at = [(x + _LEFT, y + _TOP) for x, y in points]
        path = f"M{at[0][0]:g} {at[0][1]:g}"
        for (x1, y1), (x2, y2) in pairwise(at):
            bend = (y2 - y1) / 2
            path += f"C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
        x, y = at[-1]
        style = f'stroke="var({colour})" stroke-width="{2.5 if sign else 1.5}" fill="none"'
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        head = f'<path d="M{x - 4:g} {y - 6:g}l4 6l4 -6" {style}/>'
        middle = ((at[0][0] + at[1][0]) / 2, (at[0][1] + at[1][1]) / 2)
        mark = label_at(middle[0], middle[1] + 4, sign, "strong", "middle").replace("<text ", _HALO, 1) if sign else ""
        return f'<path d="{path}" {style}{dashed}/>{head}{mark}'

    # --- source

    def _main_file(self) -> str:
        """The file that most of the function comes from, headers only where there is nothing else."""
        files = [line.file for start in self.graph for line in self._lines(start)]
        return max(files, key=lambda file: (not file.endswith(".h"), files.count(file)), default="")

    def _source(self, x: float) -> tuple[list[str], float]:
        """The C lines, each with the blocks made of it; and how far down they go."""
        blocks: dict[Line, list[str]] = {}
        for start in self.graph:
            for line in self._lines(start):
                blocks.setdefault(line, []).append(self.names[start])
        parts, y, file = [], float(_TOP + 12), ""
        calls = {site.line for site in self.report.sites}
        ends = {self.code.line_at(site.broken.slot) for site in self.report.sites if site.broken}
        key = {line: (line.file != self.file, line.file, line.number) for line in blocks}
        for line in sorted(blocks, key=lambda line: key[line]):
            if line.file != file:
                file, y = line.file, y + (8 if file else 0)
                parts.append(label_at(x, y, file, "soft small"))
                y += _LINE
            sign = "●" if line in calls else "✕" if line in ends else ""
            parts.append(label_at(x + 12, y, sign, "strong", "middle"))
            parts.append(label_at(x + 58, y, str(line.number), "soft", "end"))
            text = label_at(x + 68, y, _short(line.text.strip(), _CHARACTERS), "strong" if sign else "")
            parts.append(text.replace("<text ", '<text style="font-family:var(--jp-code-font-family,monospace)" ', 1))
            parts.append(label_at(x - 8, y, " ".join(sorted(set(blocks[line]))[:3]), "soft small", "end"))
            y += _LINE
        if not blocks:
            parts.append(label_at(x, y, "(no line information)", "soft"))
        return parts, y

    def _legend(self, y: float) -> str:
        words = (
            ("● ", "a call of bpf_redirect_map"),
            ("✓ ", "the way of a tail call"),
            ("✕ ", "the way that breaks one"),
        )
        return "".join(label_at(_LEFT + i * 190, y, sign + text, "soft small") for i, (sign, text) in enumerate(words))

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        rows = []
        for start in sorted(self.graph):
            block = self._block(start)
            ways = [self._way(start, to) for to in sorted(self.graph.successors(start))]
            numbers = _spans(self._lines(start), self.file)
            words = self._words(start)[0]
            rows.append((self.names[start], f"{block.start}–{block.end}", numbers, words, ", ".join(ways) or "the end"))
        return rows

    def _way(self, start: int, to: int) -> str:
        sign = self._kind(start, to)[2]
        return self.names[to] + (f" {sign}" if sign else "")


def _letter(number: int) -> str:
    """A, B, … Z, A1, B1 …"""
    return ascii_uppercase[number % 26] + (str(number // 26) if number >= 26 else "")


def _spans(lines: Sequence[Line], file: str) -> str:
    """Numbers of lines, those of other files with the file's name."""
    own = sorted({line.number for line in lines if line.file == file})
    others = sorted({f"{line.file.rpartition('/')[2]}:{line.number}" for line in lines if line.file != file})
    words = ([f"line{'s' * (len(own) > 1)} " + ", ".join(map(str, own))] if own else []) + others
    return "; ".join(words)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
