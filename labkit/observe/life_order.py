"""Which events are of the packet itself and which of an answer to it, and how its life ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from labkit.observe.life_events import AF_PACKET, LifeEvent, Surroundings, error_name
from labkit.observe.life_probes import RawEvent
from labkit.uapi import MapType, XdpAction

__all__ = ["Station", "end_of", "sorted_out"]

_TRANSMITS = ("net_dev_queue", "net_dev_start_xmit")
_BULKS = ("xdp_devmap_xmit", "xdp_bulk_tx")
_FREES = ("kfree_skb", "consume_skb")
_BY_PROGRAM = "dropped by the program"
_NO_REASON = "dropped: NOT_SPECIFIED"
_RING_FULL = "dropped: receive ring full"


@dataclass(frozen=True)
class Station:
    """An event; ``place`` as (inode of the namespace, ifindex); whether it is of an answer; ``program`` an id, or 0."""

    event: LifeEvent
    place: tuple[int, int]
    answer: bool = False
    program: int = 0


def sorted_out(raws: Sequence[RawEvent], around: Surroundings) -> list[Station]:
    """The stations from the packet's first event on, in order of time."""
    walk = _Walk(around)
    found: list[Station] = []
    start_ns = 0
    for raw in raws:
        if not found and not (raw.marked or raw.what.startswith("xdp_")):
            continue
        before = walk.host
        answer = walk.is_answer(raw)
        if answer is None:
            continue
        start_ns = start_ns or raw.time_ns
        event = around.event(raw, start_ns, not found, before)
        if not answer:
            walk.host = event.host
            if raw.what == "consume_skb":
                event = _freed(event, walk)
            elif raw.what == "napi_gro_receive_entry" and walk.new:
                event = replace(event, says="An sk_buff is made for it, and handed to GRO.", detail={"made": True})
        found.append(Station(event, raw.place, answer, raw.program))
    return found


def _freed(event: LifeEvent, walk: _Walk) -> LifeEvent:
    if walk.delivered:
        return event
    if walk.ended:
        return replace(event, detail={"taken": True})
    says = "The sk_buff is let go: native XDP has the packet in a buffer of its own."
    if walk.new:
        says = "The copy's sk_buff is let go too: the packet is an XDP frame now."
    return replace(event, says=says, detail={"for_xdp": True})


class _Walk:
    """What is known of the packet while one goes through the events in order of time.

    A marked sk_buff is the packet, or an answer that carries its payload back, as an ICMP echo does. The sk_buff tells:
    a host that forwards sends the one it received, a host that answers sends another.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._own: set[int] = set()
        self._foreign: set[int] = set()
        self._stack: set[int] = set()  # namespaces whose stack received the packet
        self._towards: list[tuple[int, int]] = []  # interfaces the packet was sent to and whose poll hasn't ended
        self._running: dict[int, int] = {}  # CPU → the sk_buff its stack is at
        self._sockets: set[int] = set()  # that got it
        self._answered = False
        self.ended = False
        self.new = False  # the last event's sk_buff was not seen before
        self.host = ""

    @property
    def delivered(self) -> bool:
        """Whether a socket got it."""
        return bool(self._sockets)

    def is_answer(self, raw: RawEvent) -> bool | None:
        """Whether the event is of an answer; None for what has nothing to do with either."""
        if raw.what == "sk_data_ready":
            return self._socket(raw)
        if raw.what == "sock_recv_length":
            return False if raw.object in self._sockets else None
        if raw.object:
            return self._skb(raw)
        if raw.what == "napi_poll":
            if raw.place in self._towards:
                self._towards.remove(raw.place)
                return False
            return True if self._answered else None
        if self.ended and self._answered:
            return True
        if raw.what in _BULKS:
            self._sent(raw)
        return False

    def _sent(self, raw: RawEvent) -> None:
        peer = self._around.peer(raw.place)
        if peer is not None and peer not in self._towards:
            self._towards.append(peer)

    def _skb(self, raw: RawEvent) -> bool | None:
        # Not every sk_buff is seen to be freed: after the end another one may have got the address.
        known = raw.object in self._own and not (self.ended and (raw.what in _TRANSMITS or not raw.marked))
        self.new = not known
        own = known or (raw.marked and raw.object not in self._foreign and not self._sends_another(raw))
        if not own and not raw.marked and not self._stack:
            return None
        mine = self._own if own else self._foreign
        mine.add(raw.object)
        if raw.what in _FREES:
            mine.discard(raw.object)
        if raw.what == "netif_receive_skb":
            self._running[raw.cpu] = raw.object
        if own:
            self._note(raw, known)
        else:
            self._answered = True
        return not own

    def _sends_another(self, raw: RawEvent) -> bool:
        answers = raw.what in _TRANSMITS and raw.place[0] in self._stack
        return answers or (self.ended and self._answered)

    def _note(self, raw: RawEvent, known: bool) -> None:
        if raw.what in ("netif_receive_skb", "icmp_send", "tcp_send_reset"):
            self._stack.add(raw.place[0])
        elif raw.what == "net_dev_start_xmit":
            self._sent(raw)
        elif raw.what == "kfree_skb" or (raw.what == "consume_skb" and known and raw.place[0] in {*self._stack, 0}):
            self.ended = True

    def _socket(self, raw: RawEvent) -> bool | None:
        running = self._running.get(raw.cpu, 0)
        if running in self._own:
            if raw.args[0] != AF_PACKET:
                self.ended = True
                self._sockets.add(raw.object)
            return False
        return True if running in self._foreign else None


def end_of(events: Sequence[LifeEvent]) -> str:
    """How it ended, as "delivered to a socket" or "dropped: NO_SOCKET"; "" where no event tells."""
    ends = [(each.what, end) for each in events if (end := _end(each))]
    for _, end in ends:
        if end.startswith("delivered"):
            return end
    if not ends:
        return ""
    follows = (("kfree_skb", _BY_PROGRAM), ("kfree_skb", _NO_REASON), ("xdp_devmap_xmit", _RING_FULL))
    if ends[-1] in follows and len(ends) > 1 and ends[-2][0] in ("xdp_verdict", "xdp_exception"):
        return ends[-2][1]  # what the program returned is why it was freed
    return ends[-1][1]


def _end(event: LifeEvent) -> str:
    detail = event.detail
    match event.what:
        case "sk_data_ready" if detail["family"] != AF_PACKET:
            return "delivered to a socket"
        case "xdp_redirect" if detail["map"] == MapType.XSKMAP.name.lower():
            return "delivered to an AF_XDP socket"
        case "kfree_skb":
            return _BY_PROGRAM if detail["reason"] == "XDP" else f"dropped: {detail['reason']}"
        case "xdp_verdict" if detail["verdict"] in ("XDP_DROP", ""):
            return _BY_PROGRAM
        case "xdp_exception":
            return _exception(detail["action"])
        case "xdp_redirect_err":
            return f"redirect refused: {error_name(detail['error'])}"
        case "xdp_devmap_xmit" | "xdp_bulk_tx" if detail["error"] < 0:
            kind = "XDP_TX" if event.what == "xdp_bulk_tx" else "redirect"
            return f"{kind} refused: {error_name(detail['error'])}"
        case "xdp_devmap_xmit" | "xdp_bulk_tx" if detail["drops"]:
            return _RING_FULL
        case "xdp_cpumap_enqueue" if detail["drops"]:
            return "dropped: CPU map's queue full"
        case "xdp_cpumap_kthread" if detail["drop"]:
            return _BY_PROGRAM
        case "consume_skb" if "taken" in detail:
            return f"taken by {event.host}'s stack"
    return ""


def _exception(action: int) -> str:
    if action == XdpAction.ABORTED:
        return "aborted by the program"
    if action in tuple(XdpAction):
        return f"XDP_{XdpAction(action).name} failed"
    return f"dropped: unknown return code {action}"
