"""Attempts with bpf(2) and its neighbours: what the token was not given for, and the token where it must not go."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct

import bpfcalls as b
from attempts import Facts, RefusedError, attempt
from hostile_network import CLONE_NEWNS, CLONE_NEWUSER, uncover

# enum bpf_prog_type and bpf_map_type of include/uapi/linux/bpf.h: what no token of a sandbox delegates
PROGRAMS = {
    "socket_filter": 1, "kprobe": 2, "sched_act": 4, "tracepoint": 5, "perf_event": 7, "cgroup_skb": 8, "cgroup_sock": 9,
    "lwt_in": 10, "sock_ops": 13, "sk_skb": 14, "cgroup_device": 15, "sk_msg": 16, "cgroup_sock_addr": 18,
    "lirc_mode2": 20, "sk_reuseport": 21, "flow_dissector": 22, "cgroup_sysctl": 23, "raw_tracepoint_writable": 24,
    "cgroup_sockopt": 25, "tracing": 26, "struct_ops": 27, "ext": 28, "lsm": 29, "sk_lookup": 30, "syscall": 31,
    "netfilter": 32,
}  # fmt: skip
MAPS = {
    "stack_trace": 7, "cgroup_array": 8, "sockmap": 15, "sockhash": 18, "cgroup_storage": 19, "reuseport_sockarray": 20,
    "sk_storage": 24, "struct_ops": 26, "inode_storage": 28, "task_storage": 29, "user_ringbuf": 31,
    "cgrp_storage": 32, "arena": 33,
}  # fmt: skip
EXPECTED = {"cgroup_sock_addr": 8, "tracing": 24, "lsm": 27, "sk_lookup": 36, "cgroup_sockopt": 21, "netfilter": 45}
CGROUP_DEVICE, CGROUP_INET_INGRESS, CGROUP_INET_EGRESS = 6, 0, 1


def _each_kind() -> None:
    for name, kind in PROGRAMS.items():

        def load(_: Facts, kind: int = kind, expected: int = EXPECTED.get(name, 0)) -> object:
            return b.load(kind, by_gate=True, expected=expected)

        load.__name__ = f"load_a_{name}_program"
        attempt()(load)
    for name, kind in MAPS.items():

        def create(_: Facts, kind: int = kind) -> object:
            return b.create_map(kind, by_gate=True)

        create.__name__ = f"make_a_{name}_map"
        attempt()(create)


_each_kind()


@attempt(control=True)
def make_a_map_without_the_token(_: Facts) -> object:
    return b.create_map()


@attempt(control=True)
def load_xdp_without_the_token(_: Facts) -> object:
    return b.load(b.XDP)


@attempt(control=True)
def list_the_machines_programs(_: Facts) -> object:
    return b.bpf(b.PROG_GET_NEXT_ID, struct.pack("=I", 0))


@attempt(control=True)
def list_the_machines_maps(_: Facts) -> object:
    return b.bpf(b.MAP_GET_NEXT_ID, struct.pack("=I", 0))


@attempt(control=True)
def open_a_program_by_its_number(facts: Facts) -> object:
    return b.bpf(b.PROG_GET_FD_BY_ID, struct.pack("=I", facts["program_id"]))


@attempt(control=True)
def open_a_map_by_its_number(facts: Facts) -> object:
    return b.bpf(b.MAP_GET_FD_BY_ID, struct.pack("=I", facts["map_id"]))


@attempt(control=True)
def switch_on_statistics_for_all(_: Facts) -> object:
    return b.bpf(b.ENABLE_STATS, struct.pack("=I", 0))


@attempt(control=True)
def ask_what_a_task_has_attached(facts: Facts) -> object:
    with open("/proc/self/status") as file:
        try:
            return b.bpf(b.TASK_FD_QUERY, struct.pack("=IIIIQ", os.getpid(), file.fileno(), 0, 0, 0))
        except OSError as error:
            if error.errno == 524:  # ENOTSUPP: was allowed to ask; a plain file has nothing attached
                return "allowed"
            raise


@attempt()
def open_an_object_pinned_by_root(facts: Facts) -> object:
    """The machine's bpffs is beneath the sandbox's own."""
    uncover("/sys/fs/bpf", "/sys")
    path = ctypes.create_string_buffer(facts["pinned"].encode())
    return b.bpf(b.OBJ_GET, struct.pack("=QIII", ctypes.addressof(path), 0, 0, 0))


@attempt()
def read_the_list_of_maps_in_the_bpffs(_: Facts) -> object:
    """Some kernels put iterators over all maps and programs into every bpffs."""
    with open(f"{b.BPFFS}/maps.debug") as file:
        return file.read()


@attempt()
def make_a_token_of_the_machines_bpffs(_: Facts) -> object:
    uncover("/sys/fs/bpf", "/sys")
    return b.token()


@attempt()
def mount_a_bpffs_that_delegates(_: Facts) -> object:
    context = b.syscall(430, b"bpf", 0)
    b.syscall(431, context, 1, b"delegate_cmds", b"any", 0)
    return "delegates"


@attempt()
def remount_the_bpffs_to_delegate_more(_: Facts) -> object:
    context = b.syscall(433, -100, b"/sys/fs/bpf", 0)  # fspick
    b.syscall(431, context, 1, b"delegate_progs", b"any", 0)
    b.syscall(431, context, 7, None, None, 0)
    return b.load(2, by_gate=True)


@attempt()
def make_a_token_in_a_nested_namespace(_: Facts) -> object:
    b.checked(b.libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
    return b.token()


@attempt()
def make_a_token(_: Facts) -> object:
    """The sandbox's own bpffs is for pins; the one that delegates is mounted nowhere."""
    return b.token()


@attempt()
def use_the_gate_from_outside(facts: Facts) -> object:
    """Asks a process of the same user outside to find a way in."""
    with socket.socket(socket.AF_UNIX) as there:
        there.connect(facts["taker"])
        there.sendall(b"gates")
        answer = there.recv(4096).decode()
    if answer.startswith("refused"):
        raise RefusedError(answer.removeprefix("refused: "))
    return answer


def _gatekeepers() -> list[int]:
    """The first process, and those of its children that serve who asks."""
    found = [1]
    for name in filter(str.isdigit, os.listdir("/proc")):
        with open(f"/proc/{name}/cmdline", "rb") as file, open(f"/proc/{name}/stat") as stat:
            if file.read() == FIRST and int(stat.read().rpartition(")")[2].split()[1]) == 1:
                found.append(int(name))
    return found


with open("/proc/1/cmdline", "rb") as first:
    FIRST = first.read()


@attempt()
def take_the_token_from_the_gate(_: Facts) -> object:
    b.create_map(by_gate=True)  # so that somebody serves us
    for pid in _gatekeepers():
        process = b.syscall(434, pid, 0)  # pidfd_open
        for number in range(32):
            with contextlib.suppress(PermissionError):
                return b.syscall(438, process, number, 0)  # pidfd_getfd
    raise RefusedError("EPERM")


@attempt()
def trace_the_gate(_: Facts) -> object:
    b.create_map(by_gate=True)
    for pid in _gatekeepers():
        with contextlib.suppress(PermissionError):
            return b.checked(b.libc.ptrace(0x4206, pid, None, None))  # PTRACE_SEIZE
    raise RefusedError("EPERM")


@attempt()
def look_into_the_gates_memory(_: Facts) -> object:
    for pid in _gatekeepers():
        with contextlib.suppress(PermissionError), open(f"/proc/{pid}/mem", "rb") as file:
            return file.fileno()
    raise RefusedError("EPERM")


def _each_way_out_of_a_program() -> None:
    for name, kind in {"xdp": b.XDP, "tc": b.SCHED_CLS}.items():
        for what, code in {
            "read_kernel_memory": b.eight_bytes_from(0xFFFFFFFF81000000, READ_KERNEL),
            "read_user_memory": b.eight_bytes_from(0x10000, READ_USER),
            "signal_whoever_runs": b.set_to(1, 9) + b.helper(SEND_SIGNAL) + b.PASS,
            "print_to_the_machines_log": b.set_to(1, 0) + b.helper(TRACE_PRINTK) + b.PASS,
            "refer_to_a_kernel_variable": b.instruction(b.LOAD_64, 1, 3, number=1) + bytes(8) + b.PASS,
        }.items():

            def load(_: Facts, kind: int = kind, code: bytes = code) -> object:
                return b.load(kind, code, by_gate=True)

            load.__name__ = f"{what}_by_{name}"
            attempt()(load)


READ_USER, READ_KERNEL, SEND_SIGNAL, TRACE_PRINTK = 112, 113, 109, 6
_each_way_out_of_a_program()


@attempt()
def signal_by_a_tracepoint(_: Facts) -> object:
    return b.load(b.RAW_TRACEPOINT, b.set_to(1, 9) + b.helper(SEND_SIGNAL) + b.PASS, by_gate=True)


@attempt()
def kill_any_process_by_xdp(facts: Facts) -> object:
    """task = bpf_task_from_pid(pid); bpf_send_signal_task(task, SIGKILL, PIDTYPE_TGID, 0); bpf_task_release(task)"""
    found = b.function_ids()
    if "bpf_send_signal_task" not in found:
        raise RefusedError("this kernel has no such function")
    send = b.copy(6, 0) + b.copy(1, 6) + b.set_to(2, 9) + b.set_to(3, 1) + b.set_to(4, 0)
    send += b.kernel_function(found["bpf_send_signal_task"]) + b.copy(1, 6)
    send += b.kernel_function(found["bpf_task_release"])
    start = b.set_to(1, facts["root_pid"]) + b.kernel_function(found["bpf_task_from_pid"])
    code = start + b.instruction(0x15, 0, offset=len(send) // 8) + send + b.PASS
    return b.run(b.load(b.XDP, code, by_gate=True))


@attempt()
def write_user_memory_by_bpf(_: Facts) -> object:
    stack = b.set_to(5, 0) + b.instruction(0x7B, 10, 5, -8) + b.copy(2, 10) + b.instruction(0x07, 2, number=-8)
    code = b.set_to(1, 0x10000) + stack + b.set_to(3, 8) + b.helper(36) + b.PASS
    return b.load(b.RAW_TRACEPOINT, code, by_gate=True)


@attempt()
def crash_the_kernel_by_bpf(_: Facts) -> object:
    if (function := b.function_ids().get("crash_kexec")) is None:
        raise RefusedError("no such function")
    return b.load(b.XDP, b.kernel_function(function) + b.PASS, by_gate=True)


@attempt()
def attach_to_a_cgroup(_: Facts) -> object:
    program = b.load(b.XDP, by_gate=True)
    return b.bpf(b.PROG_ATTACH, struct.pack("=IIII", _cgroup(), program, CGROUP_INET_INGRESS, 0))


@attempt()
def link_to_a_cgroup(_: Facts) -> object:
    return b.link_create(b.load(b.XDP, by_gate=True), _cgroup(), CGROUP_INET_EGRESS)


@attempt()
def link_to_a_cgroups_devices(_: Facts) -> object:
    return b.link_create(b.load(b.XDP, by_gate=True), _cgroup(), CGROUP_DEVICE)


def _cgroup() -> int:
    b.checked(b.libc.unshare(CLONE_NEWNS))
    b.checked(b.libc.mount(b"cgroup2", b"/sys/fs/cgroup", b"cgroup2", 0, None), "mount cgroup2")
    return os.open("/sys/fs/cgroup", os.O_RDONLY | os.O_DIRECTORY)


@attempt()
def change_a_cgroup(_: Facts) -> object:
    descriptor = _cgroup()
    return os.mkdir("hostile", dir_fd=descriptor)


@attempt(control=True)
def open_a_performance_counter_of_all(_: Facts) -> object:
    return _perf_event_open(kind=1, config=0, pid=-1, cpu=0)


@attempt(control=True)
def open_a_counter_of_the_kernel_for_myself(_: Facts) -> object:
    return _perf_event_open(kind=1, config=0, pid=0, cpu=-1)


def _perf_event_open(kind: int, config: int, pid: int, cpu: int) -> int:
    attr = struct.pack("=IIQ", kind, 128, config).ljust(128, b"\0")
    number = {"x86_64": 298}.get(os.uname().machine, 241)
    return b.syscall(number, attr, pid, cpu, -1, 0)
