"""The picture of a packet's life: hosts and interfaces from left to right, time from top to bottom, a row an event."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from labkit.lesson.pictures import label_at, svg_of
from labkit.observe.life_events import AF_PACKET, LifeEvent, error_name
from labkit.topology import Topology

__all__ = ["draw_life"]

_ROW, _LANE, _PAD, _GAP = 28, 66, 34, 26  # pixels: a row's height, between lanes, a host's margin, between hosts
_TIMES, _HEAD, _LABELS = 176, 56, 330
_FEW = 3  # hosts
_STACK = ""  # the lane of a host's stack and sockets, where others are named by their interface
# What happens in a host's stack or at its sockets; all else happens at an interface.
_IN_STACK = ("net_dev_queue", "netif_receive_skb", "icmp_send", "tcp_send_reset", "sk_data_ready", "sock_recv_length")
_BESIDE = ("napi_poll", "icmp_send", "tcp_send_reset")  # no step of the packet: it tells of the poll, of an answer
_GOOD = ("delivered", "taken")

Lane = tuple[str, str]


def draw_life(
    topology: Topology, events: Sequence[LifeEvent], answer: Sequence[LifeEvent], end: str, title: str, said: str
) -> str:
    """The SVG."""
    lanes, hosts = _lanes(topology, [*events, *answer])
    right = max(lanes.values(), default=_TIMES) + _PAD
    rows = len(events) + (len(answer) + 1 if answer else 0)
    height = _HEAD + rows * _ROW + 14
    last = _last_step(events)
    parts = [_host(host, x, width, height) for host, (x, width) in hosts.items()]
    parts += [_lane(lane, x, height) for lane, x in lanes.items()]
    parts.append(_heads())
    parts += _course(events, lanes, right, 0, 1, "good" if end.startswith(_GOOD) else "bad", last)
    if answer:
        y = _HEAD + len(events) * _ROW + 4
        parts.append(f'<path d="M2 {y:g}H{right + _LABELS}" stroke="var(--lab-line)"/>')
        parts.append(label_at(right + 14, y + 16, "The answer, a packet of its own:", "soft"))
        parts += _course(answer, lanes, right, len(events) + 1, len(events) + 1, "", -1)
    return svg_of(title, said, right + _LABELS, height, "".join(parts))


def _last_step(events: Sequence[LifeEvent]) -> int:
    """The index of the station where the packet itself ended."""
    for i, each in enumerate(events):
        if each.what == "sk_data_ready" and each.detail["family"] != AF_PACKET:
            return i
    steps = [i for i, each in enumerate(events) if each.what not in _BESIDE]
    return steps[-1] if steps else len(events) - 1


def _lanes(topology: Topology, events: Sequence[LifeEvent]) -> tuple[dict[Lane, int], dict[str, tuple[int, int]]]:
    """x of each lane, and (x, width) of each host: all of them where they are few, else those on the packet's way."""
    on_the_way, few = {each.host for each in events}, len(topology.hosts) <= _FEW
    order = {host: number for number, host in enumerate(topology.hosts)}
    lanes: dict[Lane, int] = {}
    hosts: dict[str, tuple[int, int]] = {}
    x = _TIMES
    for host in topology.hosts:
        links = [link for link in topology.links if host in (link.a.host, link.b.host)]
        if not few and host not in on_the_way:
            continue
        before: list[str] = []
        after: list[str] = []
        for link in links:
            own, other = link.ends if link.a.host == host else link.ends[::-1]
            if few or {own.host, other.host} <= on_the_way:
                (before if order[other.host] < order[host] else after).append(own.interface)
        names = [*before, _STACK, *after]
        for i, name in enumerate(names):
            lanes[(host, name)] = x + _PAD + i * _LANE
        hosts[host] = (x, 2 * _PAD + (len(names) - 1) * _LANE)
        x += hosts[host][1] + _GAP
    return lanes, hosts


def _host(name: str, x: int, width: int, height: int) -> str:
    return (
        f'<rect x="{x}" y="2" width="{width}" height="{height - 4}" rx="9" fill="var(--lab-card)" stroke="var(--lab-line)"/>'
        + label_at(x + width / 2, 21, name, "strong", "middle")
    )


def _lane(lane: Lane, x: int, height: int) -> str:
    name = lane[1] or "stack"
    return (
        label_at(x, 41, name, "soft", "middle")
        + f'<path d="M{x} {_HEAD - 8}V{height - 12}" stroke="var(--lab-line)" stroke-width="1.5"/>'
    )


def _heads() -> str:
    return (
        label_at(58, 41, "µs", "soft", "end")
        + label_at(122, 41, "+ µs", "soft", "end")
        + label_at(134, 41, "CPU", "soft")
    )


def _course(
    events: Sequence[LifeEvent], lanes: dict[Lane, int], right: int, row: int, number: int, tone: str, last: int
) -> list[str]:
    """The way through ``events`` from ``row`` on, stations numbered from ``number``; ``tone`` "" for an answer."""
    points: list[tuple[float, float]] = []
    stations: list[str] = []
    stack: set[str] = set()
    before: int | None = None
    lane: Lane | None = None
    for i, event in enumerate(events):
        y = _HEAD + (row + i) * _ROW + _ROW / 2
        if event.what == "netif_receive_skb":
            stack.add(event.host)
        lane = _lane_of(event, lanes, stack, lane)
        x = lanes.get(lane, _TIMES + _PAD) if lane else _TIMES + _PAD
        if event.what not in _BESIDE:
            points.append((x, y))
        kind = (
            "" if not tone else tone if i == last else "beside" if event.what in (*_BESIDE, "consume_skb") else "step"
        )
        stations += [_times(event, before, y), _station(x, y, number + i, kind), _label(event, x, right, y, kind)]
        before = event.time_ns if event.time_ns is not None else before
    return [_path(points, not tone), *stations]


def _lane_of(event: LifeEvent, lanes: dict[Lane, int], stack: set[str], before: Lane | None) -> Lane | None:
    """Where the event is drawn; one that names no place stays where the packet was."""
    in_stack = event.what in _IN_STACK or (event.what in ("kfree_skb", "consume_skb") and event.host in stack)
    if event.what == "xdp_redirect" and not event.interface:  # the generator, right before the driver
        found = next((lane for lane in lanes if " ".join(lane) == event.detail.get("to")), None)
        return found or before
    if in_stack and (event.host, _STACK) in lanes:
        return (event.host, _STACK)
    return (event.host, event.interface) if event.interface else before


def _path(points: Sequence[tuple[float, float]], answer: bool) -> str:
    if len(points) < 2:
        return ""
    way = f"M{points[0][0]:g} {points[0][1]:g}"
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = (y1 + y2) / 2
        way += f"C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}" if x1 != x2 else f"L{x2:g} {y2:g}"
    paint = 'stroke="var(--lab-soft)" stroke-width="1.5" stroke-dasharray="4 4"'
    return f'<path d="{way}" fill="none" {paint if answer else _STRONG}/>'


_STRONG = 'stroke="var(--lab-accent)" stroke-width="3" stroke-linecap="round"'


def _station(x: float, y: float, number: int, kind: str) -> str:
    """A numbered disc: filled on the packet's way, ringed where it ended, hollow beside the way."""
    fill, line, ink = {
        "step": ("var(--lab-accent)", "var(--lab-accent)", "var(--lab-card)"),
        "good": ("var(--lab-good)", "var(--lab-good)", "var(--lab-card)"),
        "bad": ("var(--lab-bad)", "var(--lab-bad)", "var(--lab-card)"),
    }.get(kind, ("var(--lab-card)", "var(--lab-soft)", "currentColor"))
    ring = f'<circle cx="{x:g}" cy="{y:g}" r="13" fill="none" stroke="{line}" stroke-width="2"/>'
    return (
        f'<circle cx="{x:g}" cy="{y:g}" r="10" fill="{fill}" stroke="{line}" stroke-width="1.5"/>'
        + ring * (kind in ("good", "bad"))
        + f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle" class="small" style="fill:{ink};font-weight:700">{number}</text>'
    )


def _times(event: LifeEvent, before: int | None, y: float) -> str:
    if event.time_ns is None:
        return label_at(122, y + 4, "no event", "soft small", "end")
    more = f"+{(event.time_ns - before) / 1000:.1f}" if before is not None else ""
    return (
        label_at(58, y + 4, f"{event.time_ns / 1000:.1f}", "", "end")
        + label_at(122, y + 4, more, "soft", "end")
        + label_at(146, y + 4, str(event.cpu), "soft", "middle")
    )


def _label(event: LifeEvent, x: float, right: int, y: float, kind: str) -> str:
    """The few words at the right, with a thin line that leads to them."""
    shown = "strong" if kind in ("good", "bad") else "" if kind == "step" else "soft"
    return (
        f'<path d="M{x + 15:g} {y:g}H{right + 8}" stroke="var(--lab-line)" stroke-dasharray="1 5" stroke-linecap="round"/>'
        f"<g>{label_at(right + 14, y + 4, _short(event), shown)}<title>{escape(event.says)}</title></g>"
    )


_SHORT = {
    "net_dev_start_xmit": "to the driver",
    "netif_rx": "CPU's backlog",
    "netif_receive_skb": "received by the stack",
    "tcp_send_reset": "TCP answers: reset",
    "napi_poll": "the poll ends",
}


def _short(event: LifeEvent) -> str:
    """The event in a few words."""
    detail = event.detail
    match event.what:
        case "xdp_redirect" if detail["program"] == "the generator":
            return f"generator: made, redirected to {detail['to']}"
        case "xdp_redirect":
            return f"{detail['program']}: XDP_REDIRECT to {detail['to']}"
        case "xdp_redirect_err":
            return f"redirect refused: {error_name(detail['error'])} ({detail['error']})"
        case "xdp_verdict":
            return f"{detail['program']}: {detail['verdict'] or 'dropped'}"
        case "xdp_exception":
            return "XDP_ABORTED" if detail["action"] == 0 else f"exception, verdict {detail['action']}"
        case "xdp_devmap_xmit" | "xdp_bulk_tx":
            kind = "devmap" if event.what == "xdp_devmap_xmit" else "XDP_TX"
            bad = f" ({error_name(detail['error'])})" if detail["error"] < 0 else ""
            lost = detail["drops"] or detail["error"] < 0
            return f"bulk flush ({kind}): " + (f"dropped{bad}" if lost else "in the peer's ring")
        case "net_dev_queue":
            return f"{detail['by'].lower()}: to the queue discipline"
        case "napi_gro_receive_entry":
            return "sk_buff made, to GRO" if "made" in detail else "to GRO"
        case "xdp_cpumap_enqueue":
            return f"bulk flush (cpumap): to CPU {detail['to_cpu']}"
        case "xdp_cpumap_kthread":
            return f"thread cpumap/{event.cpu} takes it"
        case "kfree_skb":
            return f"dropped: {detail['reason']}" if detail["reason"] != "NOT_SPECIFIED" else "freed, no reason named"
        case "consume_skb" if "taken" in detail:
            return "taken by the stack"
        case "consume_skb":
            return "sk_buff let go for XDP" if "for_xdp" in detail else "sk_buff freed"
        case "icmp_send":
            return "the stack answers: ICMP error"
        case "sk_data_ready":
            return (
                "packet socket: a copy" if detail["family"] == AF_PACKET else f"in the socket on port {detail['port']}"
            )
        case "sock_recv_length":
            return f"a process read {detail['bytes']} bytes"
    return _SHORT.get(event.what, event.what)
