"""Driver statistics and offload features by the ethtool ioctl, include/uapi/linux/ethtool.h."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct

__all__ = ["EthtoolSocket"]

_SIOCETHTOOL = 0x8946  # include/uapi/linux/sockios.h
_GSTRINGS, _GSTATS, _GTSO, _GSSET_INFO, _GFEATURES, _SFEATURES = 0x1B, 0x1D, 0x1E, 0x37, 0x3A, 0x3B
_SS_STATS, _SS_FEATURES = 1, 4
_NAME_BYTES = 32  # ETH_GSTRING_LEN


class EthtoolSocket:
    """Asks the drivers of the namespace of the thread that makes it; usable from any thread."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._names: dict[tuple[str, int], list[str]] = {}

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _ioctl(self, interface: str, request: bytes) -> bytes:
        buffer = ctypes.create_string_buffer(request, len(request))
        packed = struct.pack("=16sQ16x", interface.encode(), ctypes.addressof(buffer))  # struct ifreq, 40 bytes
        fcntl.ioctl(self._socket, _SIOCETHTOOL, packed)
        return buffer.raw

    def _strings(self, interface: str, which: int) -> list[str]:
        known = self._names.get((interface, which))
        if known is None:
            head = self._ioctl(interface, struct.pack("=IIQI", _GSSET_INFO, 0, 1 << which, 0))
            (mask,), (count,) = struct.unpack_from("=Q", head, 8), struct.unpack_from("=I", head, 16)
            if not mask:
                count = 0
            raw = self._ioctl(interface, struct.pack("=III", _GSTRINGS, which, count) + bytes(count * _NAME_BYTES))
            cells = (raw[12 + i * _NAME_BYTES :][:_NAME_BYTES] for i in range(count))
            known = [cell.split(b"\0")[0].decode() for cell in cells]
            self._names[(interface, which)] = known
        return known

    def statistics(self, interface: str) -> dict[str, int]:
        """The driver's own counters (``ethtool -S``), name → count; for veth also per queue, as ``rx_queue_0_xdp_drops``."""
        names = self._strings(interface, _SS_STATS)
        raw = self._ioctl(interface, struct.pack("=II", _GSTATS, len(names)) + bytes(8 * len(names)))
        return dict(zip(names, struct.unpack_from(f"={len(names)}Q", raw, 8), strict=True))

    def leaves_segments_together(self, interface: str) -> bool:
        """Whether TCP's segments go to the driver as one large packet (TSO), as it is now: XDP at the peer ends it."""
        _, on = struct.unpack("=II", self._ioctl(interface, struct.pack("=II", _GTSO, 0)))
        return bool(on)

    def features(self, interface: str) -> dict[str, bool]:
        """Offload features by the kernel's names (``ethtool -k`` prints friendlier ones) and whether each is on."""
        names = self._strings(interface, _SS_FEATURES)
        blocks = (len(names) + 31) // 32
        raw = self._ioctl(interface, struct.pack("=II", _GFEATURES, blocks) + bytes(16 * blocks))
        # struct ethtool_get_features_block { available, requested, active, never_changed }
        active = [struct.unpack_from("=I", raw, 8 + 16 * b + 8)[0] for b in range(blocks)]
        return {name: bool(active[i // 32] >> (i % 32) & 1) for i, name in enumerate(names) if name}

    def set_features(self, interface: str, wanted: dict[str, bool]) -> None:
        """Turn features on or off. Raises KeyError for a name the kernel doesn't have, OSError where it refuses."""
        names = self._strings(interface, _SS_FEATURES)
        blocks = (len(names) + 31) // 32
        valid, requested = [0] * blocks, [0] * blocks
        for name, on in wanted.items():
            if name not in names:
                raise KeyError(name)
            i = names.index(name)
            valid[i // 32] |= 1 << (i % 32)
            requested[i // 32] |= on << (i % 32)
        pairs = [word for pair in zip(valid, requested, strict=True) for word in pair]
        self._ioctl(interface, struct.pack(f"=II{2 * blocks}I", _SFEATURES, blocks, *pairs))
