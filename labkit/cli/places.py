"""Labs of this machine, found by the registry, and the way into their hosts."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labkit import registry
from labkit.errors import LabError, TopologyError
from labkit.registry import HostRecord, Record

__all__ = ["LabPlace", "all_labs", "enter"]

_GONE = "(gone)"


@dataclass(frozen=True)
class LabPlace:
    """A lab: its process, whether that runs, and for each host the command that opens a shell in it."""

    name: str
    pid: int
    alive: bool
    hosts: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        hosts = [{"name": name, "enter": command} for name, command in self.hosts.items()]
        return {"lab": self.name, "pid": self.pid, "alive": self.alive, "hosts": hosts}


def all_labs() -> list[LabPlace]:
    """Every lab that the registry knows, those of dead processes included."""
    found = []
    for record in registry.labs():
        alive = record.alive
        hosts = {host.name: shlex.join(_nsenter(record, host)) if alive else _GONE for host in record.hosts}
        found.append(LabPlace(record.lab, record.pid, alive, hosts))
    return found


def _namespace(record: Record, host: HostRecord) -> str:
    return f"/proc/{record.pid}/task/{host.tid}/ns/net"


def _nsenter(record: Record, host: HostRecord) -> list[str]:
    return ["nsenter", f"--net={_namespace(record, host)}"]


def enter(lab: str, host: str, words: list[str]) -> int:
    """Run a command (a shell where ``words`` is empty) in a host of a lab, and return its exit status.

    Raises TopologyError where lab or host isn't there, LabError where the command can't be run.
    """
    record = _record(lab)
    place = _host(record, host)
    words = words[1:] if words[:1] == ["--"] else words
    command = [*_nsenter(record, place), *(words or [os.environ.get("SHELL") or "/bin/sh"])]
    with _interrupts_left_to_child():
        try:
            status = subprocess.call(command, env={**os.environ, "XDP_LAB_HOST": f"{record.lab}/{host}"})
        except OSError as error:
            raise LabError(
                "nsenter can't be started.",
                tried="to run a command in a host",
                on=host,
                errno=error.errno,
                remedy="sudo apt-get install util-linux",
            ) from error
    return 128 - status if status < 0 else status


@contextlib.contextmanager
def _interrupts_left_to_child() -> Iterator[None]:
    """Ctrl-C goes to everyone at the terminal; the command decides, and we wait for it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _record(lab: str) -> Record:
    records = [record for record in registry.labs() if record.alive]
    found = [record for record in records if lab in (record.lab, f"{record.lab}.{record.pid}")]
    if len(found) == 1:
        return found[0]
    if found:
        raise TopologyError(
            f"{len(found)} processes have a lab called {lab}.",
            tried="to find a lab",
            remedy="name one of " + ", ".join(f"{record.lab}.{record.pid}" for record in found),
        )
    names = ", ".join(dict.fromkeys(record.lab for record in records))
    raise TopologyError(
        f"There is no lab {lab!r} on this machine.",
        tried="to find a lab",
        remedy=f"the labs are: {names}" if names else "start one: run the cell that calls lk.Lab(…)",
    )


def _host(record: Record, name: str) -> HostRecord:
    for host in record.hosts:
        if host.name == name:
            return host
    raise TopologyError(
        f"The lab {record.lab} has no host {name!r}.",
        tried="to find a host",
        on=record.lab,
        remedy="its hosts are " + ", ".join(host.name for host in record.hosts),
    )
