"""Numbers of the kernel's user-space API, each with the header it comes from."""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "AttachType",
    "BpfCmd",
    "LinkType",
    "MapType",
    "MapUpdate",
    "ProgFlag",
    "ProgType",
    "TestRunFlag",
    "XdpAction",
    "XdpFlag",
    "XskBind",
    "XskOption",
    "XskRing",
]


class BpfCmd(IntEnum):
    """``enum bpf_cmd``, include/uapi/linux/bpf.h."""

    MAP_CREATE = 0
    MAP_LOOKUP_ELEM = 1
    MAP_UPDATE_ELEM = 2
    MAP_DELETE_ELEM = 3
    MAP_GET_NEXT_KEY = 4
    PROG_LOAD = 5
    OBJ_PIN = 6
    OBJ_GET = 7
    PROG_ATTACH = 8
    PROG_DETACH = 9
    PROG_TEST_RUN = 10
    PROG_GET_NEXT_ID = 11
    MAP_GET_NEXT_ID = 12
    PROG_GET_FD_BY_ID = 13
    MAP_GET_FD_BY_ID = 14
    OBJ_GET_INFO_BY_FD = 15
    RAW_TRACEPOINT_OPEN = 17
    BTF_LOAD = 18
    BTF_GET_FD_BY_ID = 19
    BTF_GET_NEXT_ID = 23
    MAP_LOOKUP_BATCH = 24
    LINK_CREATE = 28
    LINK_UPDATE = 29
    LINK_GET_FD_BY_ID = 30
    LINK_GET_NEXT_ID = 31
    LINK_DETACH = 34
    PROG_BIND_MAP = 35
    TOKEN_CREATE = 36


class MapType(IntEnum):
    """``enum bpf_map_type``, include/uapi/linux/bpf.h."""

    UNSPEC = 0
    HASH = 1
    ARRAY = 2
    PROG_ARRAY = 3
    PERF_EVENT_ARRAY = 4
    PERCPU_HASH = 5
    PERCPU_ARRAY = 6
    STACK_TRACE = 7
    CGROUP_ARRAY = 8
    LRU_HASH = 9
    LRU_PERCPU_HASH = 10
    LPM_TRIE = 11
    ARRAY_OF_MAPS = 12
    HASH_OF_MAPS = 13
    DEVMAP = 14
    SOCKMAP = 15
    CPUMAP = 16
    XSKMAP = 17
    SOCKHASH = 18
    CGROUP_STORAGE = 19
    REUSEPORT_SOCKARRAY = 20
    PERCPU_CGROUP_STORAGE = 21
    QUEUE = 22
    STACK = 23
    SK_STORAGE = 24
    DEVMAP_HASH = 25
    STRUCT_OPS = 26
    RINGBUF = 27
    INODE_STORAGE = 28
    TASK_STORAGE = 29
    BLOOM_FILTER = 30

    @property
    def per_cpu(self) -> bool:
        """Whether a lookup gives one value for every possible CPU."""
        return self in (
            MapType.PERCPU_HASH,
            MapType.PERCPU_ARRAY,
            MapType.LRU_PERCPU_HASH,
            MapType.PERCPU_CGROUP_STORAGE,
        )


class ProgType(IntEnum):
    """``enum bpf_prog_type``, include/uapi/linux/bpf.h."""

    SOCKET_FILTER = 1
    KPROBE = 2
    SCHED_CLS = 3
    SCHED_ACT = 4
    TRACEPOINT = 5
    XDP = 6
    PERF_EVENT = 7
    RAW_TRACEPOINT = 17


class AttachType(IntEnum):
    """``enum bpf_attach_type``, include/uapi/linux/bpf.h."""

    XDP_DEVMAP = 33
    XDP_CPUMAP = 35
    XDP = 37
    TCX_INGRESS = 46
    TCX_EGRESS = 47


class LinkType(IntEnum):
    """``enum bpf_link_type``, include/uapi/linux/bpf.h."""

    RAW_TRACEPOINT = 1
    XDP = 6
    TCX = 11


class XdpAction(IntEnum):
    """``enum xdp_action``, include/uapi/linux/bpf.h: what an XDP program returns."""

    ABORTED = 0
    DROP = 1
    PASS = 2
    TX = 3
    REDIRECT = 4


class XdpFlag(IntFlag):
    """``XDP_FLAGS_*``, include/uapi/linux/if_link.h."""

    UPDATE_IF_NOEXIST = 1 << 0
    SKB_MODE = 1 << 1
    DRV_MODE = 1 << 2
    REPLACE = 1 << 4


class MapUpdate(IntEnum):
    """Flags of an update, include/uapi/linux/bpf.h."""

    ANY = 0
    NOEXIST = 1
    EXIST = 2


class ProgFlag(IntFlag):
    """``prog_flags`` of BPF_PROG_LOAD, include/uapi/linux/bpf.h."""

    XDP_HAS_FRAGS = 1 << 5
    XDP_DEV_BOUND_ONLY = 1 << 6
    TOKEN_FD = 1 << 16


class TestRunFlag(IntFlag):
    """``flags`` of BPF_PROG_TEST_RUN, include/uapi/linux/bpf.h."""

    __test__ = False  # the name is the kernel's; pytest need not look inside

    XDP_LIVE_FRAMES = 1 << 1


class XskOption(IntEnum):
    """Options of an AF_XDP socket at level SOL_XDP, include/uapi/linux/if_xdp.h."""

    MMAP_OFFSETS = 1
    RX_RING = 2
    TX_RING = 3
    UMEM_REG = 4
    UMEM_FILL_RING = 5
    UMEM_COMPLETION_RING = 6
    STATISTICS = 7
    OPTIONS = 8
    MAX_TX_SKB_BUDGET = 9


class XskBind(IntFlag):
    """``sxdp_flags`` of ``struct sockaddr_xdp``, include/uapi/linux/if_xdp.h."""

    SHARED_UMEM = 1 << 0
    COPY = 1 << 1
    ZEROCOPY = 1 << 2
    USE_NEED_WAKEUP = 1 << 3
    USE_SG = 1 << 4


class XskRing(IntEnum):
    """Offsets at which mmap(2) of an AF_XDP socket gives its rings, include/uapi/linux/if_xdp.h."""

    RX = 0
    TX = 0x80000000
    FILL = 0x100000000
    COMPLETION = 0x180000000
