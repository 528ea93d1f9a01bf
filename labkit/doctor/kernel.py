"""Rows about the kernel: each is tried, and those that can't be tried say why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from labkit.doctor.machine import in_user_namespace
from labkit.doctor.report import Row
from labkit.kernel import features
from labkit.kernel.features import Feature
from labkit.uapi import MapType

__all__ = ["LAB_MAP_TYPES", "LAB_TRACEPOINTS", "kernel_rows"]

# What lessons and the ledger make and attach to. The first four carry every lab: the ledger and the generator use them.
LAB_MAP_TYPES = (
    MapType.ARRAY,
    MapType.PERCPU_ARRAY,
    MapType.HASH,
    MapType.DEVMAP,
    MapType.PERCPU_HASH,
    MapType.LRU_HASH,
    MapType.LPM_TRIE,
    MapType.PROG_ARRAY,
    MapType.PERF_EVENT_ARRAY,
    MapType.RINGBUF,
    MapType.CPUMAP,
    MapType.XSKMAP,
)
_NEEDED_MAPS = LAB_MAP_TYPES[:4]
LAB_TRACEPOINTS = (
    "xdp_exception",
    "xdp_redirect",
    "xdp_redirect_err",
    "xdp_devmap_xmit",
    "xdp_bulk_tx",
    "xdp_cpumap_enqueue",
    "xdp_cpumap_kthread",
    "kfree_skb",
    "mem_connect",
    "mem_disconnect",
    "page_pool_state_hold",
    "page_pool_state_release",
    "page_pool_release",
)
_ANY_KERNEL = "boot a distribution's kernel, Linux 6.1 or later (Debian 12 and 13 have one)"
_REFUSED = (
    "the kernel refuses it to this process: start the lab outside the container or user namespace, or ask its owner"
)
# A kernel may be built or patched without these; Linux has had them since 5.18 and 4.15.
_WITHOUT_LIVE_FRAMES = (
    "the generator sends packets of the stack instead: slower, and without the page pools of lesson 06; "
    "a distribution's kernel from Linux 5.18 on has them"
)
_WITHOUT_ADJUST_META = (
    "lessons 04 and 05 need it: no program can put metadata before a packet here; a distribution's kernel has it"
)


@dataclass(frozen=True)
class _Check:
    """A row to be: ``probe`` is asked unless something in ``after`` (a requirement's name) is not ok."""

    requirement: str
    probe: Callable[[], Feature]
    remedy: str
    needed: bool = True
    after: tuple[str, ...] = ()
    group: str = ""
    known: bool = False  # the remedy is the same where the kernel refuses it


def _checks() -> Iterator[_Check]:
    privilege, bpf = ("privilege",), ("privilege", "bpf(2)")
    device = (*bpf, "network namespaces", "veth")
    yield _Check("bpf(2)", features.bpf_syscall, "use a kernel with CONFIG_BPF_SYSCALL=y", after=privilege)
    yield _Check("JIT", features.jit, "sudo sysctl net.core.bpf_jit_enable=1", needed=False, after=bpf)
    yield _Check("BTF", features.btf, "use a kernel with CONFIG_DEBUG_INFO_BTF=y", needed=False)
    yield _Check(
        "network namespaces", features.network_namespaces, "use a kernel with CONFIG_NET_NS=y", after=privilege
    )
    yield _Check("veth", features.veth, "sudo modprobe veth", after=("privilege", "network namespaces"))
    yield _Check("native XDP", features.native_xdp, _ANY_KERNEL, after=device)
    yield _Check("generic XDP", features.generic_xdp, _ANY_KERNEL, after=device)
    yield _Check(
        "live frames",
        features.live_frames,
        _WITHOUT_LIVE_FRAMES,
        needed=False,
        after=(*bpf, "network namespaces"),
        known=True,
    )
    yield _Check("packet metadata", features.adjust_meta, _WITHOUT_ADJUST_META, needed=False, after=bpf, known=True)
    yield _Check(
        "XDP features by netlink", features.xdp_features, "needs Linux 6.3 or later", needed=False, after=device
    )
    yield _Check("metadata hints", features.rx_metadata, "needs Linux 6.3 or later", needed=False, after=device)
    yield _Check(
        "TCX", features.tcx, "needs Linux 6.6 or later; lessons use the older clsact then", needed=False, after=device
    )
    yield _Check("AF_XDP", features.af_xdp, "use a kernel with CONFIG_XDP_SOCKETS=y", needed=False, after=device)
    yield _Check("seccomp notification", features.user_notification, _ANY_KERNEL)
    yield _Check("drop reasons", features.drop_reasons, "needs Linux 5.17 or later with BTF", needed=False)
    for kind in LAB_MAP_TYPES:
        name = kind.name.lower()
        remedy = f"use a kernel that has {name} maps"
        yield _Check(f"map {name}", partial(features.map_type, kind), remedy, kind in _NEEDED_MAPS, bpf, "map")
    for name in LAB_TRACEPOINTS:
        remedy = "nothing to do: what it would tell is left out of the ledger, and said so"
        yield _Check(f"tracepoint {name}", partial(features.tracepoint, name), remedy, False, bpf, "tracepoint")


def kernel_rows(privileged: bool) -> Iterator[Row]:
    """Rows of all probes, lazily; without privilege those that need it are not tried."""
    good = {"privilege"} if privileged else set()
    for check in _checks():
        unmet = next((name for name in check.after if name not in good), None)
        if unmet is not None:
            yield Row(check.requirement, "note", f"not tried: needs {unmet}", "", check.needed, check.group)
            continue
        row = _row(check)
        if row.state == "ok":
            good.add(check.requirement)
        yield row


def _row(check: _Check) -> Row:
    try:
        found = check.probe()
    except Exception as error:  # one probe that breaks must not cost the others' answers
        said = f"the check itself failed: {type(error).__name__}: {error}"
        return Row(check.requirement, "degraded", said, "please report this line", False, check.group)
    if found:
        return Row(check.requirement, "ok", found.detail, "", check.needed, check.group)
    if found.refused and check.group == "tracepoint" and in_user_namespace():
        said = "tracing programs are withheld here: its rows of the ledger come from counters, or stay empty"
        return Row(check.requirement, "note", said, "", check.needed, check.group)
    remedy = _REFUSED if found.refused and not check.known else check.remedy
    return Row(
        check.requirement, "missing" if check.needed else "degraded", found.detail, remedy, check.needed, check.group
    )
