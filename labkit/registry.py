"""Which labs exist, in files of a state directory: so that a terminal finds a lab's hosts, and a killed process's rest is found.

A lab's namespaces have no names; what can outlive a killed process is its record and a foreign process that had
entered one of its namespaces. Both are found by this registry, and a namespace is recognised by its cookie, which no
other ever had.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from labkit.errors import LabError, resources
from labkit.kernel.netns import namespace_cookie_of, namespace_inode

__all__ = [
    "HostRecord",
    "Record",
    "clean",
    "forget",
    "inhabitants",
    "labs",
    "remember",
    "stale",
    "state_directory",
    "sweep",
]


@dataclass(frozen=True)
class HostRecord:
    """One host: its thread id, and its namespace's inode (unique while it lives) and cookie (unique for ever)."""

    name: str
    tid: int
    inode: int
    cookie: int


@dataclass(frozen=True)
class Record:
    """One lab: its process, when that process started (clock ticks since boot), its hosts."""

    lab: str
    pid: int
    started: int
    hosts: tuple[HostRecord, ...]

    @property
    def alive(self) -> bool:
        """Whether the very process that made the lab still runs."""
        return process_start(self.pid) == self.started


def state_directory() -> Path:
    """Where the records are: ``$XDP_LAB_STATE``, else ``xdp-lab`` in the user's runtime directory."""
    if given := os.environ.get("XDP_LAB_STATE"):
        return Path(given)
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "xdp-lab"
    if os.geteuid() == 0:
        return Path("/run/xdp-lab")
    return Path(tempfile.gettempdir()) / f"xdp-lab-{os.geteuid()}"


def process_start(pid: int) -> int:
    """When the process started, in clock ticks since boot (field 22 of /proc/PID/stat); 0 where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


def _path(lab: str, pid: int) -> Path:
    return state_directory() / f"{lab}.{pid}.json"


def remember(lab: str, hosts: tuple[HostRecord, ...]) -> None:
    """Write this process's record of ``lab``, whole or not at all."""
    record = Record(lab, os.getpid(), process_start(os.getpid()), hosts)
    directory = state_directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_uid != os.geteuid():
            raise PermissionError(f"{directory} belongs to somebody else")
        written = directory / f".{lab}.{os.getpid()}.tmp"
        with resources("to note the lab in its state directory", str(directory)):
            written.write_text(json.dumps(asdict(record)))
        written.replace(_path(lab, os.getpid()))
    except OSError as error:
        raise LabError(
            "The lab's record could not be written.",
            tried="to note the lab in its state directory",
            on=str(directory),
            errno=error.errno,
            remedy="set XDP_LAB_STATE to a directory of your own",
        ) from error


def forget(lab: str, pid: int | None = None) -> None:
    """Remove the record of ``lab``; nothing happens where there is none."""
    _path(lab, pid or os.getpid()).unlink(missing_ok=True)


def labs() -> list[Record]:
    """All records that can be read, those of dead processes included; half a record counts as none."""
    found = []
    for path in sorted(state_directory().glob("*.json")):
        try:
            raw = json.loads(path.read_text())
            hosts = tuple(HostRecord(**host) for host in raw["hosts"])
            found.append(Record(raw["lab"], raw["pid"], raw["started"], hosts))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def stale() -> list[Record]:
    """Records of labs whose process is gone."""
    return [record for record in labs() if not record.alive]


def inhabitants(record: Record) -> Iterator[int]:
    """Processes that sit in a namespace of ``record``, found by inode and proved by cookie; not the lab's own."""
    cookies = {host.inode: host.cookie for host in record.hosts}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == record.pid:
            continue
        try:
            inode = namespace_inode(entry)
            if inode in cookies and namespace_cookie_of(int(entry)) == cookies[inode]:
                yield int(entry)
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else


def sweep() -> None:
    """Remove records of dead labs in whose namespaces nobody sits any more: nothing is left of those but the record."""
    for record in stale():
        if not any(inhabitants(record)):
            forget(record.lab, record.pid)


def clean(deadline_s: float = 2.0) -> list[str]:
    """Remove what dead labs left: their records, and processes still inside their namespaces. Says what it did."""
    done = []
    for record in stale():
        for pid in list(inhabitants(record)):
            _end(pid, deadline_s)
            done.append(f"ended process {pid}, which sat in a host of the lab {record.lab}")
        forget(record.lab, record.pid)
        done.append(f"removed the record of the lab {record.lab} of process {record.pid}, which is gone")
    return done


def _end(pid: int, deadline_s: float) -> None:
    for number in (signal.SIGHUP, signal.SIGKILL):
        started = process_start(pid)
        if not started:
            return
        os.kill(pid, number)
        until = time.monotonic() + deadline_s / 2
        while process_start(pid) == started and time.monotonic() < until:
            time.sleep(0.01)
