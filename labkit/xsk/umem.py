"""The memory that an AF_XDP socket shares with the kernel, cut into frames of one size."""

from __future__ import annotations

import ctypes
import mmap
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import StateError
from labkit.xsk.checks import check_addresses, check_machine, check_power_of_two, check_whole, refused

__all__ = ["KERNEL_HEADROOM", "Umem"]

# XDP_UMEM_MIN_CHUNK_SIZE and XDP_PACKET_HEADROOM: net/xdp/xdp_umem.c, include/uapi/linux/bpf.h
_SMALLEST, KERNEL_HEADROOM = 2048, 256
_PAGE = mmap.PAGESIZE
_MOST_BYTES = 1 << 30
_TRIED = "to set up memory for AF_XDP"
_MAGIC_BYTES = 2  # the last before the packet: what labkit.hints knows its own metadata by


class Umem:
    """``frames`` frames of ``frame_size`` bytes (2048, or 4096: a power of two that fits a page).

    ``headroom`` bytes are kept free at the beginning of a frame, beside the 256 that the kernel keeps anyway; a received
    packet lies behind them and may have up to ``room`` bytes. The memory is locked while a socket uses it, and counts
    against the memory-lock limit (ulimit -l) of users without CAP_IPC_LOCK: 2,048 frames of 2 KiB are 4 MiB.

    Frames of it are at every moment in one of the rings, with the kernel, or with the program: ``free`` of these are
    waiting to be used. Raises XskError for sizes the kernel wouldn't take, FeatureError on machines that can't.
    """

    def __init__(self, frames: int = 2048, frame_size: int = 2048, headroom: int = 0) -> None:
        check_machine()
        self.frame_size = check_power_of_two("frame_size", frame_size, _SMALLEST, _PAGE, _TRIED)
        self.frames = check_whole("frames", frames, 1, _MOST_BYTES // frame_size, _TRIED)
        self.headroom = check_whole("headroom", headroom, 0, frame_size - KERNEL_HEADROOM - 64, _TRIED)
        if headroom % 2:
            raise refused(f"headroom can't be {headroom}.", _TRIED, "give an even number of bytes")
        self.closed = False
        self._area = mmap.mmap(-1, frames * frame_size)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._area, np.uint8).reshape(frames, frame_size)
        self._magics = self.bytes.view(np.uint16)[:, self.packet_at // 2 - 1]
        self._shift = np.uint64(frame_size.bit_length() - 1)
        self._base = np.uint64(~(frame_size - 1) & 0xFFFFFFFFFFFFFFFF)
        self._free = np.arange(frames, dtype=np.uint64)[::-1] * np.uint64(frame_size)  # a stack: address 0 comes first
        self.free = frames
        self.lock = threading.RLock()
        self.users: list[Any] = []  # the sockets that have it

    @property
    def size_bytes(self) -> int:
        """The whole of it."""
        return self.frames * self.frame_size

    @property
    def address(self) -> int:
        """Where it lies in this process."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self._area))

    @property
    def packet_at(self) -> int:
        """Bytes from a frame's beginning to the packet that the kernel copies into it."""
        return self.headroom + KERNEL_HEADROOM

    @property
    def room(self) -> int:
        """Bytes of the longest packet that a frame can receive."""
        return self.frame_size - self.packet_at

    def take(self, most: int) -> NDArray[np.uint64]:
        """Addresses of up to ``most`` free frames: they are the caller's until given back or put into a ring."""
        check_whole("most", most, 0, _MOST_BYTES, "to take frames")
        with self.lock:
            self.check_open("to take frames")
            number = min(most, self.free)
            self.free -= number
            return self._free[self.free : self.free + number][::-1].copy()

    def give_back(self, addresses: NDArray[np.uint64]) -> None:
        """Frames that nobody uses any more, by any address inside them. Raises XskError where there are too many."""
        check_addresses(addresses, "to give frames back")
        with self.lock:
            if self.closed:
                return
            end = self.free + len(addresses)
            if end > self.frames:
                raise refused(
                    f"{end:,} free frames would be more than the {self.frames:,} there are.",
                    "to give frames back",
                    "give each back once only",
                )
            self._free[self.free : end] = addresses & self._base
            self.free = end

    def returned(self, addresses: NDArray[np.uint64]) -> None:
        """Frames out of the rings of a socket that is closed; with the last socket the kernel lets go of all."""
        if self.users:
            self.give_back(addresses)
        else:
            self._free = np.arange(self.frames, dtype=np.uint64)[::-1] * np.uint64(self.frame_size)
            self.free = self.frames

    def check(self, addresses: NDArray[np.uint64], tried: str) -> None:
        """Raise XskError where an address lies outside the memory."""
        if len(addresses) and int(addresses.max()) >= self.size_bytes:
            outside = int(addresses.max())
            raise refused(
                f"{outside:,} is no address in this memory.",
                tried,
                f"use 0 to {self.size_bytes - 1:,}, as take() gives",
            )

    def forget_metadata(self, addresses: NDArray[np.uint64]) -> None:
        """Wipe the mark of metadata right before where a packet will lie.

        The kernel copies metadata only where a program wrote some: what the frame's last packet had would else be taken for
        the next one's.
        """
        self._magics[addresses >> self._shift] = 0

    def view(self, address: int, length: int) -> NDArray[np.uint8]:
        """The bytes themselves: ``length`` of them from ``address`` on; not a copy. Raises XskError outside one frame."""
        self.check_open("to look into a frame")
        frame, at = divmod(int(address), self.frame_size)
        if not 0 <= frame < self.frames or not 0 <= length <= self.frame_size - at:
            raise refused(
                f"{length} bytes from {address} on are not within one frame.",
                "to look into a frame",
                f"the memory has {self.frames:,} frames of {self.frame_size:,} bytes",
            )
        return self.bytes[frame, at : at + length]

    def check_open(self, what: str) -> None:
        """Raise StateError after close."""
        if self.closed:
            raise StateError("This memory is closed.", tried=what, remedy="make another Umem, and sockets with it")

    def close(self) -> None:
        """Let go of it, once no socket uses it; views that somebody keeps stay valid. Safe to call again.

        Raises StateError while a socket uses it.
        """
        with self.lock:
            if self.closed:
                return
            if self.users:
                raise StateError(
                    f"{len(self.users)} socket(s) use this memory: {', '.join(each.where for each in self.users)}.",
                    tried="to close it",
                    remedy="close the sockets first",
                )
            self.closed = True
            del self.bytes, self._magics, self._area  # the last view to go unmaps it

    def __enter__(self) -> Umem:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.free:,} free"
        return (
            f"<umem: {self.frames:,} frames of {self.frame_size:,} bytes, {self.size_bytes / 2**20:.3g} MiB, {state}>"
        )
