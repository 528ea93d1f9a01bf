"""Which demos there are. Light to import: a demo's module is imported when it runs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labkit.errors import LessonError, TrafficError

if TYPE_CHECKING:
    from labkit.demo.result import DemoResult

__all__ = ["DEMOS", "MOST_PACKETS", "Demo", "run_demo"]

MOST_PACKETS = 1_000_000_000  # minutes, at the generator's speed


@dataclass(frozen=True)
class Demo:
    """A demo: ``module`` has a function ``run(packets) -> DemoResult``."""

    name: str
    summary: str
    module: str
    packets: int = 1_000_003


DEMOS = {
    demo.name: demo
    for demo in (
        Demo("drop", "IPv4 dropped by protocol, in the driver, before the stack knows of it", "labkit.demo.drop"),
        Demo("redirect", "a router sends every frame on by a device map, past its stack", "labkit.demo.redirect"),
        Demo(
            "redirect-no-peer",
            "XDP_REDIRECT for every frame, and the peer takes none: EOPNOTSUPP",
            "labkit.demo.redirect_no_peer",
        ),
        Demo("overrun", "two senders against one ring of 256 frames, through a redirect", "labkit.demo.overrun"),
        Demo("tx-no-peer", "XDP_TX for every frame, and nobody takes them back: ENXIO", "labkit.demo.tx_no_peer"),
        Demo("cpumap", "frames shared out over CPUs, with a program on each", "labkit.demo.cpumap"),
        Demo("metadata", "a note in front of each frame, read by the next host's program", "labkit.demo.metadata"),
        Demo("hints", "a program bound to its device asks the driver for every packet's hash", "labkit.demo.hints"),
        Demo("generic-hints", "metadata that says which format it is, decoded by BTF", "labkit.demo.generic_hints"),
        Demo("xsk", "every packet to a program of yours, past the stack: AF_XDP", "labkit.demo.xsk"),
        Demo("buffers", "pages of frames stay out until a socket is read, then go home", "labkit.demo.buffers"),
    )
}


def run_demo(name: str, *, packets: int | None = None) -> DemoResult:
    """Run a demo in a lab of its own, which is gone afterwards. Raises LessonError, TrafficError, PrivilegeError."""
    if name not in DEMOS:
        raise LessonError(
            f"There is no demo {name!r}.", tried="to run a demo", remedy="the demos are: " + ", ".join(DEMOS)
        )
    demo = DEMOS[name]
    count = demo.packets if packets is None else packets
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_PACKETS:
        raise TrafficError(
            f"{count!r} packets can't be sent.",
            tried=f"to run the demo {name}",
            remedy=f"give a whole number from 1 to {MOST_PACKETS:,}",
        )
    result: DemoResult = importlib.import_module(demo.module).run(count)
    return result
