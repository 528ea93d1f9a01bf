"""Where the fields are that the probes of page pools read: of this kernel, by its BTF."""

from __future__ import annotations

from labkit.kernel.btf import Kind, kernel_btf, kernel_offsets

__all__ = ["device_offsets", "pool_fields"]

_DEVICE = {
    "dev_net": ("net_device", "nd_net", "net"),
    "dev_ifindex": ("net_device", "ifindex"),
    "net_inum": ("net", "ns", "inum"),
}
# struct, then members; the names are those of struct pool_fields, bpf/lab/page_pools.h.
_FIELDS = {
    "pool_id": ("page_pool", "user", "id"),
    "pool_hold": ("page_pool", "pages_state_hold_cnt"),
    "pool_release": ("page_pool", "pages_state_release_cnt"),
    "pool_destroy": ("page_pool", "destroy_cnt"),
    "pool_mem_id": ("page_pool", "xdp_mem_id"),
    "pool_netdev": ("page_pool", "slow", "netdev"),
    "pool_dev": ("page_pool", "p", "dev"),
    "pool_queue": ("page_pool", "slow", "queue_idx"),
    "pool_init_arg": ("page_pool", "slow", "init_arg"),
    "pool_cached": ("page_pool", "alloc", "count"),
    "pool_open": ("page_pool", "frag_page"),
    "pool_ring": ("page_pool", "ring"),
    "ring_slots": ("ptr_ring", "queue"),
    "ring_size": ("ptr_ring", "size"),
    "ring_head": ("ptr_ring", "consumer_head"),
    "ring_tail": ("ptr_ring", "consumer_tail"),
    "device_class": ("device", "class"),
    "class_name": ("class", "name"),
    "dev_device": ("net_device", "dev"),
    "run_dev": ("xdp_test_data", "dev"),
    "allocator_pool": ("xdp_mem_allocator", "page_pool"),
    "task_nsproxy": ("task_struct", "nsproxy"),
    "nsproxy_net": ("nsproxy", "net_ns"),
    "net_devices": ("net", "dev_base_head"),
    "dev_list": ("net_device", "dev_list"),
    "dev_ops": ("net_device", "rtnl_link_ops"),
    "ops_kind": ("rtnl_link_ops", "kind"),
    "dev_private": ("net_device", "priv"),
    "dev_queues": ("net_device", "real_num_rx_queues"),
    "private_queues": ("veth_priv", "rq"),
    "queue_pool": ("veth_rq", "page_pool"),
    "queue_ring": ("veth_rq", "xdp_ring"),
}


def device_offsets() -> dict[str, int]:
    """Bytes, for the map ``offsets``. Raises KeyError where this kernel's structures have other members."""
    return kernel_offsets(_DEVICE)


def pool_fields() -> dict[str, int]:
    """Bytes, for the map ``fields``; ``queue_bytes`` is the size of a veth's receive queue. Raises KeyError."""
    btf = kernel_btf()
    return {**kernel_offsets(_FIELDS), "queue_bytes": btf.type(btf.find("veth_rq", Kind.STRUCT)).size}
