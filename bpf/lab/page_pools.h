/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the programs share that count the pages of page pools: one row for each
 * pool that lives, found by the kernel's number for it (an address is used
 * again by the next pool), and totals of those that are gone. Where the
 * kernel's fields are, user space reads from BTF and writes to "offsets" and
 * "fields".
 */
#ifndef LAB_PAGE_POOLS_H
#define LAB_PAGE_POOLS_H

#include "device.h"

struct pool_fields {
	u32 pool_id, pool_hold, pool_release, pool_destroy, pool_mem_id;
	u32 pool_netdev, pool_dev, pool_queue, pool_init_arg;
	u32 pool_cached, pool_open, pool_ring, ring_slots, ring_size, ring_head, ring_tail;
	u32 device_class, class_name, dev_device, run_dev, allocator_pool;
	u32 task_nsproxy, nsproxy_net, net_devices, dev_list, dev_ops, ops_kind;
	u32 dev_private, dev_queues, private_queues, queue_bytes, queue_pool, queue_ring;
};

enum pool_owner {
	OWNER_UNKNOWN,
	OWNER_DEVICE,	/* a network device's receive queue */
	OWNER_TEST_RUN,	/* a run of BPF_PROG_TEST_RUN with live frames */
};

struct pool_row {
	u64 address;	/* for the programs alone */
	struct device at;
	u32 owner;
	u32 queue;
	u32 mem_id;	/* of xdp_mem_info */
	u32 thread;	/* that took the first page; 0 where it was an interrupt's */
	u32 held_before, released_before;	/* by the pool's own count, when its first event was seen */
	u64 held, released;	/* events */
	u64 tries;	/* of the pool to end: events page_pool_release */
	s32 last_in_flight;	/* at the last of them; -1 before the first */
	u32 last_hold, last_release;
	u32 closing;
	u64 born_ns, ended_ns;
};

/* Pools that are gone, added up. */
struct pool_totals {
	u64 pools, held, released, tries, stalled;	/* stalled: had pages out when first asked to end */
	u64 held_before, released_before;
	u64 own_held, own_released;	/* by the pools' own counters, at the end */
	u64 disconnected;	/* events mem_disconnect */
};

struct pool_owner_key {
	struct device at;
	u32 owner;
	u32 pad;
};

BPF_ARRAY(offsets, struct offsets, 1);
BPF_ARRAY(fields, struct pool_fields, 1);
BPF_HASH(watched, u32, u32, 1024);
BPF_HASH(pool_rows, u32, struct pool_row, 4096);
BPF_TABLE("lru_hash", u32, struct pool_row, pools_gone, 512);
BPF_HASH(pool_sums, struct pool_owner_key, struct pool_totals, 1024);
BPF_ARRAY(no_room, u64, 1);	/* events of pools for which there was no row left: what is shown is too little then */
BPF_ARRAY(pool_ends, u64, 2);	/* begun and done: a row moves to another map meanwhile, so a reader reads again */

#define POOL_READ(value, from) bpf_probe_read_kernel(&(value), sizeof(value), (void *)(from))

static __always_inline bool is_net_device(void *device, struct pool_fields *at)
{
	void *class = 0, *name = 0;
	u32 word = 0;

	POOL_READ(class, device + at->device_class);
	POOL_READ(name, class + at->class_name);
	POOL_READ(word, name);
	return word == ('n' | 'e' << 8 | 't' << 16);
}

/* Whose pool is it? A test run's has no device of its own; what it hands to its pages' first use names one. */
static __always_inline void find_owner(void *pool, struct pool_fields *at, struct offsets *where,
				       struct pool_row *row)
{
	void *dev = 0, *device = 0, *run = 0;

	if (row->closing)	/* then the device, or the run, may be gone: whose pool it was can't be told */
		return;
	row->owner = OWNER_DEVICE;
	POOL_READ(row->queue, pool + at->pool_queue);
	POOL_READ(dev, pool + at->pool_netdev);
	POOL_READ(device, pool + at->pool_dev);
	if (!dev && device && is_net_device(device, at))
		dev = device - at->dev_device;
	if (!dev && !device) {
		row->owner = OWNER_TEST_RUN;
		POOL_READ(run, pool + at->pool_init_arg);
		if (run)	/* it lies on the stack of the run */
			POOL_READ(dev, run + at->run_dev);
	}
	if (dev)
		identify(dev, where, &row->at);
	else
		row->owner = OWNER_UNKNOWN;
}

/* The pool's row, made at its first event; 0: not the lab's, or no room, which is counted. */
static __always_inline struct pool_row *row_of(void *pool, u32 *id)
{
	struct pool_row *row, fresh = {};
	struct pool_fields *at;
	struct offsets *where;
	u64 destroyed = 0;
	u32 zero = 0;

	at = fields.lookup(&zero);
	where = offsets.lookup(&zero);
	if (!at || !where)
		return 0;
	POOL_READ(*id, pool + at->pool_id);
	row = pool_rows.lookup(id);
	if (row)
		return row;
	POOL_READ(destroyed, pool + at->pool_destroy);
	fresh.closing = destroyed > 0;
	find_owner(pool, at, where, &fresh);
	if (!watched.lookup(&fresh.at.netns))
		return 0;
	POOL_READ(fresh.held_before, pool + at->pool_hold);
	POOL_READ(fresh.released_before, pool + at->pool_release);
	POOL_READ(fresh.mem_id, pool + at->pool_mem_id);
	fresh.address = (u64)pool;
	fresh.thread = (u32)bpf_get_current_pid_tgid();
	fresh.last_in_flight = -1;
	fresh.born_ns = bpf_ktime_get_ns();
	pool_rows.insert(id, &fresh);	/* another CPU may have been first */
	row = pool_rows.lookup(id);
	if (!row)
		no_room.increment(zero);
	return row;
}

#endif
