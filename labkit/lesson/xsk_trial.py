"""A Python function on trial at an AF_XDP socket: client ── server, in a lab called "check"."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import StateError
from labkit.lab import Lab
from labkit.lesson.python_answer import AnswerError, called
from labkit.topology import Topology
from labkit.xsk import XskSocket

__all__ = ["XskTrial"]

_PATIENCE_S = 15.0


class XskTrial:
    """Calls the function. One that goes round for ever is stopped: its socket is closed after some seconds."""

    def __init__(self, function: Callable[..., Any], _: str | None = None) -> None:
        self._function = function
        self._guard: threading.Timer | None = None
        self.lab = Lab(Topology.pair(), name="check")
        self.client, self.server = self.lab["client"]["eth0"], self.lab["server"]["eth0"]

    def at_socket(self, xsk: XskSocket) -> None:
        """Let the server's program give every packet to ``xsk``."""
        program = self.lab.load(compile_source(path=lesson_directory() / "to_socket.c"))
        program.attach(self.server)
        program.maps["sockets"][0] = xsk

    def guard(self, xsk: XskSocket) -> None:
        """Close the socket after a while: who waits at it for ever gets an error."""
        self._guard = threading.Timer(_PATIENCE_S, xsk.close)
        self._guard.start()

    def call(self, *arguments: object) -> Any:
        """What the function returns. Raises AnswerError."""
        try:
            return called("", self._function, *arguments)
        except AnswerError as error:
            if isinstance(error.__cause__, StateError) and self._guard is not None and not self._guard.is_alive():
                raise AnswerError(
                    f"Your function did not return within {_PATIENCE_S:.0f} seconds.",
                    tried="to call your function",
                    remedy="it is called again and again: do what can be done now, and return. A loop that waits for "
                    "something needs an end",
                ) from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._guard is not None:
            self._guard.cancel()
            self._guard.join()
        self.lab.close()
