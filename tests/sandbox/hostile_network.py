"""Attempts on the machine's interfaces, namespaces and sockets."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from pathlib import Path

import bpfcalls as b
from attempts import Facts, RefusedError, attempt

CLONE_NEWNET, CLONE_NEWUSER, CLONE_NEWNS, MNT_DETACH = 0x40000000, 0x10000000, 0x20000, 2
RTM_SETLINK, NLM_F_REQUEST, NLM_F_ACK, IFLA_IFALIAS = 19, 1, 4, 20


def setns(descriptor: int, kind: int) -> None:
    b.checked(b.libc.setns(descriptor, kind))


@attempt(control=True)
def see_a_host_interface(facts: Facts) -> object:
    if (name := facts["interface"]) not in [name for _, name in socket.if_nameindex()]:
        raise RefusedError("not there")
    return name


@attempt()
def rename_a_host_interface_by_index(facts: Facts) -> object:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        alias = struct.pack("=HH8s", 12, IFLA_IFALIAS, b"hostile\0")
        body = struct.pack("=BxHiII", 0, 0, facts["ifindex"], 0, 0) + alias
        netlink.send(struct.pack("=IHHII", 16 + len(body), RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0) + body)
        (code,) = struct.unpack_from("=i", netlink.recv(4096), 16)
        if code:
            raise OSError(-code, "setlink")
        return "renamed"


@attempt(control=True)
def ask_a_host_interface_by_ioctl(facts: Facts) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return fcntl.ioctl(any_socket, 0x8913, struct.pack("16s24x", facts["interface"].encode())).hex()


@attempt()
def enter_the_first_process_network(_: Facts) -> object:
    with open("/proc/1/ns/net", "rb") as namespace:
        return setns(namespace.fileno(), CLONE_NEWNET)


@attempt()
def enter_the_machines_network_under_proc(facts: Facts) -> object:
    machines_proc()
    with open("/proc/1/ns/net", "rb") as namespace:
        return setns(namespace.fileno(), CLONE_NEWNET)


@attempt()
def enter_the_network_of_my_own_process_outside(facts: Facts) -> object:
    machines_proc()
    with open(f"/proc/{facts['same_pid']}/ns/net", "rb") as namespace:
        return setns(namespace.fileno(), CLONE_NEWNET)


@attempt()
def enter_a_network_passed_from_outside(facts: Facts) -> object:
    """The student outside may open its own namespace, and hand it in."""
    with socket.socket(socket.AF_UNIX) as there:
        there.connect(facts["giver"])
        _, passed, _, _ = socket.recv_fds(there, 1, 1)
    return setns(passed[0], CLONE_NEWNET)


@attempt()
def move_an_interface_to_the_machine(facts: Facts) -> object:
    """By a process number of the machine, and by a descriptor of its namespace."""
    machines_proc()
    code = os.system(f"ip link add out0 type veth peer name out1 netns {facts['same_pid']} 2>/dev/null")
    if code:
        raise RefusedError("ip link add")
    return "moved"


@attempt(control=True)
def connect_to_an_abstract_socket(facts: Facts) -> object:
    with socket.socket(socket.AF_UNIX) as there:
        return there.connect("\0" + facts["abstract"])


@attempt()
def use_an_inherited_descriptor(facts: Facts) -> object:
    """The starting process holds this file open, and lets it be inherited."""
    inode = facts["inherited_inode"]
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.stat(f"/proc/self/fd/{name}").st_ino == inode:
                return os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    raise RefusedError("did not arrive")


@attempt()
def find_more_descriptors_than_three(_: Facts) -> object:
    more = sorted(set(os.listdir("/proc/self/fd")) - {"0", "1", "2"}, key=int)
    targets = [os.readlink(path) for name in more if os.path.lexists(path := f"/proc/self/fd/{name}")]
    if all(target.startswith("pipe:") or target.startswith("/proc/") for target in targets):  # the attempt's own
        raise RefusedError("none")
    return targets


@attempt()
def raw_socket_sees_the_machines_packets(facts: Facts) -> object:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as raw:
        raw.bind((facts["interface"], 0))
        return raw.getsockname()


@attempt()
def attach_xdp_to_a_host_interface(facts: Facts) -> object:
    return b.link_create(b.load(b.XDP, by_gate=True, expected=37), facts["ifindex"], 37)


@attempt()
def attach_tcx_to_a_host_interface(facts: Facts) -> object:
    return b.link_create(b.load(b.SCHED_CLS, by_gate=True, expected=46), facts["ifindex"], 46)


@attempt()
def host_wide_network_settings(_: Facts) -> object:
    return Path("/proc/sys/net/core/bpf_jit_harden").write_text("0")


def machines_proc() -> None:
    """Uncover the machine's /proc, in a mount namespace of the attempt's own."""
    uncover("/proc")


def uncover(*folders: str) -> None:
    """Unmount what the sandbox has mounted over the machine's folders."""
    b.checked(b.libc.unshare(CLONE_NEWNS), "unshare")
    for folder in folders:
        b.checked(b.libc.umount2(folder.encode(), MNT_DETACH), f"unmount {folder}")
