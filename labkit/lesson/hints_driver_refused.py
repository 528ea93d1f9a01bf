"""Every way in which a program that asks for hints is refused, each really tried."""

from __future__ import annotations

import errno
from collections.abc import Callable

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import LabError, VerifierError
from labkit.kernel import rtnl
from labkit.lab import Lab
from labkit.lesson.page import Table
from labkit.topology import Topology
from labkit.uapi import AttachType, ProgType

__all__ = ["SLOTS", "TOO_SMALL", "hints_refused"]

SLOTS = """\
#include "common/maps.h"
#include <uapi/linux/bpf.h>

LAB_DEVMAP_PROGRAMS(ports, 1);
LAB_CPUMAP(cpus, 1);
BPF_PROG_ARRAY(next, 1);

int slots(struct xdp_md *ctx)
{
	next.call(ctx, 0);
	return ctx->rx_queue_index ? cpus.redirect_map(0, 0) : ports.redirect_map(0, 0);
}
"""
TOO_SMALL = """\
#include "common/hints.h"

int too_small(struct xdp_md *ctx)
{
	u32 timestamp = 0;

	return bpf_xdp_metadata_rx_timestamp(ctx, &timestamp) ? XDP_PASS : XDP_DROP;
}
"""
_NULL = """\
#include "common/hints.h"

int nowhere(struct xdp_md *ctx)
{
	u32 hash = 0;

	return bpf_xdp_metadata_rx_hash(ctx, &hash, NULL) ? XDP_PASS : XDP_DROP;
}
"""
_PLAIN_TC = """\
#include <uapi/linux/bpf.h>

int classifier(struct __sk_buff *skb) { return 0; }
"""


def hints_refused() -> Table:
    """A row for each attempt: the kernel's error number, what it means, what to do. In a lab of its own, "refused"."""
    with Lab(Topology.router(), name="refused") as lab:
        rows = [_row(what, attempt) for what, attempt in _attempts(lab)]
    caption = "Each really tried. Not asked: labkit refuses, and the kernel isn't asked."
    return Table(("tried", "kernel", "that is", "what to do"), tuple(rows), caption)


def _row(what: str, attempt: Callable[[], object]) -> tuple[str, str, str, str]:
    try:
        attempt()
    except LabError as error:
        said = error.meaning if isinstance(error, VerifierError) else error.message
        number = errno.errorcode.get(error.errno or 0, "not asked")
        return what, number, said or error.message, error.remedy
    return what, "–", "it was taken", "–"


def _attempts(lab: Lab) -> list[tuple[str, Callable[[], object]]]:
    server, other = lab["server"]["eth0"], lab["router"]["eth0"]
    spec = compile_source(path=lesson_directory() / "hints_seen.c")
    bound, slots = lab.load(spec, device=server), lab.load(compile_source(text=SLOTS))
    there = lab.load(
        spec, device=other
    )  # from here on the kernel's own check lets anything bound pass at the router's eth0

    def in_slot(name: str, target: object, kind: AttachType) -> Callable[[], object]:
        program = lab.load(spec, device=server, expected_attach_type=kind)
        return lambda: slots.maps[name].__setitem__(0, (target, program))

    def text(source: str) -> Callable[[], object]:
        return lambda: lab.load(compile_source(text=source), device=server)

    def swapped() -> None:
        with there.attach(other) as link:
            link.replace(bound)

    def bind_classifier() -> object:
        return lab.load(compile_source(text=_PLAIN_TC), type=ProgType.SCHED_CLS, device=server)

    def after_its_end() -> object:
        server.peer.host.run(server.peer.host.rtnl.send, [rtnl.delete_link(server.peer.name)])
        return lab.load(spec, device=server)

    return [
        ("loaded without a device", lambda: lab.load(spec)),
        ("bound, attached in generic mode", lambda: bound.attach(server, mode="generic")),
        ("bound, attached to another device", lambda: bound.attach(other)),
        ("bound, swapped in at another device", swapped),
        ("bound, in the slot of a device map", in_slot("ports", other, AttachType.XDP_DEVMAP)),
        ("bound, in the slot of a CPU map", in_slot("cpus", 64, AttachType.XDP_CPUMAP)),
        ("bound, as the target of a tail call", lambda: slots.maps["next"].__setitem__(0, bound.fd)),
        ("a TC program, bound", bind_classifier),
        ("a variable too small for the answer", text(TOO_SMALL)),
        ("no variable for the answer", text(_NULL)),
        ("bound to a device that has gone", after_its_end),
        ("bound, then its device went; attached", lambda: bound.attach(server)),
    ]
