"""Attempts on the machine's files, mounts, devices and settings."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import stat
import struct
import time
from pathlib import Path

import bpfcalls as b
from attempts import Facts, RefusedError, attempt
from hostile_network import CLONE_NEWNS, CLONE_NEWUSER, uncover

MS_REMOUNT, MS_BIND, MS_RDONLY = 32, 4096, 1
# Settings of the whole machine; each is written with the value that it has.
SETTINGS = (
    "kernel/sysrq", "kernel/kptr_restrict", "kernel/core_pattern", "kernel/modprobe", "kernel/unprivileged_bpf_disabled",
    "kernel/perf_event_paranoid", "kernel/panic", "kernel/randomize_va_space", "kernel/bpf_stats_enabled",
    "vm/overcommit_memory", "vm/drop_caches", "fs/file-max", "fs/protected_symlinks", "fs/suid_dumpable",
)  # fmt: skip
_PATIENCE_S = 8  # below the deadline of an attempt
KERNEL_FILES = ("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/uevent_helper", "/sys/power/state")
SECRETS = (
    "/etc/shadow",
    "/etc/gshadow",
    "/root",
    "/dev/mem",
    "/dev/kmem",
    "/dev/port",
    "/proc/kcore",
    "/proc/kpageflags",
)


def _each_path() -> None:
    for setting in SETTINGS:

        def write(_: Facts, path: str = f"/proc/sys/{setting}") -> object:
            with open(path, "w") as file:
                return file.fileno()

        write.__name__ = f"set_{setting.replace('/', '_')}"
        attempt()(write)
    for path in KERNEL_FILES:

        def change(_: Facts, path: str = path) -> object:
            with open(path, "w") as file:
                return file.fileno()

        change.__name__ = f"write_{path[1:].replace('/', '_')}"
        attempt()(change)
    for path in SECRETS:

        def read(_: Facts, path: str = path) -> object:
            return os.listdir(path) if os.path.isdir(path) else os.open(path, os.O_RDONLY)

        read.__name__ = f"read_{path[1:].replace('/', '_')}"
        attempt(control=path in ("/etc/shadow", "/root"))(read)


_each_path()


@attempt(control=True)
def read_addresses_of_the_kernel(_: Facts) -> object:
    with open("/proc/kallsyms") as symbols:
        address, _, name = symbols.readline().split()[:3]
    if int(address, 16) == 0:
        raise RefusedError("all zero")
    return name, address


@attempt()
def press_sysrq(_: Facts) -> object:
    with open("/proc/sysrq-trigger", "w") as trigger:
        return trigger.fileno()


@attempt()
def read_a_file_of_another_user(facts: Facts) -> object:
    return Path(facts["other_file"]).read_text()


@attempt()
def override_the_mode_of_a_file_of_another_user(facts: Facts) -> object:
    return os.chmod(facts["other_file"], 0o666)


@attempt()
def give_a_file_to_another_user(facts: Facts) -> object:
    path = Path(facts["folder"]) / "given"
    path.write_text("")
    return os.chown(path, facts["other_uid"], -1)


@attempt()
def make_a_disk(facts: Facts) -> object:
    return os.mknod(f"{facts['folder']}/disk", stat.S_IFBLK | 0o600, os.makedev(*facts["disk"]))


@attempt()
def make_a_memory_device(facts: Facts) -> object:
    return os.mknod(f"{facts['folder']}/memory", stat.S_IFCHR | 0o600, os.makedev(1, 1))


@attempt()
def make_a_disk_on_a_file_system_of_mine(facts: Facts) -> object:
    b.checked(b.libc.unshare(CLONE_NEWNS))
    b.checked(b.libc.mount(b"tmpfs", b"/mnt", b"tmpfs", 0, None))
    os.mknod("/mnt/disk", stat.S_IFBLK | 0o600, os.makedev(*facts["disk"]))
    return os.open("/mnt/disk", os.O_RDONLY)


@attempt()
def mount_the_disk(facts: Facts) -> object:
    b.checked(b.libc.unshare(CLONE_NEWNS))
    return b.checked(b.libc.mount(facts["disk_path"].encode(), b"/mnt", b"ext4", MS_RDONLY, None))


@attempt()
def read_the_disk(facts: Facts) -> object:
    return os.open(facts["disk_path"], os.O_RDONLY)


@attempt()
def mount_debugfs(_: Facts) -> object:
    b.checked(b.libc.unshare(CLONE_NEWNS))
    return b.checked(b.libc.mount(b"debugfs", b"/mnt", b"debugfs", 0, None))


@attempt()
def mount_tracefs(_: Facts) -> object:
    b.checked(b.libc.unshare(CLONE_NEWNS))
    return b.checked(b.libc.mount(b"tracefs", b"/mnt", b"tracefs", 0, None))


@attempt()
def mount_securityfs(_: Facts) -> object:
    b.checked(b.libc.unshare(CLONE_NEWNS))
    return b.checked(b.libc.mount(b"securityfs", b"/mnt", b"securityfs", 0, None))


@attempt()
def unmount_the_machines_root(_: Facts) -> object:
    return b.checked(b.libc.umount2(b"/", 2))


@attempt()
def unmount_the_read_only_ground(facts: Facts) -> object:
    b.checked(b.libc.unshare(CLONE_NEWNS))
    return b.checked(b.libc.umount2(facts["ground"].encode(), 2))


@attempt()
def remount_the_ground_writable(facts: Facts) -> object:
    b.checked(b.libc.unshare(CLONE_NEWNS))
    return b.checked(b.libc.mount(None, facts["ground"].encode(), None, MS_REMOUNT | MS_BIND, None))


@attempt()
def bind_the_ground_writable(facts: Facts) -> object:
    """By mount_setattr of a copy."""
    b.checked(b.libc.unshare(CLONE_NEWNS))
    tree = b.syscall(428, -100, facts["ground"].encode(), 1 | 0x8000)
    attributes = struct.pack("=QQQQ", 0, 1, 0, 0)  # clear MOUNT_ATTR_RDONLY
    return b.syscall(442, tree, b"", 0x1000, attributes, 32)


@attempt()
def look_beneath_the_ground(facts: Facts) -> object:
    """A copy of the mount above it, without what is mounted on it."""
    b.checked(b.libc.unshare(CLONE_NEWNS))
    b.checked(b.libc.mount(b"/", b"/mnt", None, MS_BIND, None), "bind /")
    path = Path("/mnt" + facts["ground"]) / "env" / "sandbox"
    return path.open("a").fileno()


@attempt()
def write_the_launcher(facts: Facts) -> object:
    return open(f"{facts['ground']}/env/sandbox", "a").close()


@attempt()
def write_the_package(facts: Facts) -> object:
    return Path(f"{facts['ground']}/labkit/hostile.py").write_text("")


@attempt()
def write_the_environment(facts: Facts) -> object:
    return Path(f"{facts['ground']}/.venv/hostile").write_text("")


@attempt()
def rename_the_package(facts: Facts) -> object:
    return os.rename(f"{facts['ground']}/labkit", f"{facts['ground']}/labkit2")


@attempt()
def leave_a_chroot(facts: Facts) -> object:
    """The old way out of one, from the sandbox's own root: it leads nowhere else."""
    os.chdir("/")
    os.mkdir(jail := f"{facts['folder']}/jail{os.getpid()}")
    os.chroot(jail)
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    return Path("/etc/shadow").read_text()


@attempt()
def connect_to_a_socket_of_roots_beneath_run(facts: Facts) -> object:
    """The machine's /run can be uncovered; its files keep their modes."""
    uncover("/run")
    with socket.socket(socket.AF_UNIX) as there:
        return there.connect(facts["run_socket"])


@attempt()
def read_a_file_of_roots_beneath_run(facts: Facts) -> object:
    uncover("/run")
    return Path(facts["run_file"]).read_text()


@attempt()
def map_more_users_in_a_nested_namespace(_: Facts) -> object:
    b.checked(b.libc.unshare(CLONE_NEWUSER))
    return Path("/proc/self/uid_map").write_text("0 0 4294967295")


@attempt()
def trust_a_capability_on_a_file_of_mine(facts: Facts) -> object:
    """Version 2 would hold for the whole machine; the kernel must bind it to the sandbox."""
    path = Path(facts["folder"]) / "capable"
    path.write_text("")
    wanted = struct.pack("<IIIII", 0x02000001, 0x3FFFFFFF, 0, 0, 0)
    os.setxattr(path, "security.capability", wanted)
    raise RefusedError("see from outside")


@attempt()
def fault_in_the_kernel_by_userfaultfd(_: Facts) -> object:
    number = {"x86_64": 323}.get(os.uname().machine, 282)
    return b.syscall(number, 0)


@attempt()
def poll_in_the_kernel_for_ever(_: Facts) -> object:
    """io_uring with a kernel thread bound to a CPU of the machine beyond those that are allowed.

    Locked memory is counted per user, before the CPU is looked at: while another sandbox of the same user holds all of
    it, the kernel refuses with ENOMEM. That is the limit at work, but not the refusal sought here, so it waits for room.
    """
    buffer = ctypes.create_string_buffer(120)
    until = time.monotonic() + _PATIENCE_S
    while True:
        struct.pack_into("=IIIII", buffer, 0, 0, 0, 2 | 4, 1 << 20, 0)  # IORING_SETUP_SQPOLL | SQ_AFF at no such CPU
        try:
            return b.syscall(425, 1, buffer)
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
        if time.monotonic() > until:
            raise RefusedError("the user may lock no more memory")
        time.sleep(0.05)
