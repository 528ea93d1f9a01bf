"""Opens a page of the sandbox in the user's own browser, which stays outside."""

from __future__ import annotations

import contextlib
import threading
import urllib.request
import webbrowser

__all__ = ["browse_when_it_answers"]

_PATIENCE_S = 60


def browse_when_it_answers(port: int, page: str) -> None:
    """Open ``page`` at 127.0.0.1:``port`` as soon as something there answers; gives up silently after a minute."""
    address = f"http://127.0.0.1:{port}/"

    def wait_and_open() -> None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(address, timeout=_PATIENCE_S).close()
            webbrowser.open(address + page)

    threading.Thread(target=wait_and_open, name="browse", daemon=True).start()
