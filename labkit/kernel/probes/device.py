"""Probes of the network path, on a veth pair in a namespace of its own that lives for these few milliseconds."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from enum import IntFlag

from labkit.kernel import bpf
from labkit.kernel.netdev import DeviceFeatures, NetdevSocket
from labkit.kernel.netns import NamespaceThread
from labkit.kernel.probes.objects import constant_program
from labkit.kernel.probes.xsk import bind_socket
from labkit.uapi import AttachType, ProgFlag, ProgType, TestRunFlag, XdpAction, XdpFlag

__all__ = ["ON_DEVICE", "ON_NAMESPACE", "namespace", "veth_pair"]

# include/uapi/linux/rtnetlink.h, if_link.h, veth.h
_RTM_NEWLINK, _RTM_DELLINK, _REQUEST_ACK, _CREATE_EXCL = 16, 17, 0x5, 0x600
_IFLA_IFNAME, _IFLA_LINKINFO, _INFO_KIND, _INFO_DATA, _VETH_INFO_PEER = 3, 18, 1, 2, 1
_IFINFOMSG = bytes(16)
_NEAR, _FAR = "probe0", "probe1"
_LEAST_FRAME = bytes(14)  # ETH_HLEN


@contextlib.contextmanager
def namespace() -> Iterator[NamespaceThread]:
    """A network namespace to try things in. Raises PrivilegeError."""
    thread = NamespaceThread("probe")
    try:
        yield thread
    finally:
        thread.close()


@contextlib.contextmanager
def veth_pair() -> Iterator[int]:
    """The ifindex of one end of a veth pair (down, without address) in the calling thread's namespace."""
    peer = _attribute(_VETH_INFO_PEER, _IFINFOMSG + _attribute(_IFLA_IFNAME, _FAR.encode() + b"\0"))
    kind = _attribute(_INFO_KIND, b"veth") + _attribute(_INFO_DATA, peer)
    name = _attribute(_IFLA_IFNAME, _NEAR.encode() + b"\0")
    _ask(_RTM_NEWLINK, _CREATE_EXCL, name + _attribute(_IFLA_LINKINFO, kind))
    try:
        yield socket.if_nametoindex(_NEAR)
    finally:
        _ask(_RTM_DELLINK, 0, name)


def _attribute(kind: int, value: bytes) -> bytes:
    data = struct.pack("=HH", 4 + len(value), kind) + value
    return data + bytes(-len(data) % 4)


def _ask(kind: int, flags: int, attributes: bytes) -> None:
    """One route netlink request without any library, and its acknowledgement; OSError where it is refused."""
    body = _IFINFOMSG + attributes
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.settimeout(5)
        link.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST_ACK | flags, 1, 0) + body)
        answer = link.recv(1 << 16)
    number = -ctypes.c_int32.from_buffer_copy(answer, 16).value
    if number:
        raise OSError(number, f"veth: {os.strerror(number)}")


def _attach(prog_type: ProgType, value: int, ifindex: int, attach_type: AttachType, flags: int) -> None:
    fd = constant_program(prog_type, value)
    try:
        link = bpf.link_create(fd, ifindex, attach_type, flags)
        try:
            bpf.link_detach(link)
        finally:
            os.close(link)
    finally:
        os.close(fd)


def native_xdp(ifindex: int) -> str:
    """A program in the veth driver."""
    _attach(ProgType.XDP, XdpAction.PASS, ifindex, AttachType.XDP, XdpFlag.DRV_MODE)
    return "a program attaches to a veth"


def generic_xdp(ifindex: int) -> str:
    """A program in the network stack."""
    _attach(ProgType.XDP, XdpAction.PASS, ifindex, AttachType.XDP, XdpFlag.SKB_MODE)
    return "a program attaches to a veth"


def tcx(ifindex: int) -> str:
    """A TC program attached by a link (Linux 6.6 or later)."""
    _attach(ProgType.SCHED_CLS, 0, ifindex, AttachType.TCX_INGRESS, 0)
    return "a program attaches to a veth"


def device_features(ifindex: int) -> DeviceFeatures:
    """What netlink says that the device can do. Raises OSError ENOENT where the kernel has no such family."""
    with NetdevSocket() as netdev:
        return netdev.features(ifindex)


def xdp_features(ifindex: int) -> str:
    """The veth's XDP features by netlink."""
    found = device_features(ifindex)
    if not found.xdp:
        raise OSError(errno.EOPNOTSUPP, "netlink names no XDP feature of veth")
    return _names(found.xdp)


def rx_metadata(ifindex: int) -> str:
    """Hints that a program on a veth can ask for."""
    found = device_features(ifindex)
    if not found.rx_metadata:
        raise OSError(errno.EOPNOTSUPP, "netlink names no hint of veth")
    return _names(found.rx_metadata)


def bound_program(ifindex: int) -> str:
    """A program bound to the veth: only such a one may ask for hints."""
    os.close(constant_program(ProgType.XDP, XdpAction.PASS, flags=ProgFlag.XDP_DEV_BOUND_ONLY, ifindex=ifindex))
    return "bound to a veth"


def af_xdp(ifindex: int) -> str:
    """An AF_XDP socket bound to the veth, in copy mode."""
    return bind_socket(ifindex)


def live_frames() -> str:
    """A test run whose verdicts are carried out: the lab's traffic source."""
    fd = constant_program(ProgType.XDP, XdpAction.DROP)
    try:
        bpf.prog_test_run(fd, _LEAST_FRAME, repeat=1, flags=TestRunFlag.XDP_LIVE_FRAMES, batch=1)
    finally:
        os.close(fd)
    return "a frame made and dropped"


def _names(flags: IntFlag) -> str:
    return ", ".join((each.name or str(each)).lower().replace("_", "-") for each in flags)


ON_NAMESPACE: dict[str, Callable[[], str]] = {"live_frames": live_frames}
ON_DEVICE: dict[str, Callable[[int], str]] = {
    "native_xdp": native_xdp,
    "generic_xdp": generic_xdp,
    "xdp_features": xdp_features,
    "rx_metadata": rx_metadata,
    "bound_program": bound_program,
    "tcx": tcx,
    "af_xdp": af_xdp,
}
