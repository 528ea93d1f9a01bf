"""The exercise "answer requests": ARP and ICMP echo in user space, for a host that exists nowhere else."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

from labkit.kernel import rtnl
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.python_answer import AnswerError
from labkit.lesson.trial import raw_socket
from labkit.lesson.xsk_trial import XskTrial
from labkit.traffic.frames import arp, icmp, udp
from labkit.xsk import Umem, XskSocket

__all__ = ["ANSWER_REQUESTS"]

_MAC = "02:00:00:00:00:4d"  # of nobody else
_GRACE_S = 2.0  # until an answer that was sent has been seen by the client's kernel
_LATER_GRACE_S = 0.2  # once one was not accepted
_HEARD_S = 10.0  # until a frame that was sent has come to the socket
_SLICE_S = 0.01
_ECHO_REQUEST, _ECHO_REPLY = 8, 0  # RFC 792
_DISCARD = 9
_PINGS = 7
_IDENTIFIER = 77
# A first word with which the sum of request 0 is 1, of the next 2 and so on: every checksum + 0x0800 overflows.
_OVERFLOWING = (0xFFFF - 0x0800 - _IDENTIFIER + 1).to_bytes(2, "big")
_NEIGHBOURS = "/proc/thread-self/net/arp"

_ARP = (
    "the ARP answer: to whom it goes (first six bytes), from our MAC, operation 2, then our MAC and IP as the sender, and the "
    "asker's, bytes 22 to 32 of the question, as the target"
)
_NOT_US = (
    "whom the question is for: an ARP request has the address asked for in bytes 38 to 42; answer for our own only"
)
_NOT_OUR_IP = "whom the ping is for: bytes 30 to 34 have the destination; answer to our own address only"
_NOT_A_QUESTION = (
    "what is asked: ARP operation 1 (bytes 20 to 22), ICMP type 8 (byte 34), protocol 1 (byte 23); else return None"
)
_ECHO = (
    "the echo reply: MACs swapped, addresses swapped, type 0, everything from byte 38 on as it came. The client's kernel throws "
    "away a reply whose checksum is wrong"
)
_SUM = (
    "the checksum (bytes 36 to 38): the type goes from 8 to 0, so the sum of the words falls by 0x0800, and the checksum grows "
    "by as much; what overflows 16 bits is added at the low end again"
)
_SHORT = "short frames: a slice beyond the end is empty, but frame[34] raises an error; look at the EtherType first"


class _Peer:
    """The client, and the loop that lets the function answer what comes to the server."""

    def __init__(self, trial: XskTrial, xsk: XskSocket) -> None:
        self.trial, self.xsk = trial, xsk
        self.host = trial.client.host
        network = trial.client.ip.rpartition(".")[0]
        self.ip, self.other_ip = f"{network}.77", f"{network}.78"
        self.grace_s = _GRACE_S
        self.arp_answers: list[bytes] = []
        self._ours = bytes.fromhex(_MAC.replace(":", "")), socket.inet_aton(self.ip)

    def serve(self) -> list[tuple[bytes, bytes | None]]:
        """What has come within a moment, each with what the function answered; the answers are sent."""
        found = []
        for each in self.xsk.receive(timeout_s=_SLICE_S):
            answer = self._answer(each.frame)
            if answer is not None and not (isinstance(answer, bytes) and 14 <= len(answer) <= self.xsk.umem.frame_size):
                raise AnswerError(
                    f"Your function returned {type(answer).__name__}, which is no frame.",
                    tried="to send your answer",
                    remedy="return the answer as bytes, at least 14 of them, or None",
                )
            if answer is not None:
                self.xsk.send(answer)
            found.append((each.frame, answer))
        return found

    def _answer(self, frame: bytes) -> object:
        try:
            return self.trial.call(frame, *self._ours)
        except AnswerError as error:
            error.detail = (
                f"It was called with a frame of {len(frame)} bytes: {frame[:48].hex(' ')}{' …' * (len(frame) > 48)}"
            )
            raise

    def answer_to(self, frame: bytes) -> bytes | None:
        """What the function answers to ``frame``, sent by the client."""
        with self.host.run(raw_socket, self.trial.client.name) as out:
            out.send(frame)
        until = time.monotonic() + _HEARD_S
        while time.monotonic() < until:
            for came, answer in self.serve():
                if came == frame:
                    return answer
        raise AnswerError("A frame did not come to the socket.", tried="to show it to you", remedy="check again")

    def asked_by_arp(self, ip: str) -> str:
        """The MAC that the client's kernel has found for an address by asking; "" for none."""
        with self.host.socket() as asks:
            asks.setblocking(False)
            asks.sendto(b"?", (ip, _DISCARD))
        until, answered = time.monotonic() + _HEARD_S, False
        while time.monotonic() < until and not self._known(ip):
            for frame, answer in self.serve():
                if frame[12:14] == b"\x08\x06" and not answered:
                    answered, until = True, time.monotonic() + (_GRACE_S if answer else 0)
                    self.arp_answers += [answer] if answer else []
        return self._known(ip)

    def _known(self, ip: str) -> str:
        for line in self.host.run(Path(_NEIGHBOURS).read_text).splitlines()[1:]:
            words = line.split()
            if words[0] == ip and int(words[2], 16) & 2:  # ATF_COM, include/uapi/linux/if_arp.h
                return words[3]
        return ""

    def pinged(self, payload: bytes) -> int:
        """How many of some echo requests of the client's kernel it has accepted an answer to, with the payload as it was."""
        with self.host.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as echo:
            echo.setblocking(False)
            echo.bind((self.trial.client.ip, _IDENTIFIER))
            for number in range(_PINGS):
                echo.sendto(struct.pack("!BBHHH", _ECHO_REQUEST, 0, 0, 0, number) + payload, (self.ip, 0))
            accepted, came, answered = set[int](), 0, 0
            until = time.monotonic() + _HEARD_S
            while time.monotonic() < until and len(accepted) < _PINGS:
                replies = [answer for frame, answer in self.serve() if frame[14 + 20 + 8 :] == payload]
                came, answered = came + len(replies), answered + sum(each is not None for each in replies)
                accepted |= _accepted(echo, payload)
                if replies and came >= _PINGS:
                    until = time.monotonic() + (self.grace_s if answered else 0)
            if len(accepted) < _PINGS:
                self.grace_s = _LATER_GRACE_S
            return len(accepted)


def _accepted(echo: socket.socket, payload: bytes) -> set[int]:
    found = set[int]()
    while True:
        try:
            packet = echo.recv(65536)
        except OSError:
            return found
        kind, number = struct.unpack_from("!B5xH", packet)
        if kind == _ECHO_REPLY and packet[8:] == payload:
            found.add(number)


def _run(trial: XskTrial) -> list[Row]:
    with Umem(256) as umem, XskSocket(trial.server, umem=umem, filled=128) as xsk:
        trial.at_socket(xsk)
        trial.guard(xsk)
        peer = _Peer(trial, xsk)
        rows = _arp_rows(peer)
        peer.host.run(peer.host.rtnl.send, [rtnl.add_neighbour(trial.client.ifindex, peer.ip, _MAC)])
        return rows + _echo_rows(peer) + _other_rows(peer)


def _arp_rows(peer: _Peer) -> list[Row]:
    found = peer.asked_by_arp(peer.ip)
    question = bytes(arp(peer.trial.client, peer.trial.server))
    other = question[:38] + socket.inet_aton(peer.other_ip) + question[42:]
    reply = question[:20] + b"\x00\x02" + question[22:38] + socket.inet_aton(peer.ip)
    return [
        Row(f"who has {peer.ip}? (the client's kernel asks)", _MAC, found or "nobody answers", found == _MAC, _ARP),
        Row(
            "the operation in the answer", "2", _operation(peer.arp_answers), _operation(peer.arp_answers) == "2", _ARP
        ),
        _silent(peer, f"who has {peer.other_ip}?", other, _NOT_US),
        _silent(peer, "an ARP reply", reply, _NOT_A_QUESTION),
    ]


def _operation(answers: list[bytes]) -> str:
    return str(int.from_bytes(answers[0][20:22], "big")) if answers else "none"


def _echo_rows(peer: _Peer) -> list[Row]:
    payloads = {
        "8 bytes, zeros": bytes(8),
        "33 bytes": bytes(range(1, 34)),
        "a sum that overflows": _OVERFLOWING + b"\xff" * 1398,
    }
    rows: list[Row] = []
    for words, payload in payloads.items():
        # All requests of a payload differ in their numbers, and so in their checksums.
        seen = peer.pinged(payload)
        look = _SUM if rows and rows[0].good else _ECHO
        rows.append(Row(f"ping × {_PINGS}, {words}", f"{_PINGS} answered", f"{seen} answered", seen == _PINGS, look))
    return rows


def _other_rows(peer: _Peer) -> list[Row]:
    client, server = peer.trial.client, peer.trial.server
    ours = socket.inet_aton(peer.ip)
    request, reply = bytes(icmp(client, server)), bytes(icmp(client, server, kind="reply"))
    datagram = bytes(udp(client, server))
    datagram = datagram[:30] + ours + b"\x08" + datagram[35:]  # its source port begins as an echo request would
    return [
        _silent(peer, f"a ping of {server.ip}", request, _NOT_OUR_IP),
        _silent(peer, "an echo reply to us", reply[:30] + ours + reply[34:], _NOT_A_QUESTION),
        _silent(peer, "a UDP datagram to us", datagram, _NOT_A_QUESTION),
        _silent(peer, "a bare Ethernet header", datagram[:12] + b"\x08\x00", _SHORT),
    ]


def _silent(peer: _Peer, what: str, frame: bytes, look: str) -> Row:
    answer = peer.answer_to(frame)
    return Row(what, "no answer", "no answer" if answer is None else f"{len(answer)} bytes", answer is None, look)


ANSWER_REQUESTS = register(
    Exercise(
        "answer-requests",
        "A host that is a function",
        "answer_request(frame, mac, ip) gets every frame that comes to an AF_XDP socket and returns the answer, or None. "
        "The client's kernel will look for an address that no host of the lab has, and ping it: your function is that host. "
        "Answer ARP requests for ip and echo requests to ip (IPv4 headers of 20 bytes will do). Nothing else gets an answer.",
        "answer_request",
        (
            "Begin with ARP: before it knows a MAC, the client sends no ping. Where in the frame are the operation, the asker "
            "and the address asked for? 14 bytes of Ethernet come first.",
            "ARP: operation at 20, sender's MAC and IP at 22 and 28, target's at 32 and 38. The answer: sender + mac + "
            "frame[12:20], operation 2, mac + ip, and the asker: frame[22:32].",
            "Echo: protocol 1 at byte 23, source 26, destination 30; type at 34, checksum at 36. Swap MACs and addresses: "
            "the IPv4 checksum stays right, as the sum of the words is the same.",
            "The ICMP checksum: total = int.from_bytes(frame[36:38], 'big') + 0x0800, then (total & 0xFFFF) + (total >> 16).",
        ),
        _run,
        XskTrial,
        "Python",
    )
)
