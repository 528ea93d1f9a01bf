"""A driver's answers in words: what each return code of its three functions means, and when a number is none."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

from labkit.errors import LessonError, kernel_word
from labkit.kernel.netdev import RssHash

__all__ = ["Answer", "code_words", "hash_words", "timestamp_of", "timestamp_words", "vlan_words"]

_NONE_HERE = "this packet has none"
_NONE_EVER = "this driver has none for any packet"
_MEANINGS = {0: "answered", -errno.ENODATA: _NONE_HERE, -errno.EOPNOTSUPP: _NONE_EVER}
_NAMES = {errno.EOPNOTSUPP: "EOPNOTSUPP"}  # Python lists its other name
_ETHERTYPES = {0x0800: "IPv4", 0x86DD: "IPv6", 0x0806: "ARP", 0x8100: "a VLAN tag", 0x88A8: "a VLAN tag (802.1ad)"}
_BITS = {
    RssHash.L3_IPV4: "IPv4 addresses",
    RssHash.L3_IPV6: "IPv6 addresses",
    RssHash.L3_DYNHDR: "options or extension headers",
    RssHash.L4: "ports",
    RssHash.L4_TCP: "TCP",
    RssHash.L4_UDP: "UDP",
    RssHash.L4_SCTP: "SCTP",
    RssHash.L4_IPSEC: "IPsec",
    RssHash.L4_ICMP: "ICMP",
}


def code_words(code: int) -> str:
    """What a return code says: 0, or an errno below 0. Raises LessonError for what can't be one."""
    if isinstance(code, bool) or not isinstance(code, int) or code > 0:
        raise LessonError(
            f"{code!r} is no return code.", tried="to put an answer in words", remedy="give 0, or an errno below 0"
        )
    meaning = _MEANINGS.get(code)
    if code == 0:
        return "answered"
    name = _NAMES.get(-code) or kernel_word(-code).split(",")[0]
    return f"{name}: {meaning or 'refused'}"


def timestamp_of(code: int, value_ns: int) -> int | None:
    """The time that a driver gave, in ns of its own clock; None where it gave none.

    0 is none even with return code 0: nobody stamped the packet. Such a number must never become a latency.
    """
    code_words(code)
    return value_ns if code == 0 and value_ns > 0 else None


def timestamp_words(code: int, value_ns: int) -> str:
    """The answer to ``bpf_xdp_metadata_rx_timestamp`` in words; "no time" wherever ``timestamp_of`` has none."""
    found = timestamp_of(code, value_ns)
    if found is not None:
        return f"received at {found / 1e9:.9f} s of the device's clock"
    return "no time (answered, with 0)" if code == 0 else f"no time ({code_words(code)})"


def hash_words(code: int, type: int) -> str:
    """The answer to ``bpf_xdp_metadata_rx_hash`` in words: of what the number was made, by its type."""
    if code:
        return f"no hash ({code_words(code)})"
    known = RssHash(type & sum(RssHash))
    parts = [words for bit, words in _BITS.items() if bit & known]
    if known == RssHash.L4:
        return "a hash, ports in it (type 8)"
    return f"a hash of {', '.join(parts)} (type {type})" if parts else f"a hash, of what it doesn't say (type {type})"


def vlan_words(code: int, tci: int) -> str:
    """The answer to ``bpf_xdp_metadata_rx_vlan_tag`` in words; ``tci`` is priority and number in host byte order."""
    if code:
        return f"no tag ({code_words(code)})"
    return f"tag {tci & 0xFFF}, priority {tci >> 13}"


@dataclass(frozen=True)
class Answer:
    """What a driver answered to ``bpf/hints_seen.c``, for ``packets`` packets alike; numbers are those of the last."""

    packets: int
    hash_code: int
    hash_type: int
    hash: int
    timestamp_code: int
    timestamp_ns: int
    vlan_code: int
    vlan_tci: int
    frame_proto: int

    @classmethod
    def of(cls, key: dict[str, Any], value: dict[str, Any]) -> Answer:
        """From an entry of the program's map ``answers``."""
        asked = {name: key[name] for name in key if name != "timestamp_set"}
        return cls(packets=value["packets"], hash=value["hash"], timestamp_ns=value["timestamp_ns"], **asked)

    @property
    def codes(self) -> tuple[int, int, int]:
        """Return codes for hash, timestamp and VLAN tag."""
        return self.hash_code, self.timestamp_code, self.vlan_code

    @property
    def words(self) -> tuple[str, str, str]:
        """The same in words."""
        return (
            hash_words(self.hash_code, self.hash_type),
            timestamp_words(self.timestamp_code, self.timestamp_ns),
            vlan_words(self.vlan_code, self.vlan_tci),
        )

    @property
    def in_the_frame(self) -> str:
        """What the frame itself announces behind its addresses."""
        return f"{self.frame_proto:#06x}, {_ETHERTYPES.get(self.frame_proto, 'something else')}"
