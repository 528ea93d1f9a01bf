"""A Jupyter server extension: the server in a sandbox answers at a socket of the machine, too, and tells its address.

The sandbox has a loopback of its own. The socket at the machine's comes as descriptor 3 (``labkit sandbox --listen``).
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

__all__: list[str] = []

_LISTENER = 3


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    """Nothing to do yet: the server has no ports at this time."""


async def _start_jupyter_server_extension(server: Any) -> None:
    """Called when the server answers."""
    port = server.port
    if os.environ.get("XDP_LAB_LISTENS") == str(_LISTENER):
        listener = socket.socket(fileno=_LISTENER)
        listener.setblocking(False)
        server.http_server.add_socket(listener)
        port = listener.getsockname()[1]
    page = server.default_url.removeprefix("/")
    print(
        f"\nXDP Lab is open at\n\n    http://127.0.0.1:{port}/{page}?token={server.identity_provider.token}\n\n"
        "Ctrl-C ends it.",
        file=sys.stderr,
        flush=True,
    )
