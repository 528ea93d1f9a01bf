"""The programs that count the pages of page pools, and two that read a pool's own numbers when asked."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import threading
from collections.abc import Iterable
from functools import partial
from typing import Any

from labkit.buffers.fields import device_offsets, pool_fields
from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.compile.source import lesson_directory
from labkit.errors import FeatureError, LabError
from labkit.interface import Interface
from labkit.kernel import bpf
from labkit.kernel.bpf_info import missed_runs
from labkit.kernel.gate import privilege_remedy, tracing_withheld
from labkit.program.map import Map
from labkit.program.program import Program, load_program
from labkit.uapi import ProgType

__all__ = ["PoolProbes"]

# The order matters: a program that is told of a pool's end finds the rows that those before it made.
_EVENTS = ("mem_disconnect", "mem_connect", "page_pool_release", "page_pool_state_release", "page_pool_state_hold")
_TIMES = 50  # to read again while pools end


class PoolProbes:
    """Attached as long as the object lives, to the pools of ``namespaces`` (inodes).

    Raises FeatureError where the kernel, or whoever started the sandbox, lets no tracing program in.
    """

    def __init__(self, namespaces: Iterable[int]) -> None:
        self._maps: dict[str, Map] = {}
        self._made = contextlib.ExitStack()
        self._lock = threading.Lock()  # the programs that read have one place for their answer
        try:
            programs = [(each, self._load("page_pools.c", f"on_{each}")) for each in _EVENTS]
            self._pool, self._queue = (self._load("page_pool_peek.c", name) for name in ("peek_pool", "peek_queue"))
            self._maps["offsets"][0] = device_offsets()
            self._maps["fields"][0] = pool_fields()
            for inode in namespaces:
                self._maps["watched"][inode] = 1
            self._counting = [program.fd for name, program in programs if "state" in name]
            for tracepoint, program in programs:
                self._made.callback(os.close, bpf.raw_tracepoint_open(tracepoint, program.fd))
        except (LabError, OSError, KeyError) as error:
            self.close()
            raise _no_probes(error) from error
        except BaseException:
            self.close()
            raise

    def _load(self, source: str, function: str) -> Program:
        program = load_program(
            compile_source(path=lesson_directory() / "lab" / source),
            function,
            explain=verifier_error,
            type=ProgType.RAW_TRACEPOINT,
            reuse={name: partial(os.dup, each.fd) for name, each in self._maps.items()},
        )
        self._made.callback(program.close)
        for name, each in program.maps.items():
            self._maps.setdefault(name, each)
        return program

    def rows(self) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, Any]], list[tuple[Any, dict[str, int]]]]:
        """(pools alive, the last that ended, sums of all that ended), of one moment; pools by the kernel's number."""
        for _ in range(_TIMES):
            done = self._maps["pool_ends"][1]
            alive, gone = self._maps["pool_rows"].read(), self._maps["pools_gone"].read()
            sums = list(self._maps["pool_sums"].items())
            if self._maps["pool_ends"][0] == done:
                break
        return alive, gone, sums

    @property
    def unattributed(self) -> int:
        """Events for which there was no row left."""
        return int(self._maps["no_room"][0])

    @property
    def missed_runs(self) -> int:
        """How often the kernel left out a program that counts pages, for one that it had interrupted."""
        return sum(missed_runs(fd) for fd in self._counting)

    def pool(self, ident: int) -> dict[str, int] | None:
        """The own numbers of a pool that has a row; None where it has ended."""
        return self._ask(self._pool, struct.pack("=Q", ident))

    def queue(self, interface: Interface, number: int) -> dict[str, int] | None:
        """The numbers of a veth's receive queue and its pool (``id`` 0: none); None where there is no such queue."""
        context = struct.pack("=QQ", interface.ifindex, number)
        return interface.run(self._ask, self._queue, context)

    def _ask(self, program: Program, context: bytes) -> dict[str, int] | None:
        with self._lock:
            answer = self._maps["pool_peeks"]
            before = answer[0]["asked"]
            for _ in range(_TIMES):
                bpf.prog_test_run(program.fd, b"", repeat=0, context=context)
                found: dict[str, int] = answer[0]
                if not found["moved"]:
                    break
            return found if found["asked"] != before else None

    def close(self) -> None:
        """Detach all. Safe to call again."""
        self._made.close()


def _no_probes(error: LabError | OSError | KeyError) -> FeatureError:
    number = getattr(error, "errno", None)
    withheld = tracing_withheld()
    remedy = "start the sandbox without --without-tracing" if withheld else privilege_remedy()
    if number not in (errno.EPERM, errno.EACCES) and not withheld:
        remedy = "labkit doctor tells what this kernel lacks"
    return FeatureError(
        "Whoever started this sandbox withheld tracing programs." if withheld else "Page pools can't be watched here.",
        tried="to count the pages of page pools by the kernel's tracepoints",
        errno=number,
        detail="" if withheld else str(error),
        remedy=remedy,
    )
