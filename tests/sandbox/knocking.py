"""Runs inside a sandbox: knocks at its gate with rubbish, and looks whether it still makes what it should.

Prints one JSON object: how often each errno was the answer, and the map and program made afterwards.
"""

from __future__ import annotations

import collections
import errno
import json
import os
import random
import socket
import struct

import bpfcalls as b

GATE = "/run/xdp-lab-gate"
ROUNDS = 1500


def line() -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    found.settimeout(30)
    found.connect(GATE)
    return found


def parcel(data: bytes, size: int | None = None) -> int:
    descriptor = os.memfd_create("rubbish")
    os.write(descriptor, data)
    if size is not None:
        os.ftruncate(descriptor, size)
    return descriptor


def ask(to: socket.socket, descriptors: list[int], word: bytes = b"make") -> str:
    """The gate's answer to a request: the errno's name, "made", or "silence"."""
    socket.send_fds(to, [word], descriptors)
    answer, made, _, _ = socket.recv_fds(to, 12, 8)
    for descriptor in made:
        os.close(descriptor)
    if len(answer) < 12:
        return "silence"
    number = struct.unpack_from("=i", answer)[0]
    return errno.errorcode.get(number, str(number)) if number else "made"


def rubbish(chance: random.Random) -> bytes:
    """A request that is wrong somewhere: of random bytes, or a good head with a body that doesn't fit it."""
    if chance.random() < 0.3:
        return chance.randbytes(chance.randrange(0, 400))
    command = chance.choice([0, 5, 18, 5, 5, 1, 9, 36, 99, 2**31])
    head = struct.pack(
        "=IIII",
        command,
        chance.choice([0, 72, 160, 2**20, 2**32 - 1]),
        chance.choice([0, 1, 4, 10**6]),
        chance.choice([0, 1, 5, 10**8]),
    )
    body = bytearray(chance.randbytes(chance.choice([0, 16, 72, 160, 700])))
    if len(body) >= 8 and chance.random() < 0.7:
        struct.pack_into("=II", body, 0, chance.choice([2, 3, 6, 17, 26]), chance.randrange(0, 2000))
    return head + bytes(body)


def main() -> None:
    chance = random.Random(20161129)
    answers: collections.Counter[str] = collections.Counter()
    to = line()
    for _ in range(ROUNDS):
        given = parcel(rubbish(chance))
        more = [given] * chance.choice([0, 0, 1, 3])
        answers[ask(to, [given, *more])] += 1
        os.close(given)
    for given in (
        parcel(b"", 0),
        parcel(b"x" * 16, 1 << 40),
        os.open("/dev/null", os.O_RDWR),
        os.pipe()[0],
        os.open("/", os.O_RDONLY),
    ):
        with line() as fresh:
            answers[ask(fresh, [given])] += 1
    lines = [line() for _ in range(30)]  # some keep a line open and say nothing
    with line() as fresh:
        fresh.send(b"what")
        tracing = fresh.recv(16).decode()
    made = b.create_map(by_gate=True), b.load(b.XDP, by_gate=True)
    refused = ""
    try:
        b.load(b.XDP, b.helper(4), by_gate=True)
    except OSError as error:
        refused = errno.errorcode[error.errno or 0]
    print(
        json.dumps({"answers": answers, "tracing": tracing, "made": len(made), "refused": refused, "lines": len(lines)})
    )


main()
