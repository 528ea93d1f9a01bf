"""Rows about the sandbox this process is in: whom the machine sees, what may be loaded, what stays outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from labkit.doctor.machine import in_user_namespace
from labkit.doctor.report import Row
from labkit.kernel import features
from labkit.kernel.features import Feature
from labkit.kernel.gate import in_sandbox, tracing_withheld

__all__ = ["sandbox_rows"]

_LIBRARY = "xdp-lab-gate"
# What a sandbox has none of, and what that means for a lesson.
_OUTSIDE: tuple[tuple[str, Callable[[], Feature], str], ...] = (
    ("look-up by id", features.object_ids, "a program of somebody else's is known by its number, not by its name"),
    ("kernel functions", features.kernel_functions, "no kprobe and no fentry; tracepoints go by BTF"),
    ("event files", features.event_files, "BCC's TRACEPOINT_PROBE finds no format; raw tracepoints need none"),
    ("metadata hints", features.bound_program, "the kernel binds no program to a device for a token; as root it does"),
    ("large buffers", features.large_buffers, "a queue that nobody reads holds what net.core.rmem_max allows"),
)


def sandbox_rows() -> list[Row]:
    """Nothing outside a sandbox. Inside: what may be loaded, by whom, what is withheld, and one row for each limit."""
    if not in_user_namespace():
        return []
    return list(_rows(Path("/proc/self/uid_map").read_text()))


def _rows(uid_map: str) -> Iterator[Row]:
    yield Row("sandbox", "note", f"the machine sees user {uid_map.split()[1]}, without privilege", needed=False)
    if not in_sandbox():
        yield Row("gate", "missing", "no gate to load programs by", "leave this user namespace, and start ./env/lab")
        return
    withheld = tracing_withheld()
    yield Row("gate", "ok", "loads XDP and TC programs" if withheld else "loads XDP, TC and tracing programs")
    if withheld:
        yield Row("tracing", "note", "withheld by whoever started the sandbox: ledgers name fewer losses", needed=False)
    yield _bcc()
    for name, probe, meaning in _OUTSIDE:
        if not probe():
            yield Row(f"outside: {name}", "note", f"not in a sandbox: {meaning}", needed=False)


def _bcc() -> Row:
    if _LIBRARY in Path("/proc/self/maps").read_text():
        return Row("BCC's own loader", "ok", "goes through the gate", needed=False)
    remedy = "sudo apt-get install gcc libc6-dev, then ./env/run true, which builds what leads it to the gate"
    return Row("BCC's own loader", "degraded", "is refused; labkit's goes through the gate", remedy, needed=False)
