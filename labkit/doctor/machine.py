"""Rows about the machine and this process: Linux, privilege, limits, commands, what earlier labs left."""

from __future__ import annotations

import os
import platform
import resource
import shutil
from collections.abc import Mapping
from pathlib import Path

from labkit import registry
from labkit.doctor.report import PRIVILEGE, Row

__all__ = ["capabilities", "commands", "in_user_namespace", "leftovers", "linux", "memory_lock", "privilege"]

# include/uapi/linux/capability.h
_CAPABILITIES = {"NET_ADMIN": 12, "NET_RAW": 13, "SYS_ADMIN": 21, "PERFMON": 38, "BPF": 39}
_COMMANDS = {
    "ip": ("looks at a host's interfaces", "iproute2"),
    "tc": ("shows and attaches TC programs", "iproute2"),
    "nft": ("the firewall stage of the drop lesson", "nftables"),
    "nsenter": ("opens a shell in a host (labkit shell)", "util-linux"),
}
_SANDBOX = "start it in a sandbox: ./env/lab, or labkit sandbox -- CMD"
_UNPRIVILEGED_BPF = Path("/proc/sys/kernel/unprivileged_bpf_disabled")


def linux() -> list[Row]:
    """The kernel's name for itself. For information: what it can do is tried below."""
    return [Row("Linux", "note", f"{platform.release()}, {platform.machine()}", needed=False)]


def capabilities(status: str | None = None) -> set[str]:
    """The capabilities in effect that matter here, of the calling thread (or of a given /proc/…/status text)."""
    text = Path("/proc/thread-self/status").read_text() if status is None else status
    line = next(line for line in text.splitlines() if line.startswith("CapEff:"))
    mask = int(line.split()[1], 16)
    return {name for name, bit in _CAPABILITIES.items() if mask >> bit & 1}


def in_user_namespace(uid_map: str | None = None) -> bool:
    """Whether this process is in a user namespace other than the machine's first."""
    text = Path("/proc/self/uid_map").read_text() if uid_map is None else uid_map
    return text.split() != ["0", "0", "4294967295"]


def privilege() -> list[Row]:
    """Whether this process may do what the lab does."""
    return [_privilege(os.geteuid(), capabilities(), in_user_namespace(), _unprivileged_bpf())]


def _privilege(uid: int, held: set[str], sandboxed: bool, unprivileged_bpf: str) -> Row:
    # SYS_ADMIN makes namespaces, and takes the place of BPF and PERFMON; NET_RAW is for packet and AF_XDP sockets.
    lacking = {"NET_ADMIN", "NET_RAW", "SYS_ADMIN"} - held
    where = f"user {uid}" + (" of a sandbox" if sandboxed else "")
    if not lacking:
        has = ", ".join(f"CAP_{name}" for name in _CAPABILITIES if name in held)
        return Row(PRIVILEGE, "ok", f"{where}: {has}")
    if uid and not sandboxed:
        found = f"{where}, not root and in no sandbox; XDP needs either"
        return Row(PRIVILEGE, "missing", f"{found} ({unprivileged_bpf})", _SANDBOX)
    names = ", ".join(f"CAP_{name}" for name in _CAPABILITIES if name in lacking)
    remedy = f"run outside this container or sandbox, or give it {names} (docker run --privileged)"
    return Row(PRIVILEGE, "missing", f"{where} without {names}", remedy)


def _unprivileged_bpf() -> str:
    try:
        value = _UNPRIVILEGED_BPF.read_text().strip()
    except OSError:
        return "kernel.unprivileged_bpf_disabled can't be read"
    meaning = "bpf(2) is open to all, for socket filters only" if value == "0" else "bpf(2) is for the privileged"
    return f"kernel.unprivileged_bpf_disabled={value}: {meaning}"


def memory_lock() -> list[Row]:
    """The memory-lock limit. Maps don't count against it since Linux 5.11, buffers of AF_XDP sockets do."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft / 1024:,.0f} KiB"
    return [Row("memory lock", "note", f"{limit}; BPF maps don't count, AF_XDP buffers do", needed=False)]


def commands(path: Mapping[str, str | None] | None = None) -> list[Row]:
    """Programs of the system that lessons call. ``path``: where each is (default: looked up)."""
    found = {name: _which(name) for name in _COMMANDS} if path is None else path
    return [
        Row(f"command {name}", "ok", where, needed=False, group="command")
        if (where := found.get(name))
        else Row(f"command {name}", "note", f"not found; {use}", f"sudo apt-get install {package}", False, "command")
        for name, (use, package) in _COMMANDS.items()
    ]


def _which(name: str) -> str | None:
    # Debian keeps ip, tc and nft in a directory that a user's PATH leaves out.
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]))


def leftovers() -> list[Row]:
    """Records of labs whose process is gone."""
    stale = registry.stale()
    if not stale:
        return [Row("leftovers", "ok", "none", needed=False)]
    names = ", ".join(f"{record.lab} (process {record.pid})" for record in stale)
    return [Row("leftovers", "note", f"of labs that ended without closing: {names}", "labkit clean", needed=False)]
