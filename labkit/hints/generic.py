"""The generic fields, the same at the end of every format: what a reader finds that knows nothing but the magic."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from struct import Struct, error
from typing import Any

from labkit.errors import HintError
from labkit.hints.layout import GENERIC_BYTES, ID_BYTES

__all__ = ["CSUM_NONE", "CSUM_VERIFIED", "CSUM_WRONG", "MAGIC", "NO_QUEUE", "GenericMeta", "id_bytes", "ids_of"]

# bpf/common/meta.h
MAGIC = 0x1AB5
NO_QUEUE = 0xFFFF
CSUM_NONE, CSUM_VERIFIED, CSUM_WRONG = 0, 1, 2

_ID = Struct("<IIH")  # type, BTF object, magic
# Two parts, as one of the fields is in network byte order.
_BEFORE, _VLAN_PROTO, _AFTER = Struct("<QIHH"), Struct(">H"), Struct("<HBB")
_CSUM = {CSUM_NONE: "not known", CSUM_VERIFIED: "found right", CSUM_WRONG: "wrong"}


def ids_of(meta: bytes) -> tuple[int, int, int] | None:
    """(type id, BTF id, magic) of the last ten bytes; None where there are fewer."""
    return _ID.unpack(meta[-ID_BYTES:]) if len(meta) >= ID_BYTES else None


def id_bytes(type_id: int, btf_id: int) -> bytes:
    """The last ten bytes of metadata: the ids and the magic."""
    return _ID.pack(type_id, btf_id, MAGIC)


@dataclass(frozen=True)
class GenericMeta:
    """The eight generic fields, by ``struct meta_generic`` of bpf/common/meta.h.

    ``timestamp_ns`` 0: not known. ``hash`` means something only with a ``hash_type`` (bits of enum xdp_rss_hash_type).
    ``queue`` 0xffff: not known. ``vlan_proto`` as one writes it (0x8100), 0: no tag. ``csum_status`` 0: not known,
    1: found right, 2: wrong; ``csum_level``: how many further checksums inside were found right.
    """

    timestamp_ns: int = 0
    hash: int = 0
    hash_type: int = 0
    queue: int = NO_QUEUE
    vlan_proto: int = 0
    vlan_tci: int = 0
    csum_status: int = CSUM_NONE
    csum_level: int = 0

    @classmethod
    def from_bytes(cls, meta: bytes | bytearray | memoryview) -> GenericMeta | None:
        """The fields in metadata that ends where the packet starts; None where the magic is missing, or some of the fields.

        Looks at the magic alone: whatever the format is, these fields are where they always are. Raises HintError for
        what isn't bytes.
        """
        if not isinstance(meta, (bytes, bytearray, memoryview)):
            raise HintError(
                f"{meta!r} isn't metadata.", tried="to read the generic fields", remedy="give bytes, as captured.meta"
            )
        held = bytes(meta)[-GENERIC_BYTES:]
        ids = ids_of(held)
        if ids is None or ids[2] != MAGIC or len(held) < GENERIC_BYTES:
            return None
        timestamp_ns, hash, hash_type, queue = _BEFORE.unpack_from(held)
        (vlan_proto,) = _VLAN_PROTO.unpack_from(held, _BEFORE.size)
        vlan_tci, csum_status, csum_level = _AFTER.unpack_from(held, _BEFORE.size + _VLAN_PROTO.size)
        return cls(timestamp_ns, hash, hash_type, queue, vlan_proto, vlan_tci, csum_status, csum_level)

    def encode(self, type_id: int, btf_id: int) -> bytes:
        """The 32 bytes with these ids and the magic. Raises HintError where a value doesn't fit its field."""
        try:
            return (
                _BEFORE.pack(self.timestamp_ns, self.hash, self.hash_type, self.queue)
                + _VLAN_PROTO.pack(self.vlan_proto)
                + _AFTER.pack(self.vlan_tci, self.csum_status, self.csum_level)
                + id_bytes(type_id, btf_id)
            )
        except error as cause:
            raise HintError(
                f"{self!r} with the ids {btf_id!r}:{type_id!r} doesn't fit 32 bytes.",
                tried="to encode metadata",
                detail=str(cause),
                remedy="whole numbers of the widths in bpf/common/meta.h",
            ) from cause

    def known(self) -> dict[str, Any]:
        """The fields that say something, by name."""
        said = {
            "timestamp_ns": bool(self.timestamp_ns),
            "hash": bool(self.hash_type),
            "hash_type": bool(self.hash_type),
            "queue": self.queue != NO_QUEUE,
            "vlan_proto": bool(self.vlan_proto),
            "vlan_tci": bool(self.vlan_proto),
            "csum_status": self.csum_status != CSUM_NONE,
            "csum_level": self.csum_status == CSUM_VERIFIED,
        }
        return {name: value for name, value in asdict(self).items() if said[name]}

    def describe(self) -> dict[str, str]:
        """name → value in words, for people; "not known" where the field says so."""
        known = self.known()
        words = {name: f"{value:,}" for name, value in asdict(self).items()}
        words |= {"hash": f"{self.hash:#010x}", "hash_type": f"{self.hash_type:#x}"}
        words |= {
            "vlan_proto": f"{self.vlan_proto:#06x}",
            "vlan_tci": f"{self.vlan_tci} (VLAN {self.vlan_tci & 0xFFF})",
        }
        words["csum_status"] = _CSUM.get(self.csum_status, f"{self.csum_status} (no such status)")
        return {name: text if name in known else "not known" for name, text in words.items()}
