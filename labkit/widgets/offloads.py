"""The offloads that a lab switches off, so that nothing but the program changes a frame: each may be turned back on."""

from __future__ import annotations

import time

from labkit.errors import TopologyError
from labkit.interface import _FEATURE_NAMES as KERNEL_NAMES
from labkit.lab import Lab

__all__ = ["OFFLOADS", "Offloads"]

# A control's name → the interface's switch, and what it is called on the page.
OFFLOADS = {
    "tx_checksum": ("tx-checksum", "Checksum offload"),
    "tx_vlan": ("tx-vlan", "VLAN offload, sending"),
    "rx_vlan": ("rx-vlan", "VLAN offload, receiving"),
}
_FRESH_S = 2.0  # a cell may switch them, too


class Offloads:
    """The switches of all interfaces of ``lab`` at once."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._read_at = 0.0
        self._on: dict[str, bool] = {}

    def states(self) -> dict[str, bool]:
        """Whether each is on, at one interface at least; read again every two seconds."""
        if not self._on or time.monotonic() - self._read_at > _FRESH_S:
            found = [each.features() for each in self._lab.interfaces]
            names = {name: KERNEL_NAMES[switch] for name, (switch, _) in OFFLOADS.items()}
            self._on = {name: any(f.get(k) for f in found for k in kernel) for name, kernel in names.items()}
            self._read_at = time.monotonic()
        return dict(self._on)

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
