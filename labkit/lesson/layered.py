"""A layered drawing of a directed graph: what comes first is on top, edges go down, loops go back up.

Long edges pass through places of their own in the layers between, so that they lead around boxes. Each layer is put in
order by where its neighbours lie, some times up and down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import networkx as nx

__all__ = ["Drawing", "arranged"]

_SWEEPS = 8
_NARROW = 26  # room for an edge that passes by


@dataclass(frozen=True)
class Drawing:
    """``boxes`` by node: x and y of the upper left corner. ``edges`` by pair of nodes: the points that a line goes through,
    from the lower rim of one box to the upper rim of the other. All in pixels.
    """

    boxes: dict[Any, tuple[float, float]]
    edges: dict[tuple[Any, Any], list[tuple[float, float]]]
    width: float
    height: float


def arranged(graph: nx.DiGraph, root: Any, box: tuple[int, int], gap: tuple[int, int]) -> Drawing:
    """``graph`` drawn with boxes of one size, ``gap`` pixels apart, sideways and down. Every node must follow ``root``."""
    back = _back_edges(graph, root)
    downward = nx.DiGraph(graph.edges - back)
    downward.add_nodes_from(graph)
    level: dict[Any, int] = {}
    for node in nx.topological_sort(downward):
        level[node] = 1 + max((level[before] for before in downward.predecessors(node)), default=-1)
    chains = {(a, b): [a, *((a, b, i) for i in range(level[a] + 1, level[b])), b] for a, b in downward.edges}
    layers: list[list[Any]] = [[] for _ in range(1 + max(level.values()))]
    for node, at in level.items():
        layers[at].append(node)
    links = nx.DiGraph()
    links.add_nodes_from(graph)
    for (a, _), chain in chains.items():
        nx.add_path(links, chain)
        for i, between in enumerate(chain[1:-1], level[a] + 1):
            layers[i].append(between)
    _order(layers, links)
    x, width = _across(layers, set(level), box[0], gap[0])
    y = {node: at * (box[1] + gap[1]) for at, layer in enumerate(layers) for node in layer}
    boxes = {node: (x[node] - box[0] / 2, float(y[node])) for node in level}
    edges = {edge: _points(chain, x, y, box[1], set(level)) for edge, chain in chains.items()}
    side = width + 14.0
    for a, b in sorted(back, key=str):
        edges[a, b] = [(x[a], y[a] + box[1]), (side, y[a] + box[1] + 12), (side, y[b] - 12), (x[b] + 12, y[b])]
        side += 10
    height = len(layers) * (box[1] + gap[1]) - gap[1]
    return Drawing(boxes, edges, side if back else width, height + (14 if back else 0))


def _back_edges(graph: nx.DiGraph, root: Any) -> set[tuple[Any, Any]]:
    """Edges that lead back to a node on the way to them."""
    found, on_way = set(), [root]
    for a, b, kind in nx.dfs_labeled_edges(graph, root):
        if kind == "forward" and a != b:
            on_way.append(b)
        elif kind == "reverse":
            on_way.pop()
        elif kind == "nontree" and b in on_way:
            found.add((a, b))
    return found


def _order(layers: list[list[Any]], links: nx.DiGraph) -> None:
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer, beside in _pairs(layers, down):
            place = {node: i / max(1, len(beside) - 1) for i, node in enumerate(beside)}
            near = links.predecessors if down else links.successors

            def middle(node: Any, place: dict[Any, float] = place, near: Any = near) -> float:
                found = [place[other] for other in near(node) if other in place]
                return sum(found) / len(found) if found else 0.5

            layer.sort(key=middle)


def _pairs(layers: list[list[Any]], down: bool) -> Iterable[tuple[list[Any], list[Any]]]:
    """Each layer with the one that it is put in order by."""
    ordered = layers if down else layers[::-1]
    return zip(ordered[1:], ordered, strict=False)


def _across(layers: list[list[Any]], real: set[Any], box: int, gap: int) -> tuple[dict[Any, float], float]:
    """The middle of each node, every layer centred, and the width of the widest."""
    widths = [[box if node in real else _NARROW for node in layer] for layer in layers]
    totals = [sum(each) + gap * (len(each) - 1) for each in widths]
    x: dict[Any, float] = {}
    for layer, each, total in zip(layers, widths, totals, strict=True):
        at = (max(totals) - total) / 2
        for node, width in zip(layer, each, strict=True):
            x[node] = at + width / 2
            at += width + gap
    return x, float(max(totals))


def _points(
    chain: list[Any], x: dict[Any, float], y: dict[Any, int], high: int, real: set[Any]
) -> list[tuple[float, float]]:
    points = [(x[chain[0]], float(y[chain[0]] + high))]
    for node in chain[1:-1]:
        points += [(x[node], float(y[node])), (x[node], float(y[node] + high))]
    return [*points, (x[chain[-1]], float(y[chain[-1]]))]
