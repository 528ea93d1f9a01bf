"""What the running kernel can do: tried once a process, then remembered. Probe, never compare versions.

if not features.has_map_type(MapType.XSKMAP): ...
found = features.tracepoint("xdp_redirect_err")     # a Feature: true or false, with the kernel's word
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from labkit.errors import LabError
from labkit.kernel.probes import device, objects, outside, seccomp
from labkit.uapi import MapType

__all__ = [
    "Feature",
    "adjust_meta",
    "af_xdp",
    "bound_program",
    "bpf_syscall",
    "btf",
    "drop_reasons",
    "event_files",
    "forget",
    "generic_xdp",
    "has_map_type",
    "has_tracepoint",
    "jit",
    "kernel_functions",
    "large_buffers",
    "live_frames",
    "map_type",
    "native_xdp",
    "network_namespaces",
    "object_ids",
    "rx_metadata",
    "tcx",
    "tracepoint",
    "user_notification",
    "veth",
    "xdp_features",
]

_lock = threading.RLock()


@dataclass(frozen=True)
class Feature:
    """The outcome of a probe: true where the thing is there; ``detail`` for people; the kernel's errno where it refused."""

    present: bool
    detail: str
    errno: int | None = None

    def __bool__(self) -> bool:
        return self.present

    @property
    def refused(self) -> bool:
        """Whether the kernel said no to this process, which tells nothing of what it can do."""
        return self.errno in (errno.EPERM, errno.EACCES)


def _tried(probe: Callable[..., str], *arguments: Any) -> Feature:
    try:
        return Feature(True, probe(*arguments))
    except LabError as error:
        return Feature(False, error.message, error.errno)
    except OSError as error:
        return Feature(False, error.strerror or str(error), error.errno)


@cache
def _remembered(probe: Callable[..., str], *arguments: Any) -> Feature:
    return _tried(probe, *arguments)


def _once(probe: Callable[..., str], *arguments: Any) -> Feature:
    with _lock:  # two threads that ask at once try it once
        return _remembered(probe, *arguments)


@cache
def _in_namespace() -> dict[str, Feature]:
    """All that is tried in a namespace of its own, in one go: making one costs more than the probes."""
    found: dict[str, Feature] = {}
    try:
        with device.namespace() as thread:
            found["namespace"] = Feature(True, "one made and left")
            thread.run(_on_thread, found)
    except LabError as error:
        found.setdefault("namespace", Feature(False, error.message, error.errno))
    return found


def _on_thread(found: dict[str, Feature]) -> None:
    for name, probe in device.ON_NAMESPACE.items():
        found[name] = _tried(probe)
    try:
        with device.veth_pair() as ifindex:
            found["veth"] = Feature(True, "a pair made")
            for name, on_device in device.ON_DEVICE.items():
                found[name] = _tried(on_device, ifindex)
    except OSError as error:
        found.setdefault("veth", Feature(False, error.strerror or str(error), error.errno))


def _from_namespace(name: str) -> Feature:
    with _lock:
        found = _in_namespace()
    for name_or_reason in (name, "veth", "namespace"):
        if name_or_reason in found:
            return found[name_or_reason]
    return Feature(False, "not tried")


def forget() -> None:
    """Try everything again when next asked (for tests, and after a change of privilege)."""
    with _lock:
        _remembered.cache_clear()
        _in_namespace.cache_clear()


os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.RLock()))


def bpf_syscall() -> Feature:
    """bpf(2) answers, and this process may use it."""
    return _once(objects.syscall)


def jit() -> Feature:
    """Programs are compiled to machine code."""
    return _once(objects.jit)


def btf() -> Feature:
    """The kernel's type information can be read."""
    return _once(objects.btf)


def map_type(kind: MapType) -> Feature:
    """Maps of this type can be made. Raises ValueError for a type that can't be probed alone (maps of maps, storage)."""
    return _once(objects.map_type, kind)


def has_map_type(kind: MapType) -> bool:
    """Whether maps of this type can be made."""
    return map_type(kind).present


def tracepoint(name: str) -> Feature:
    """A program can be attached to the raw tracepoint ``name``."""
    return _once(objects.tracepoint, name)


def has_tracepoint(name: str) -> bool:
    """Whether a program can be attached to the raw tracepoint ``name``."""
    return tracepoint(name).present


def drop_reasons() -> Feature:
    """The kernel names the reasons for which it drops packets."""
    return _once(objects.drop_reasons)


def object_ids() -> Feature:
    """Programs of others can be looked up by id."""
    return _once(outside.object_ids)


def kernel_functions() -> Feature:
    """Programs can be attached to kernel functions (kprobes)."""
    return _once(outside.kernel_functions)


def event_files() -> Feature:
    """The kernel's trace events can be listed and read as files."""
    return _once(outside.event_files)


def large_buffers() -> Feature:
    """Receive buffers beyond net.core.rmem_max."""
    return _once(outside.large_buffers)


def user_notification() -> Feature:
    """A thread can be watched by seccomp user notification (compiling needs it)."""
    return _once(seccomp.user_notification)


def network_namespaces() -> Feature:
    """This process may make network namespaces."""
    return _from_namespace("namespace")


def veth() -> Feature:
    """There are veth pairs."""
    return _from_namespace("veth")


def native_xdp() -> Feature:
    """veth runs XDP programs in the driver."""
    return _from_namespace("native_xdp")


def generic_xdp() -> Feature:
    """The network stack runs XDP programs for any device."""
    return _from_namespace("generic_xdp")


def xdp_features() -> Feature:
    """Netlink tells what a device can do with XDP."""
    return _from_namespace("xdp_features")


def rx_metadata() -> Feature:
    """XDP programs on veth can ask for hints (hash, timestamp, VLAN tag)."""
    return _from_namespace("rx_metadata")


def bound_program() -> Feature:
    """Programs can be bound to a device, as those that ask for hints must be."""
    return _from_namespace("bound_program")


def adjust_meta() -> Feature:
    """An XDP program may move the place where a packet's metadata begins (bpf_xdp_adjust_meta)."""
    return _once(objects.adjust_meta)


def live_frames() -> Feature:
    """A test run carries verdicts out: the in-kernel generator works."""
    return _from_namespace("live_frames")


def tcx() -> Feature:
    """TC programs can be attached by a link."""
    return _from_namespace("tcx")


def af_xdp() -> Feature:
    """An AF_XDP socket binds to veth in copy mode."""
    return _from_namespace("af_xdp")
