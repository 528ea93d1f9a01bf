"""Of what a packet's hash is made: the same ports from several senders, and what that gives."""

from __future__ import annotations

from labkit.interface import Interface
from labkit.kernel.netdev import NetdevSocket, RxMetadata
from labkit.lab import Lab
from labkit.lesson.hints_driver import asking
from labkit.lesson.hints_driver_origins import CONNECTED, GENERATED, TAP, send_unconnected
from labkit.lesson.hints_driver_picture import AskedByOrigin
from labkit.lesson.hints_driver_tap import tap
from labkit.lesson.hints_driver_words import Answer
from labkit.lesson.page import Table
from labkit.topology import Topology
from labkit.traffic.frames import udp, vlan
from labkit.traffic.raw import send_frames

__all__ = ["hash_by_sender", "promised_hints"]

UNCONNECTED, JOINED, RAW, TAGGED = (
    "a socket, not connected",
    "a connected socket",
    "a packet socket",
    "a packet socket, VLAN tag in the frame",
)
_SPORT, _OTHER, _PORT = 20_000, 20_001, 9999


def hash_by_sender() -> Table:
    """The hash of one datagram after the other: same addresses, same or other port, from senders of several kinds.

    In a lab of its own called "hash". Raises FeatureError where no program may ask for hints.
    """
    with Lab(Topology.pair(), name="hash") as lab:
        client, server = lab["client"]["eth0"], lab["server"]["eth0"]
        with asking(server) as asked:

            def raw(sport: int, tagged: bool = False) -> int:
                frame = udp(client, server, sport=sport, dport=_PORT)
                send_frames(client, vlan(frame, 10) if tagged else frame, 1)
                return asked.take(1)[0].hash

            def from_socket(sport: int, connected: bool) -> int:
                if connected:
                    _send_connected(client, sport)
                else:
                    send_unconnected(client, 1, sport=sport)
                return asked.take(1)[0].hash

            rows = [
                (UNCONNECTED, _SPORT, from_socket(_SPORT, False)),
                (UNCONNECTED, _SPORT, from_socket(_SPORT, False)),
                (UNCONNECTED, _OTHER, from_socket(_OTHER, False)),
                (RAW, _SPORT, raw(_SPORT)),
                (JOINED, _SPORT, from_socket(_SPORT, True)),
                (JOINED, _SPORT, from_socket(_SPORT, True)),
                (TAGGED, _SPORT, raw(_SPORT, True)),
                (TAGGED, _OTHER, raw(_OTHER, True)),
            ]
    return _with_marks(rows)


def _send_connected(source: Interface, sport: int) -> None:
    with source.host.socket() as out:
        out.bind((source.ip, sport))
        out.connect((source.peer.ip, _PORT))
        out.send(bytes(22))


def _with_marks(rows: list[tuple[str, int, int]]) -> Table:
    """With a column that tells which hashes are alike: "A" for all that are the first one's, and so on."""
    letters: dict[int, str] = {}
    for *_, value in rows:
        letters.setdefault(value, chr(ord("A") + len(letters)))
    shown = tuple((who, str(port), f"{value:08x}", letters[value]) for who, port, value in rows)
    caption = "One datagram each, one after the other. The same letter: the same hash."
    return Table(("sender", "from port", "hash", "alike"), shown, caption)


def promised_hints(asked: AskedByOrigin) -> Table:
    """What each driver says by netlink that it can tell, beside what packets of two origins got from it."""
    with Lab(Topology.pair(), name="promised") as lab:
        server = lab["server"]
        with server.run(NetdevSocket) as netdev:
            veth = netdev.features(server["eth0"].ifindex).rx_metadata
        promises: list[tuple[str, RxMetadata, tuple[str, ...]]] = [("veth", veth, (CONNECTED, GENERATED))]
        if TAP in asked.answers:
            with tap(server) as device:
                promises.append(("tap", device.features.rx_metadata, (TAP,)))
    rows = [
        (driver, str(bit.name).lower().replace("_", " "), "yes" if bit & can else "no", origin, words)
        for driver, can, origins in promises
        for origin in origins
        for bit, words in zip(RxMetadata, _words(asked.of(origin)), strict=True)
    ]
    return Table(("driver", "hint", "netlink says it can", "asked about a packet from", "it answered"), tuple(rows))


def _words(answer: Answer) -> tuple[str, str, str]:
    """In the order of ``RxMetadata``."""
    of_hash, of_timestamp, of_vlan = answer.words
    return of_timestamp, of_hash, of_vlan
