"""Links: an XDP program on an interface, by a BPF link that ends with the process."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, Literal, Protocol

from labkit.errors import AttachError, PrivilegeError, StateError, kernel_word, resources
from labkit.kernel import bpf
from labkit.kernel.gate import privilege_remedy
from labkit.program.program import Program
from labkit.uapi import AttachType, XdpFlag

__all__ = ["MODES", "AttachPoint", "Attached", "Link", "Mode"]

Mode = Literal["native", "generic"]
MODES: dict[Mode, XdpFlag] = {"native": XdpFlag.DRV_MODE, "generic": XdpFlag.SKB_MODE}

# What veth's ring page holds besides the frame: 256 bytes of headroom (VETH_XDP_HEADROOM, drivers/net/veth.c), about
# 320 of struct skb_shared_info, 14 of Ethernet header. The kernel compares with the MTU of the peer, which fills the ring.
_BESIDES_THE_FRAME = 256 + 320 + 14


class Attached(Protocol):
    """What an interface has attached, read back from the kernel."""

    @property
    def mode(self) -> str: ...
    @property
    def program_id(self) -> int: ...
    @property
    def program_name(self) -> str: ...


class AttachPoint(Protocol):
    """What a link needs of an interface."""

    @property
    def where(self) -> str: ...
    @property
    def ifindex(self) -> int: ...
    @property
    def mtu(self) -> int: ...
    @property
    def peer(self) -> Any: ...
    def run(self, function: Callable[..., Any], *args: Any) -> Any: ...
    def xdp(self) -> Attached | None: ...


class LinkOwner(Protocol):
    """Who is told of a link's life: the lab."""

    def link_replacing(self, link: Link, new: Program) -> None: ...
    def link_replaced(self, link: Link, old: Program) -> None: ...
    def link_closed(self, link: Link) -> None: ...


class Link:
    """A program at an interface. ``replace`` swaps the program atomically, ``close`` takes it off.

    The link ends with the process that made it: after a crash or a kill nothing stays attached.
    """

    def __init__(self, program: Program, interface: AttachPoint, mode: Mode, fd: int, owner: LinkOwner) -> None:
        self.program = program
        self.interface = interface
        self.mode: Mode = mode
        self.id = bpf.link_info(fd).id
        self._fd: int | None = fd
        self._owner = owner

    @classmethod
    def attach(cls, program: Program, interface: AttachPoint, mode: Mode, owner: LinkOwner) -> Link:
        """Attach and read back. Raises AttachError, with the cause and the remedy, where it can't be done."""
        if not isinstance(mode, str) or mode not in MODES:
            raise AttachError(
                f"There is no XDP mode {mode!r}.",
                tried="to attach a program",
                on=interface.where,
                remedy='use mode="native" (in the driver) or mode="generic" (in the stack, for every device)',
            )
        _check_bound(program, interface, f"to attach {program.name} ({mode})")
        found = interface.xdp()
        if found is not None:
            raise _occupied(interface, found, errno.EBUSY)
        try:
            with resources(f"to attach {program.name}", interface.where):
                fd = interface.run(bpf.link_create, program.fd, interface.ifindex, AttachType.XDP, int(MODES[mode]))
        except OSError as error:
            raise _not_attached(program, interface, mode, error) from error
        link = cls(program, interface, mode, fd, owner)
        link._verify()
        return link

    def _verify(self) -> None:
        found = self.interface.xdp()
        if found is None or found.program_id != self.program.id or found.mode != self.mode:
            self.close()
            raise AttachError(
                f"The kernel took {self.program.name} but shows something else at {self.interface.where}.",
                tried="to read the attachment back",
                on=self.interface.where,
                detail=f"expected #{self.program.id} in {self.mode} mode, found {found}",
                remedy="attach again; if it repeats, another program on this machine changes the interface",
            )

    @property
    def closed(self) -> bool:
        """Whether the program was taken off."""
        return self._fd is None

    def replace(self, program: Program) -> Link:
        """Swap to ``program`` between two packets: none is lost or runs through neither. Returns the link itself.

        Raises AttachError, also for a program of another lab: its counts would be in that lab's ledger.
        """
        if self._fd is None:
            raise StateError(
                "This link is closed.",
                tried="to replace its program",
                on=self.interface.where,
                remedy="attach the program instead: program.attach(interface)",
            )
        if not isinstance(program, Program) or program.attacher != self.program.attacher:
            raise AttachError(
                f"{program!r} is not a program of this lab.",
                tried="to replace a program",
                on=self.interface.where,
                remedy="give what lab.load(…) of the same lab returned",
            )
        tried = f"to replace {self.program.name} by {program.name} ({self.mode})"
        _check_bound(program, self.interface, tried)
        if program.device is not None and self.mode == "generic":  # the kernel wouldn't mind: see _check_bound
            raise _bound_in_generic_mode(program, self.interface, tried, None)
        self._owner.link_replacing(self, program)
        try:
            bpf.link_update(self._fd, program.fd)
        except OSError as error:
            raise _not_attached(program, self.interface, self.mode, error) from error
        old, self.program = self.program, program
        self._owner.link_replaced(self, old)
        return self

    def close(self) -> None:
        """Take the program off and check that it is gone. Safe to call again."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        try:
            bpf.link_detach(fd)
        except OSError as error:
            if error.errno != errno.ENOLINK:  # the interface went first, and took the attachment with it
                raise
        finally:
            os.close(fd)
            self._owner.link_closed(self)

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"link {self.id}"
        return f"<{self.program.name} #{self.program.id} at {self.interface.where}, {self.mode} mode, {state}>"


def _occupied(interface: AttachPoint, found: Attached, number: int) -> AttachError:
    return AttachError(
        f"{interface.where} has a program already: {found.program_name or 'a program without a name'}, id {found.program_id}, "
        f"{found.mode} mode.",
        tried="to attach a program",
        on=interface.where,
        errno=number,
        remedy="close its link first, or use link.replace(program) to swap programs without a gap",
    )


def _check_bound(program: Program, interface: AttachPoint, tried: str) -> None:
    """Raise AttachError for a program that is bound to another device than ``interface``.

    The kernel's own check can't be relied on: it lets any bound program pass where some program is bound to this device,
    too (bpf_offload_dev_match, kernel/bpf/offload.c), and a swap isn't checked at all (bpf_xdp_link_update, net/core/dev.c).
    """
    if program.device is not None and program.device.where != interface.where:
        raise AttachError(
            f"{program.name} is bound to {program.device.where}: it asks that device's driver, and runs nowhere else.",
            tried=tried,
            on=interface.where,
            detail="in the kernel's words, where it notices: Program bound to different device",
            remedy="load it for this one too: lab.load(spec, device=…, maps=program.maps) shares its maps",
        )


def _bound_in_generic_mode(program: Program, interface: AttachPoint, tried: str, number: int | None) -> AttachError:
    return AttachError(
        f"{program.name} is bound to {interface.where}: it asks the driver, and generic mode runs outside of it.",
        tried=tried,
        on=interface.where,
        errno=number,
        detail="in the kernel's words: Can't attach device-bound programs in generic mode",
        remedy='attach with mode="native"',
    )


def _not_attached(program: Program, interface: AttachPoint, mode: Mode, error: OSError) -> AttachError | PrivilegeError:
    number = error.errno or 0
    if number == errno.EPERM:
        return PrivilegeError(
            "This process may not attach XDP programs.",
            tried=f"to attach {program.name}",
            on=interface.where,
            errno=number,
            remedy=privilege_remedy(),
        )
    message, remedy = f"{program.name} could not be attached: {kernel_word(number)}.", "see the kernel's word above"
    if number == errno.ERANGE:
        most = os.sysconf("SC_PAGE_SIZE") - _BESIDES_THE_FRAME
        message = f"The peer {interface.peer.where} has MTU {interface.peer.mtu}: too large for native XDP here."
        remedy = (
            f"native XDP wants a frame in one page: set the peer's MTU to {most} or less, load the program with frags "
            'support (lab.load(…, frags=True)), or attach with mode="generic"'
        )
    elif number in (errno.EBUSY, errno.EEXIST):
        found = interface.xdp()
        if found is not None:
            return _occupied(interface, found, number)
    elif number == errno.EOPNOTSUPP:
        remedy = f'this device has no {mode} XDP: use mode="generic"'
    elif number == errno.EINVAL and program.expected_attach_type in (AttachType.XDP_DEVMAP, AttachType.XDP_CPUMAP):
        message = (
            f"{program.name} was loaded for {AttachType(program.expected_attach_type).name}: to run from a map's slot."
        )
        remedy = "write it into one, as ports[0] = interface, program; or load it without expected_attach_type"
    elif number == errno.EINVAL and program.device is not None and mode == "generic":
        return _bound_in_generic_mode(program, interface, f"to attach {program.name} ({mode})", number)
    return AttachError(
        message, tried=f"to attach {program.name} ({mode})", on=interface.where, errno=number, remedy=remedy
    )
