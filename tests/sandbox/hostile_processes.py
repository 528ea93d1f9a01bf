"""Attempts on other processes, on the machine as a whole, and on limits."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import signal
import socket
import struct
import termios
from pathlib import Path

import bpfcalls as b
from attempts import Facts, RefusedError, attempt
from hostile_network import machines_proc

X86 = os.uname().machine == "x86_64"
PTRACE_ATTACH = 16
VM_READV, KEYCTL, REBOOT, SYSLOG = (310, 250, 169, 103) if X86 else (270, 219, 142, 116)
SETTIMEOFDAY, INIT_MODULE, KEXEC_LOAD = (164, 175, 246) if X86 else (170, 105, 104)
SWAPON, PIDFD_SEND_SIGNAL, PIDFD_OPEN = (167 if X86 else 224), 424, 434
KEY_READ, KEY_LINK, SCM_CREDENTIALS = 11, 8, 2


def _ptrace(pid: int) -> object:
    b.checked(b.libc.ptrace(PTRACE_ATTACH, pid, None, None), "ptrace")
    os.waitpid(pid, os.WUNTRACED)
    return b.libc.ptrace(17, pid, None, None)


def _read_memory(pid: int) -> object:
    buffer = ctypes.create_string_buffer(8)
    here = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
    with open(f"/proc/{pid}/maps") as maps:
        there = (ctypes.c_uint64 * 2)(int(maps.read().split("-")[0], 16), 8)
    b.checked(b.libc.process_vm_readv(pid, here, 1, there, 1, 0), "process_vm_readv")
    return buffer.raw.hex()


@attempt(control=True)
def see_a_process_of_the_machine(facts: Facts) -> object:
    return Path(f"/proc/{facts['root_pid']}/comm").read_text()


@attempt(control=True)
def trace_a_process_of_root(facts: Facts) -> object:
    return _ptrace(facts["root_pid"])


@attempt()
def trace_my_own_process_outside(facts: Facts) -> object:
    return _ptrace(facts["same_pid"])


@attempt(control=True)
def read_the_memory_of_a_process_of_root(facts: Facts) -> object:
    return _read_memory(facts["root_pid"])


@attempt(control=True)
def signal_a_process_of_root(facts: Facts) -> object:
    return os.kill(facts["root_pid"], 0)


@attempt(control=True)
def open_a_process_of_root(facts: Facts) -> object:
    return os.pidfd_open(facts["root_pid"])


@attempt()
def signal_my_own_process_outside_by_the_machines_proc(facts: Facts) -> object:
    machines_proc()
    folder = os.open(f"/proc/{facts['same_pid']}", os.O_RDONLY | os.O_DIRECTORY)
    return b.syscall(PIDFD_SEND_SIGNAL, folder, int(signal.SIGKILL), None, 0)


@attempt()
def read_the_memory_of_my_own_process_outside(facts: Facts) -> object:
    machines_proc()
    with open(f"/proc/{facts['same_pid']}/mem", "rb") as memory:
        return memory.fileno()


@attempt()
def read_the_environment_of_a_process_of_root(facts: Facts) -> object:
    machines_proc()
    return Path(f"/proc/{facts['root_pid']}/environ").read_text()


@attempt()
def read_the_environment_of_a_process_of_another_user(facts: Facts) -> object:
    machines_proc()
    return Path(f"/proc/{facts['other_pid']}/environ").read_text()


@attempt()
def enter_the_root_folder_of_a_process_of_root(facts: Facts) -> object:
    machines_proc()
    return os.listdir(f"/proc/{facts['root_pid']}/root/root")


@attempt()
def take_a_descriptor_of_a_process_of_root(facts: Facts) -> object:
    machines_proc()
    return os.listdir(f"/proc/{facts['root_pid']}/fd")


@attempt()
def find_roots_environment_in_mine(facts: Facts) -> object:
    if facts["secret"] not in str(os.environ):
        raise RefusedError("not there")
    return "there"


@attempt()
def trace_the_first_process(_: Facts) -> object:
    return _ptrace(1)


@attempt()
def read_the_memory_of_the_first_process(_: Facts) -> object:
    with open("/proc/1/mem", "rb") as memory:
        return memory.fileno()


@attempt()
def take_the_descriptors_of_the_first_process(_: Facts) -> object:
    return b.syscall(438, os.pidfd_open(1), 0, 0)  # pidfd_getfd


@attempt()
def kill_the_first_process(_: Facts) -> object:
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV):
        os.kill(1, number)
    os.kill(1, 0)
    raise RefusedError("it lives")


@attempt()
def regain_privilege_by_a_setuid_program(facts: Facts) -> object:
    """A copy of `id` that belongs to root and is setuid, outside: as su, mount and sudo are."""
    with os.popen(f"{facts['setuid']} -u") as answer:
        shown = answer.read().strip()
    machine_uid = Path("/proc/self/uid_map").read_text().split()[1]
    if shown == "0" and machine_uid != "0" and "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        raise RefusedError("user 0 of the sandbox still")
    return shown


@attempt()
def su_to_root_of_the_machine(_: Facts) -> object:
    if os.system("su -c 'cat /etc/shadow' </dev/null >/dev/null 2>&1") == 0:
        return "su"
    raise RefusedError("su")


@attempt()
def become_another_user(facts: Facts) -> object:
    return os.setresuid(facts["other_uid"], facts["other_uid"], facts["other_uid"])


@attempt()
def take_roots_group(_: Facts) -> object:
    return os.setgroups([0])


@attempt()
def reboot(_: Facts) -> object:
    """From a namespace of processes of the student's own, where the kernel would end that only: none is made here."""
    return b.syscall(REBOOT, 0xFEE1DEAD - (1 << 32), 672274793, 0xFFFFFFFF - (1 << 32), None)  # an invalid command


@attempt()
def set_the_clock(_: Facts) -> object:
    return b.syscall(SETTIMEOFDAY, (b"\0" * 16), None)


@attempt()
def load_a_module(_: Facts) -> object:
    return b.syscall(INIT_MODULE, b"\x7fELF", 4, b"")


@attempt()
def load_another_kernel(_: Facts) -> object:
    return b.syscall(KEXEC_LOAD, 0, 0, None, 0)


@attempt()
def add_swap(_: Facts) -> object:
    return b.syscall(SWAPON, b"/dev/vda", 0)


@attempt(control=True)
def read_the_kernels_log(_: Facts) -> object:
    return b.syscall(SYSLOG, 3, ctypes.create_string_buffer(1024), 1024)


@attempt()
def write_to_the_kernels_log(_: Facts) -> object:
    with open("/dev/kmsg", "w") as log:
        return log.fileno()


@attempt()
def raise_a_limit(_: Facts) -> object:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        return resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard + 1))
    except ValueError as error:  # Python's word for EPERM here
        raise RefusedError(str(error)) from None


@attempt()
def run_before_everybody_else(_: Facts) -> object:
    return os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))


@attempt()
def be_nice_to_nobody(_: Facts) -> object:
    return os.setpriority(os.PRIO_PROCESS, 0, -5)


@attempt()
def escape_the_memory_killer(_: Facts) -> object:
    return Path("/proc/self/oom_score_adj").write_text("-500")


@attempt(control=True)
def read_a_key_of_roots(facts: Facts) -> object:
    return b.syscall(KEYCTL, KEY_READ, facts["key"], ctypes.create_string_buffer(64), 64, 0)


@attempt()
def link_a_key_of_roots(facts: Facts) -> object:
    return b.syscall(KEYCTL, KEY_LINK, facts["key"], -2, 0, 0)


@attempt()
def type_into_the_starting_terminal(facts: Facts) -> object:
    """Standard error is a terminal of whoever started the sandbox, as with `labkit sandbox CMD <file`."""
    if not os.isatty(2):
        raise AssertionError("standard error should be a terminal")
    return fcntl.ioctl(2, termios.TIOCSTI, b"x")


@attempt()
def steal_the_starting_terminal(_: Facts) -> object:
    os.setsid()
    return fcntl.ioctl(2, termios.TIOCSCTTY, 1)


@attempt()
def map_the_zero_page(_: Facts) -> object:
    libc = b.libc
    libc.mmap.restype = ctypes.c_void_p
    found = libc.mmap(None, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10, -1, 0)
    if found == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    return found


@attempt()
def claim_to_be_another_over_a_socket(_: Facts) -> object:
    """SCM_CREDENTIALS with another user's number."""
    ours, theirs = socket.socketpair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    who = struct.pack("=iII", os.getpid(), 12345, 12345)
    return ours.sendmsg([b"x"], [(socket.SOL_SOCKET, SCM_CREDENTIALS, who)])
