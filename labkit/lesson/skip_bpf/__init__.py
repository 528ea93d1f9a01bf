"""Lesson 09: what the program on a packet's way to an AF_XDP socket costs, and what skipping it would buy."""

from labkit.lesson.skip_bpf.cost import SkipCost, skip_cost
from labkit.lesson.skip_bpf.modes import SkipModes, skip_modes
from labkit.lesson.skip_bpf.slots import Slots, dispatcher_slots
from labkit.lesson.skip_bpf.thread import PUBLISHED, Published, published_table
from labkit.lesson.skip_bpf.unasked import skip_flag
from labkit.lesson.skip_bpf.wanted import UDP_TO_SOCKET

__all__ = [
    "PUBLISHED",
    "UDP_TO_SOCKET",
    "Published",
    "SkipCost",
    "SkipModes",
    "Slots",
    "dispatcher_slots",
    "published_table",
    "skip_cost",
    "skip_flag",
    "skip_modes",
]
