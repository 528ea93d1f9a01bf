"""What a consumer sees: a program of the lab's own copies metadata and packet, and lets the packet go on."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import HintError, LabError
from labkit.hints.captured import Captured
from labkit.interface import Interface
from labkit.program.classifier import at_tc
from labkit.program.link import Mode
from labkit.program.program import Program
from labkit.program.ring import RingMap
from labkit.traffic.lifetime import close_with
from labkit.uapi import AttachType, ProgType

if TYPE_CHECKING:
    from labkit.lab import Lab

__all__ = ["Capture", "Place"]

Place = Literal["tc", "xdp", "cpumap", "devmap"]

_TRIED = "to capture metadata"
_MOST = 1024  # 536 bytes each, in a ring of 1 MiB
_POLL_S = 0.002


@dataclass(frozen=True)
class _Kind:
    """How the program is loaded for one of the places, and what the place is called."""

    words: str
    function: str = "capture_xdp"
    type: ProgType = ProgType.XDP
    attach_type: int = 0


_KINDS: dict[str, _Kind] = {
    "tc": _Kind("at TC ingress", "capture_tc", ProgType.SCHED_CLS, AttachType.TCX_INGRESS),
    "xdp": _Kind("in XDP"),
    "cpumap": _Kind("in a CPU map", attach_type=AttachType.XDP_CPUMAP),
    "devmap": _Kind("in a device map", attach_type=AttachType.XDP_DEVMAP),
}


class Capture:
    """Copies the metadata and the first 256 bytes of the next ``packets`` (1 to 1024), from now until ``close()``.

    ``at`` says as whom: "tc" (before other programs of TC ingress) or "xdp" at an ``interface``; "cpumap" or "devmap",
    without one, as a program for a slot: ``cpus[1] = 192, capture.program``. Every packet goes on. ``mode`` is that of
    "xdp"; ``frags`` lets the program take packets of several buffers, which a slot needs where the map's own program does.
    Raises HintError, and what loading and attaching raise.
    """

    def __init__(
        self,
        lab: Lab,
        interface: Interface | None = None,
        at: Place = "tc",
        packets: int = 16,
        *,
        mode: Mode = "native",
        frags: bool = False,
    ) -> None:
        kind = _checked(lab, interface, at, packets)
        self.where = f"{kind.words}, {interface.where}" if interface is not None else kind.words
        self.packets = packets
        self.closed = False
        self._came: list[Captured] = []
        self._copied = 0
        self._last = {"seen": 0, "lost": 0}
        self._ending = contextlib.ExitStack()
        spec = compile_source(path=lesson_directory() / "lab" / "capture_meta.c")
        self.program: Program = lab.load(
            spec,
            kind.function,
            type=kind.type,
            expected_attach_type=kind.attach_type,
            frags=frags and kind.type is ProgType.XDP,
        )
        try:
            self._ending.callback(self.program.close)
            self.program.maps["wanted"][0] = packets
            if interface is not None:
                self._attach(interface, kind, mode)
        except BaseException:
            self._ending.close()
            raise
        close_with(lab, self)

    def _attach(self, interface: Interface, kind: _Kind, mode: Mode) -> None:
        if kind.type is ProgType.XDP:
            self._ending.callback(self.program.attach(interface, mode).close)
            return
        self._ending.enter_context(at_tc(self.program, interface, first=True))

    def take(self, packets: int | None = None, timeout_s: float = 2.0) -> list[Captured]:
        """What came since the last time, oldest first: at once, or with ``packets`` as soon as so many are there.

        It waits for them ``timeout_s`` (0 or more) at the longest. Raises HintError.
        """
        wanted = 0 if packets is None else _whole("packets", packets, 0)
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not 0 <= timeout_s < 1e9:
            raise HintError(f"timeout_s can't be {timeout_s!r}.", tried=_TRIED, remedy="give seconds, 0 or more")
        until = time.monotonic() + timeout_s
        self._drain()
        while len(self._came) < wanted and not self.closed and time.monotonic() < until:
            time.sleep(_POLL_S)
            self._drain()
        came, self._came = self._came, []
        return came

    @property
    def seen(self) -> int:
        """Packets that came by, whether they were copied or not. After close: at that moment."""
        return self._count("seen")

    @property
    def lost(self) -> int:
        """Packets that were wanted, and found no room in the ring: ``take()`` makes some. After close: at that moment."""
        return self._count("lost")

    def _count(self, name: str) -> int:
        return self._last[name] if self.closed else int(self.program.maps[name][0])

    def _drain(self) -> None:
        ring = self.program.maps["captured"]
        if self.closed or not isinstance(ring, RingMap):
            return
        records = ring.drain()[: self.packets - self._copied]  # of several CPUs each may have copied one too many
        self._copied += len(records)
        self._came += [Captured.from_record(self.where, each) for each in records]

    def close(self) -> None:
        """Take the program away; what had come is kept for ``take()``. Safe to call again."""
        if self.closed:
            return
        with contextlib.suppress(LabError):  # closed by another thread, or with the lab
            self._drain()
            self._last = {name: self._count(name) for name in self._last}
        self.closed = True
        self._ending.close()

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"the first {self.packets} packets"
        return f"<capture of metadata {self.where}: {state}, {self._copied} so far>"


def _checked(lab: Any, interface: Any, at: Any, packets: Any) -> _Kind:
    """How to load for the place. Raises HintError where the four don't fit together."""
    if not isinstance(at, str) or at not in _KINDS:
        raise HintError(f"at can't be {at!r}.", tried=_TRIED, remedy="use one of " + ", ".join(_KINDS))
    _whole("packets", packets, 1)
    if not hasattr(lab, "load") or not hasattr(lab, "hosts"):
        raise HintError(f"{lab!r} is no lab.", tried=_TRIED, remedy='as Capture(lab, lab["server"]["eth0"])')
    if at in ("cpumap", "devmap"):
        if interface is not None:
            raise HintError(
                f"A program in a {at} belongs to no interface.",
                tried=_TRIED,
                remedy=f'Capture(lab, at="{at}"), and write its program into a slot',
            )
        return _KINDS[at]
    if not isinstance(interface, Interface) or interface.host.lab is not lab:
        raise HintError(
            f"{interface!r} is no interface of this lab.", tried=_TRIED, remedy='give one, as lab["server"]["eth0"]'
        )
    if at == "xdp" and (found := interface.xdp()) is not None:
        raise HintError(
            f"{interface.where} has an XDP program already: {found.program_name or found.program_id}.",
            tried=_TRIED,
            on=interface.where,
            remedy='capture at="tc" behind it, or in XDP at the interface that it redirects to',
        )
    return _KINDS[at]


def _whole(name: str, value: Any, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= _MOST:
        raise HintError(f"{name} can't be {value!r}.", tried=_TRIED, remedy=f"a whole number from {low} to {_MOST}")
    return value
