"""The probes of one packet's life: a program at each of some twenty tracepoints, all writing into one map.

Tracepoints are the whole machine's: only the lab's namespaces and its CPU maps count. What this kernel lacks costs one
kind of event and one line in ``notes``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.compile.source import lesson_directory
from labkit.errors import FeatureError, LabError, kernel_word
from labkit.kernel import bpf
from labkit.kernel.btf import kernel_offsets
from labkit.kernel.gate import privilege_remedy, tracing_withheld
from labkit.program.map import Map
from labkit.program.program import Program, load_program
from labkit.uapi import ProgType

__all__ = ["TRACEPOINTS", "LifeProbes", "Mark", "RawEvent"]

_XDP = ("xdp_redirect", "xdp_redirect_err", "xdp_exception", "xdp_devmap_xmit", "xdp_bulk_tx")
_CPUMAP = ("xdp_cpumap_enqueue", "xdp_cpumap_kthread")
_SKB = (
    "net_dev_queue",
    "net_dev_start_xmit",
    "netif_rx",
    "napi_gro_receive_entry",
    "netif_receive_skb",
    "kfree_skb",
    "consume_skb",
    "icmp_send",
    "tcp_send_reset",
)
_STACK = ("napi_poll", "sk_data_ready", "sock_recv_length")
TRACEPOINTS = (*_XDP, *_CPUMAP, *_SKB, *_STACK)  # in the order of enum life_kind, bpf/lab/life.h
_FAMILIES = {"life_xdp.c": _XDP, "life_cpumap.c": _CPUMAP, "life_skb.c": _SKB, "life_stack.c": _STACK}

# Where the fields are that the programs read: struct, then members.
_OFFSETS = {
    "dev_net": ("net_device", "nd_net", "net"),
    "dev_ifindex": ("net_device", "ifindex"),
    "net_inum": ("net", "ns", "inum"),
}
_FIELDS = {
    "skb_dev": ("sk_buff", "dev"),
    "skb_sk": ("sk_buff", "sk"),
    "skb_iif": ("sk_buff", "skb_iif"),
    "skb_head": ("sk_buff", "head"),
    "skb_tail": ("sk_buff", "tail"),
    "skb_mac_header": ("sk_buff", "mac_header"),
    "skb_network_header": ("sk_buff", "network_header"),
    "sock_net": ("sock", "__sk_common", "skc_net", "net"),
    "sock_family": ("sock", "__sk_common", "skc_family"),
    "sock_protocol": ("sock", "sk_protocol"),
    "sock_num": ("sock", "__sk_common", "skc_num"),
    "prog_aux": ("bpf_prog", "aux"),
    "aux_id": ("bpf_prog_aux", "id"),
    "napi_dev": ("napi_struct", "dev"),
}
_WORDS_OF_MARK = 2  # of 8 bytes


@dataclass(frozen=True)
class Mark:
    """How the packet is told from others: 16 ``bytes`` that begin ``at`` bytes from the frame's start.

    ``l2`` is the length of the headers before the network header, ``quoted`` the length of a frame whose ICMP error
    quotes the packet to its end.
    """

    bytes: bytes
    at: int
    l2: int
    quoted: int


@dataclass(frozen=True)
class RawEvent:
    """One event as a probe wrote it.

    ``place`` and ``other`` are (inode of the namespace, ifindex), 0 where unknown.
    ``object`` tells one sk_buff or socket from another, 0 for neither; ``program`` is an id; ``args`` are the tracepoint's,
    see bpf/lab/life_*.c.
    """

    time_ns: int
    cpu: int
    what: str
    object: int
    place: tuple[int, int]
    other: tuple[int, int]
    marked: bool
    program: int
    args: tuple[int, ...]


class LifeProbes:
    """Attached as long as the object lives; use it as a context manager.

    Raises FeatureError where the kernel, or whoever started the sandbox, lets no tracing program in.
    """

    def __init__(self, namespaces: Iterable[int], cpumaps: Iterable[int], mark: Mark) -> None:
        self.notes: list[str] = []
        self._shared: dict[str, Map] = {}
        self._made = contextlib.ExitStack()
        self._attached = 0
        try:
            for source, tracepoints in _FAMILIES.items():
                for tracepoint in tracepoints:
                    self._open(source, tracepoint)
            self._tell(namespaces, cpumaps, mark)
        except (LabError, OSError, KeyError) as error:
            self.close()
            raise _no_probes(error) from error
        except BaseException:
            self.close()
            raise
        if not self._attached:
            self.close()
            raise _no_probes(LabError("No tracepoint of a packet's life is there."))

    def _open(self, source: str, tracepoint: str) -> None:
        program = load_program(
            compile_source(path=lesson_directory() / "lab" / source),
            f"on_{tracepoint}",
            explain=verifier_error,
            type=ProgType.RAW_TRACEPOINT,
            reuse={name: partial(os.dup, each.fd) for name, each in self._shared.items()},
        )
        self._made.callback(program.close)
        for name, each in program.maps.items():
            self._shared.setdefault(name, each)
        self._attach(program, tracepoint)

    def _attach(self, program: Program, tracepoint: str) -> None:
        try:
            self._made.callback(os.close, bpf.raw_tracepoint_open(tracepoint, program.fd))
            self._attached += 1
        except OSError as error:
            if error.errno == errno.EPERM:
                raise
            self.notes.append(
                f"The tracepoint {tracepoint} can't be watched here ({kernel_word(error.errno or 0)}): such events are missing."
            )

    def _tell(self, namespaces: Iterable[int], cpumaps: Iterable[int], mark: Mark) -> None:
        """Where the fields are and what to watch. The namespaces last: until then no event counts."""
        words = [int.from_bytes(mark.bytes[8 * i : 8 * i + 8], sys.byteorder) for i in range(_WORDS_OF_MARK)]
        self._shared["life_mark"][0] = {"words": words, "at": mark.at, "l2": mark.l2, "quoted": mark.quoted}
        self._shared["offsets"][0] = kernel_offsets(_OFFSETS)
        self._shared["fields"][0] = kernel_offsets(_FIELDS)
        for ident in cpumaps:
            self._shared["cpumaps"][ident] = 1
        for inode in namespaces:
            self._shared["watched"][inode] = 1

    @property
    def lost(self) -> int:
        """Events for which there was no room."""
        return int(self._shared["life_lost"][0])

    def read(self) -> list[RawEvent]:
        """The events so far, in order of time."""
        found = self._shared["life_events"].read().items()
        return sorted((_event(key, value) for key, value in found), key=lambda each: each.time_ns)

    def close(self) -> None:
        """Detach all. Safe to call again."""
        self._made.close()

    def __enter__(self) -> LifeProbes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _event(key: tuple[int, int, int], value: Mapping[str, Any]) -> RawEvent:
    time_ns, cpu, kind = key
    at, other = value["at"], value["other"]
    return RawEvent(
        time_ns,
        cpu,
        TRACEPOINTS[kind],
        value["object"],
        (at["netns"], at["ifindex"]),
        (other["netns"], other["ifindex"]),
        bool(value["marked"]),
        value["program"],
        tuple(value["args"]),
    )


def _no_probes(error: LabError | OSError | KeyError) -> FeatureError:
    number = getattr(error, "errno", None)
    withheld = tracing_withheld()
    message = "Whoever started this sandbox withheld tracing programs." if withheld else "No tracing program runs here."
    remedy = "start the sandbox without --without-tracing" if withheld else privilege_remedy()
    if number != errno.EPERM and not withheld:
        remedy = (
            "labkit doctor tells what this kernel lacks; lk.capture and lab.ledger() show a packet's way without it"
        )
    return FeatureError(
        message,
        tried="to follow a packet by the kernel's tracepoints",
        errno=number,
        detail="" if number == errno.EPERM or withheld else str(error),
        remedy=remedy,
    )
