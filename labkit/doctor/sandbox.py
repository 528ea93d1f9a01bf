"""Rows about the sandbox this process is in: whom the machine sees, what its token allows, what stays outside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from labkit.doctor.machine import in_user_namespace
from labkit.doctor.report import Row
from labkit.kernel import features
from labkit.kernel.features import Feature
from labkit.kernel.token import token

__all__ = ["delegated_programs", "sandbox_rows"]

_LIBRARY = "xdp-lab-token"
_NAMES = {"xdp": "XDP", "sched_cls": "TC", "raw_tracepoint": "tracing"}
# What a sandbox has none of, and what that means for a lesson.
_OUTSIDE: tuple[tuple[str, Callable[[], Feature], str], ...] = (
    ("look-up by id", features.object_ids, "a program of somebody else's is known by its number, not by its name"),
    ("kernel functions", features.kernel_functions, "no kprobe and no fentry; tracepoints go by BTF"),
    ("event files", features.event_files, "BCC's TRACEPOINT_PROBE finds no format; raw tracepoints need none"),
    ("large buffers", features.large_buffers, "a queue that nobody reads holds what net.core.rmem_max allows"),
)


def sandbox_rows() -> list[Row]:
    """Nothing outside a sandbox. Inside: one row for the token, one for what it withholds, one for each limit."""
    if not in_user_namespace():
        return []
    return list(_rows(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/uid_map").read_text()))


def delegated_programs(mountinfo: str) -> set[str]:
    """Types of program that tokens of the bpffs at /sys/fs/bpf allow, by the kernel's names; the last mount counts."""
    mounts = [line for line in mountinfo.splitlines() if " /sys/fs/bpf " in line]
    found = re.search(r"delegate_progs=([\w:]+)", mounts[-1]) if mounts else None
    return set(found[1].split(":")) if found else set()


def _rows(mountinfo: str, uid_map: str) -> Iterator[Row]:
    yield Row("sandbox", "note", f"the machine sees user {uid_map.split()[1]}, without privilege", needed=False)
    if token() is None:
        yield Row("BPF token", "missing", "none to be had", "leave this user namespace, and start ./env/lab")
        return
    programs = delegated_programs(mountinfo)
    named = ", ".join(name for key, name in _NAMES.items() if key in programs or "any" in programs)
    yield Row("BPF token", "ok", f"for {named} programs")
    if not programs & {"raw_tracepoint", "any"}:
        yield Row("tracing", "note", "withheld by whoever started the sandbox: ledgers name fewer losses", needed=False)
    yield _bcc()
    for name, probe, meaning in _OUTSIDE:
        if not probe():
            yield Row(f"outside: {name}", "note", f"not in a sandbox: {meaning}", needed=False)


def _bcc() -> Row:
    if _LIBRARY in Path("/proc/self/maps").read_text():
        return Row("BCC's own loader", "ok", "gets the token", needed=False)
    remedy = "sudo apt-get install gcc libc6-dev, then ./env/run true, which builds what lends it the token"
    return Row("BCC's own loader", "degraded", "has no token; labkit's has", remedy, needed=False)
