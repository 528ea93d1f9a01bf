"""Basic blocks and the ways between them, as networkx graphs; and which function calls which."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx

from labkit.analysis.code import Code, Function
from labkit.analysis.opcodes import Kind

__all__ = ["Block", "calls", "flow"]


@dataclass(frozen=True)
class Block:
    """Instructions that run one after another, by slot: nothing jumps into their midst, nor out of it."""

    slots: tuple[int, ...]

    @property
    def start(self) -> int:
        """The slot of its first instruction."""
        return self.slots[0]

    @property
    def end(self) -> int:
        """The slot of its last instruction."""
        return self.slots[-1]


def flow(code: Code, function: Function) -> nx.DiGraph:
    """The control flow of one function: a node for each block, named by its first slot, with ``block``.

    An edge's ``way`` is "next", "taken" (a conditional jump is), or "goto". A call is part of its block: it comes back.
    """
    starts = _starts(code, function)
    graph = nx.DiGraph()
    slots: list[int] = []
    inside = [slot for slot in range(function.start, function.end) if slot in code.instructions]
    for slot, after in zip(inside, [*inside[1:], function.end], strict=True):
        slots.append(slot)
        if after in starts or after == function.end:
            graph.add_node(slots[0], block=Block(tuple(slots)))
            slots = []
    for start in list(graph):
        last = code.instructions[graph.nodes[start]["block"].end]
        branches = last.kind in (Kind.BRANCH, Kind.MAY_GOTO)
        for to in last.successors:
            way = "goto" if last.kind is Kind.GOTO else "taken" if branches and to == last.target else "next"
            graph.add_edge(start, to, way=way)
    return graph


def _starts(code: Code, function: Function) -> set[int]:
    """Slots at which blocks begin."""
    starts = {function.start}
    for slot in range(function.start, function.end):
        each = code.instructions.get(slot)
        if each is not None and each.kind in (Kind.GOTO, Kind.BRANCH, Kind.MAY_GOTO, Kind.EXIT):
            starts |= {*each.successors, each.following}
    return starts


def calls(code: Code) -> nx.DiGraph:
    """Which function calls which, by name; an edge's ``slots`` are the calls."""
    graph = nx.DiGraph()
    graph.add_nodes_from(function.name for function in code.functions)
    for slot, callee in code.callees.items():
        if callee.target is not None:
            caller, called = code.function_at(slot).name, code.function_at(callee.target).name
            known = graph.get_edge_data(caller, called, {"slots": ()})["slots"]
            graph.add_edge(caller, called, slots=(*known, slot))
    return graph
