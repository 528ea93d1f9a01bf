"""Messages between the notebook and the compiling child: a length, then JSON; bytes travel as
base64.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

__all__ = ["Closed", "receive", "send"]

_LENGTH = struct.Struct("=I")
_MAX_BYTES = 64 << 20


class Closed(Exception):
    """The other end is gone."""


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Sends one message. Raises Closed where the other end is gone, TimeoutError by the socket's
    timeout.
    """
    body = json.dumps(message).encode()
    try:
        connection.sendall(_LENGTH.pack(len(body)) + body)
    except (BrokenPipeError, ConnectionResetError) as cause:
        raise Closed from cause


def receive(connection: socket.socket) -> dict[str, Any]:
    """The next message. Raises Closed at its end, TimeoutError by the socket's timeout, ValueError
    for nonsense.
    """
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if length > _MAX_BYTES:
        raise ValueError(f"a message of {length} bytes")
    message = json.loads(_exactly(connection, length))
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        try:
            part = connection.recv(length - len(data))
        except ConnectionResetError as cause:
            raise Closed from cause
        if not part:
            raise Closed
        data += part
    return bytes(data)
