"""Runs outside the sandbox as its student: gives away a network namespace, and looks for a way to the sandbox's gate.

outside.py GIVER TAKER      paths of the two sockets; prints a line when both listen
"""

from __future__ import annotations

import contextlib
import glob
import socket
import sys

import bpfcalls as b


def listen(path: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.bind(path)
    found.listen()
    return found


def try_gates() -> str:
    """ "refused: …" where no gate can be reached, and neither a map nor a program can be had without."""
    for gate in ("/run/xdp-lab-gate", *glob.glob("/proc/[0-9]*/root/run/xdp-lab-gate")):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            line.connect(gate)
            return f"reached {gate}"
    for make in (b.create_map, lambda: b.load(b.XDP)):
        with contextlib.suppress(OSError):
            return f"made {make()}"
    return "refused: no gate, no map, no program"


def main() -> None:
    giver, taker = map(listen, sys.argv[1:3])
    print("ready", flush=True)
    with giver.accept()[0] as there, open("/proc/self/ns/net", "rb") as namespace:
        socket.send_fds(there, [b"n"], [namespace.fileno()])
    with taker.accept()[0] as there:
        there.recv(5)
        there.sendall(try_gates().encode())
    sys.stdin.read()  # stays, as the attacker's own process outside


main()
