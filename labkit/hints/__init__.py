"""Metadata that says what it is: formats known to the kernel, written by programs, read by whoever knows them.

    with lk.hints.Formats.load(spec) as formats, lk.hints.Capture(lab, server["eth0"]) as capture:
        formats.tell(program)                  # the ids that its meta_compose() writes
        lk.generate(client["eth0"], frame, packets=7)
        for packet in capture.take(7, timeout_s=5):
            print(lk.hints.read(packet))       # Decoded, or Foreign and why

After a proposal of 2022 for the kernel; bpf/common/meta.h is the C side.
"""

from __future__ import annotations

from labkit.errors import HintError
from labkit.hints.capture import Capture, Place
from labkit.hints.captured import Captured
from labkit.hints.declared import META_MOST
from labkit.hints.field import Field
from labkit.hints.format import Format
from labkit.hints.formats import Formats, open_formats
from labkit.hints.generic import CSUM_NONE, CSUM_VERIFIED, CSUM_WRONG, MAGIC, NO_QUEUE, GenericMeta
from labkit.hints.layout import GENERIC_BYTES, ID_BYTES, Layout
from labkit.hints.reading import Decoded, Foreign, read

__all__ = [
    "CSUM_NONE",
    "CSUM_VERIFIED",
    "CSUM_WRONG",
    "GENERIC_BYTES",
    "ID_BYTES",
    "MAGIC",
    "META_MOST",
    "NO_QUEUE",
    "Capture",
    "Captured",
    "Decoded",
    "Field",
    "Foreign",
    "Format",
    "Formats",
    "GenericMeta",
    "HintError",
    "Layout",
    "Place",
    "open_formats",
    "read",
]
