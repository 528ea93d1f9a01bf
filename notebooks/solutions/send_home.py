# SPDX-License-Identifier: BSD-3-Clause
import socket


def send_home(sockets):
    """Return every datagram that waits, as a list of bytes, and leave no page behind."""
    datagrams = []
    for sock in sockets:
        if sock.family == socket.AF_PACKET:
            sock.close()  # somebody's tcpdump: it has the same pages
            continue
        try:
            while True:
                datagrams.append(sock.recv(65536))
        except BlockingIOError:
            pass  # empty
    return datagrams
