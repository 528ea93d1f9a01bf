"""The offloads that a lab switches off, so that nothing but the program changes a frame: each may be turned back on."""

from __future__ import annotations

import time

from labkit.errors import TopologyError
from labkit.interface import FEATURE_NAMES
from labkit.lab import Lab

__all__ = ["OFFLOADS", "Offloads"]

# A control's name → the interface's switch, and what it is called on the page.
OFFLOADS = {
    "tx_checksum": ("tx-checksum", "Checksum offload"),
    "tx_vlan": ("tx-vlan", "VLAN offload, sending"),
    "rx_vlan": ("rx-vlan", "VLAN offload, receiving"),
}
_SHORT = {"tx_checksum": "checksums", "tx_vlan": "VLAN tags on sending", "rx_vlan": "VLAN tags on receiving"}
_FRESH_S = 2.0  # a cell may switch them, too


class Offloads:
    """The switches of all interfaces of ``lab`` at once."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._read_at = 0.0
        self._on: dict[str, bool] = {}
        self._at: dict[str, tuple[str, ...]] = {}

    def states(self) -> dict[str, bool]:
        """Whether each is on, at one interface at least; read again every two seconds."""
        if not self._on or time.monotonic() - self._read_at > _FRESH_S:
            interfaces = list(self._lab.interfaces)
            found = [each.features() for each in interfaces]
            names = {name: FEATURE_NAMES[switch] for name, (switch, _) in OFFLOADS.items()}
            self._on = {name: any(f.get(k) for f in found for k in kernel) for name, kernel in names.items()}
            self._at = {
                each.where: tuple(name for name, kernel in names.items() if any(f.get(k) for k in kernel))
                for each, f in zip(interfaces, found, strict=True)
            }
            self._read_at = time.monotonic()
        return dict(self._on)

    def at_interfaces(self) -> dict[str, str]:
        """``server eth0`` → which of them are on there and which off, and what for, in words; as ``states`` last read."""
        self.states()
        return {where: _in_words(on) for where, on in self._at.items()}

    def switch(self, name: str, value: str) -> None:
        """Turn one "on" or "off" at every interface. Raises TopologyError."""
        if value not in ("on", "off"):
            raise TopologyError(
                f"{name} can't be {value!r}.",
                tried="to switch an offload",
                on=self._lab.name,
                remedy='use "on" or "off"',
            )
        switch, label = OFFLOADS[name]
        for each in self._lab.interfaces:
            each.set_feature(switch, value == "on")
        self._on = {}
        self._lab.tell("info", f"{label}: {value} at every interface.")

    def notes(self) -> tuple[str, ...]:
        """What keeps other packets and changes out of the counts just now, in sentences."""
        on = [OFFLOADS[name][1] for name, is_on in self.states().items() if is_on]
        said = "Checksum and VLAN offloads off." if not on else f"Switched on: {', '.join(on)}."
        return (said, "IPv6 off.", "Neighbours fixed.")


def _in_words(on: tuple[str, ...]) -> str:
    """``offloads off: checksum, …, so that …``; those that are on first."""
    said = [f"offloads on: {', '.join(_SHORT[name] for name in on)}"] if on else []
    off = [_SHORT[name] for name in OFFLOADS if name not in on]
    if off:
        said.append(f"offloads off: {', '.join(off)} (so a program sees each frame whole, as it is on the wire)")
    return " · ".join(said)
