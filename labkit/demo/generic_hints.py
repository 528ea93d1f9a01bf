"""Self-describing metadata: three formats mixed, a format that the consumer doesn't know, and packets without any."""

from __future__ import annotations

from labkit.demo.result import DemoResult
from labkit.hints import Formats
from labkit.lesson.generic_hints_path import GenericPath

__all__ = ["run"]

_FLOWS = 16
_FOREIGN_SLOT = 3  # META_OWN, bpf/common/meta.h
_MIXED = ("meta_generic", "meta_flow", "meta_latency", None)


def run(packets: int) -> DemoResult:
    """Send ``packets`` UDP frames of 16 flows; of eight, six are decoded, one has a foreign format, one has none."""
    with Formats.load() as foreign, GenericPath("demo-generic") as path:
        path.choose(*_MIXED)
        theirs = next(iter(foreign))
        path.composer.maps["meta_formats"][_FOREIGN_SLOT] = {"type_id": theirs.type_id, "btf_id": theirs.btf_id}
        path.composer.maps["format_of"][7] = path.composer.maps["format_of"][15] = _FOREIGN_SLOT
        seen = path.run(packets, flows=_FLOWS)
        right = seen.decoded_packets - seen.used["misread"]
        return DemoResult("generic-hints", seen.report, seen.ledger, right, seen.foreign_packets)
