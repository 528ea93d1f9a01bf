"""A sandbox whose command is talked to line by line."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, BinaryIO

from helpers import DEADLINE_S, ENVIRONMENT

from labkit.sandbox import Sandbox, start
from labkit.sandbox.ground import Ground


@dataclass
class Talk:
    """A sandbox, and the pipes to its standard input and output."""

    box: Sandbox
    to: BinaryIO
    back: BinaryIO

    def say(self, line: str) -> None:
        """Write a line to its standard input."""
        self.to.write(line.encode() + b"\n")
        self.to.flush()

    def hear(self) -> str:
        """The next line of its standard output, without its end; "" where there is none any more."""
        return read_line(self.back)


def read_line(stream: IO[bytes]) -> str:
    """A line of an unbuffered stream; fails after the deadline."""
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([stream], [], [], DEADLINE_S)[0]:
            raise AssertionError(f"no line within {DEADLINE_S:g} s, only {line!r}")
        more = os.read(stream.fileno(), 1)
        if not more:
            break
        line += more
    return line.decode().rstrip("\n")


@contextlib.contextmanager
def talk(
    words: Sequence[str],
    *,
    user: str | None = None,
    ground: Ground | None = None,
    errors: int = 2,
    environment: dict[str, str] | None = None,
) -> Iterator[Talk]:
    """A sandbox that ends at the end of the block."""
    (source, to), (back, sink) = os.pipe(), os.pipe()
    with contextlib.ExitStack() as stack:
        opened = (
            stack.enter_context(os.fdopen(to, "wb", buffering=0)),
            stack.enter_context(os.fdopen(back, "rb", buffering=0)),
        )
        try:
            box = start(
                words,
                user=user,
                streams=(source, sink, errors),
                environment=environment or ENVIRONMENT,
                directory="/",
                ground=ground,
            )
        finally:
            os.close(source)
            os.close(sink)
        yield Talk(stack.enter_context(box), *opened)
