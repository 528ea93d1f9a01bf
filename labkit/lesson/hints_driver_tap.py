"""A device whose driver runs XDP and knows no hints: a tap, made in a host's namespace for as long as it is needed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.compile.source import lesson_directory
from labkit.errors import FeatureError
from labkit.host import Host
from labkit.interface import refused
from labkit.kernel import bpf, rtnl
from labkit.kernel.netdev import DeviceFeatures, NetdevSocket
from labkit.program.program import Program, load_program
from labkit.uapi import AttachType, ProgFlag, XdpAction, XdpFlag

__all__ = ["Tap", "tap"]

# include/uapi/linux/if_tun.h
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_NAME = "tap0"


@dataclass(frozen=True)
class Tap:
    """Frames written to ``fd`` come in by the device; ``program`` is ``bpf/hints_seen.c``, bound to it, and drops them."""

    fd: int
    program: Program
    features: DeviceFeatures

    def receive(self, frame: bytes, packets: int) -> None:
        """Let ``packets`` copies of ``frame`` come in. Each write returns when the program has run."""
        for _ in range(packets):
            os.write(self.fd, frame)


@contextlib.contextmanager
def tap(host: Host) -> Iterator[Tap]:
    """While it lasts, ``host`` has a tap device with a program that asks its driver. Raises FeatureError, TopologyError."""
    with contextlib.ExitStack() as made:
        fd = host.run(_opened)
        made.callback(os.close, fd)
        index = host.run(socket.if_nametoindex, _NAME)
        program = host.run(_bound, index)
        made.callback(program.close)
        with refused("to bring a tap device up", f"{host.name} {_NAME}"):
            host.run(host.rtnl.send, [rtnl.set_link(index, up=True)])
            link = host.run(bpf.link_create, program.fd, index, AttachType.XDP, int(XdpFlag.DRV_MODE))
        made.callback(os.close, link)
        yield Tap(fd, program, host.run(_features, index))


def _opened() -> int:
    try:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _no_tap(error) from error
    try:
        # struct ifreq. Without IFF_NAPI, and with O_NONBLOCK, the driver runs XDP on the bytes themselves, before an skb.
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", _NAME.encode(), _IFF_TAP | _IFF_NO_PI))
    except OSError as error:
        os.close(fd)
        raise _no_tap(error) from error
    return fd


def _no_tap(error: OSError) -> FeatureError:
    return FeatureError(
        "There is no tap device to be had here.",
        tried="to make one with /dev/net/tun",
        errno=error.errno,
        remedy="a kernel with TUN, and the right to make network devices",
    )


def _bound(index: int) -> Program:
    spec = compile_source(path=lesson_directory() / "hints_seen.c")
    program = load_program(spec, explain=verifier_error, flags=ProgFlag.XDP_DEV_BOUND_ONLY, ifindex=index)
    program.maps["action"][0] = XdpAction.DROP
    return program


def _features(index: int) -> DeviceFeatures:
    with NetdevSocket() as netdev:
        return netdev.features(index)
