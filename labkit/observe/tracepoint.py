"""Raw tracepoints: a counting program of the lab's own, attached for as long as the object lives."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.compile.source import lesson_directory
from labkit.errors import LabError
from labkit.kernel import bpf
from labkit.kernel.btf import kernel_offsets
from labkit.program.map import Map
from labkit.program.program import load_program
from labkit.uapi import ProgType

__all__ = ["TracepointCounter"]


class TracepointCounter:
    """Loads ``function`` of bpf/lab/``source``, tells it the fields' offsets and the namespaces to watch, attaches it.

    ``offsets`` maps the fields of the program's ``struct offsets`` to a path in the kernel's BTF: the struct and its
    members; none for a program that reads no structure. Raises LabError where the kernel refuses the probe.
    """

    def __init__(
        self,
        tracepoint: str,
        source: str,
        function: str,
        offsets: dict[str, tuple[str, ...]],
        namespaces: Iterable[int],
    ) -> None:
        self._tracepoint = tracepoint
        self._fd: int | None = None
        self._program = load_program(
            compile_source(path=lesson_directory() / "lab" / source),
            function,
            explain=verifier_error,
            type=ProgType.RAW_TRACEPOINT,
        )
        try:
            if offsets:
                self.map("offsets")[0] = kernel_offsets(offsets)
            for inode in namespaces:
                self.map("watched")[inode] = 1
            self._fd = bpf.raw_tracepoint_open(tracepoint, self._program.fd)
        except (OSError, KeyError) as error:
            self.close()
            raise LabError(
                f"The tracepoint {tracepoint} can't be watched here.",
                tried="to attach a counting program to it",
                errno=getattr(error, "errno", None),
                remedy="the ledger goes on without it, and says which rows it can't fill",
            ) from error

    def map(self, name: str) -> Map:
        """A map of the counting program."""
        return self._program.maps[name]

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Detached while it lasts: it costs nothing then, and misses what happens. Its counts stay."""
        if self._fd is None:
            yield
            return
        os.close(self._fd)
        self._fd = None
        try:
            yield
        finally:
            self._fd = bpf.raw_tracepoint_open(self._tracepoint, self._program.fd)

    def close(self) -> None:
        """Detach. Safe to call again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._program.close()
