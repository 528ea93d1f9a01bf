// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A pool's own numbers, read when user space asks: it runs the program by
 * BPF_PROG_TEST_RUN, on a thread of the host, so no event is needed and nothing
 * is attached. The arguments say which pool: one that has a row, or that of a
 * veth's receive queue, found from the namespace of the thread that asks.
 * A ring of pointers keeps no count: what isn't NULL is counted, less what is
 * taken out already and will be cleared with the next batch.
 */
#include "page_pools.h"

#define PEEK_SLOTS 1024
#define PEEK_DEVICES 64

struct slots {
	u64 at[PEEK_SLOTS];
};

struct pool_peek {
	u64 asked;	/* questions that found a pool, or a queue */
	u32 id;	/* 0: the queue has no pool */
	u32 hold, release, closing;
	u32 cached;	/* pages in the array that the allocating poll alone uses */
	u32 ring;	/* pages in the ring, where the others return them */
	u32 waiting;	/* frames in the receive ring of the queue */
	u32 open;	/* 1: the pool cuts pieces from a page of its own */
	u32 cut;	/* 1: a ring is longer than what is read */
	u32 moved;	/* 1: a ring was read from meanwhile, so its count is a guess: ask again */
};

BPF_ARRAY(pool_peeks, struct pool_peek, 1);
BPF_PERCPU_ARRAY(peek_slots, struct slots, 1);

static __always_inline u32 count_ring(void *ring, struct pool_fields *at, struct pool_peek *found)
{
	u32 zero = 0, size = 0, head = 0, tail = 0, bytes;
	u32 head_after = 0, tail_after = 0;
	u64 i, full = 0;
	struct slots *slots;
	void *queue = 0;

	slots = peek_slots.lookup(&zero);
	if (!slots)
		return 0;
	POOL_READ(size, ring + at->ring_size);
	POOL_READ(head, ring + at->ring_head);
	POOL_READ(tail, ring + at->ring_tail);
	POOL_READ(queue, ring + at->ring_slots);
	if (size > PEEK_SLOTS) {
		size = PEEK_SLOTS;
		found->cut = 1;
	}
	bytes = size * 8;
	if (bytes > sizeof(*slots))
		return 0;
	if (bpf_probe_read_kernel(slots, bytes, queue))
		return 0;
	for (i = 0; i < PEEK_SLOTS; i++)	/* no branch: the verifier would follow each, in each round */
		full += ((slots->at[i] | -slots->at[i]) & (i - size)) >> 63;
	POOL_READ(head_after, ring + at->ring_head);
	POOL_READ(tail_after, ring + at->ring_tail);
	if (head_after != head || tail_after != tail)
		found->moved = 1;
	return full > head - tail ? full - (head - tail) : 0;
}

static __always_inline void peek(void *pool, struct pool_fields *at, struct pool_peek *found)
{
	u64 destroyed = 0, page = 0;

	POOL_READ(page, pool + at->pool_open);
	found->open = !!page;
	POOL_READ(found->id, pool + at->pool_id);
	POOL_READ(found->hold, pool + at->pool_hold);
	POOL_READ(found->release, pool + at->pool_release);
	POOL_READ(found->cached, pool + at->pool_cached);
	POOL_READ(destroyed, pool + at->pool_destroy);
	found->closing = destroyed > 0;
	found->ring = count_ring(pool + at->pool_ring, at, found);
}

/* ctx: the pool's number. */
int peek_pool(struct bpf_raw_tracepoint_args *ctx)
{
	u32 id = ctx->args[0], zero = 0;
	struct pool_peek *found;
	struct pool_fields *at;
	struct pool_row *row;

	at = fields.lookup(&zero);
	found = pool_peeks.lookup(&zero);
	row = pool_rows.lookup(&id);
	if (!at || !found || !row)
		return 0;
	found->waiting = 0;
	found->cut = 0;
	found->moved = 0;
	peek((void *)row->address, at, found);
	if (found->id == id && pool_rows.lookup(&id))	/* it hasn't gone meanwhile */
		found->asked++;
	return 0;
}

static __always_inline void *find_device(struct pool_fields *at, struct offsets *where, u32 ifindex)
{
	void *task = (void *)bpf_get_current_task(), *proxy = 0, *net = 0, *entry = 0;
	u32 i, here;

	POOL_READ(proxy, task + at->task_nsproxy);
	POOL_READ(net, proxy + at->nsproxy_net);
	POOL_READ(entry, net + at->net_devices);
	for (i = 0; i < PEEK_DEVICES; i++) {
		if (!entry || entry == net + at->net_devices)
			return 0;
		here = 0;
		POOL_READ(here, entry - at->dev_list + where->dev_ifindex);
		if (here == ifindex)
			return entry - at->dev_list;
		POOL_READ(entry, entry);
	}
	return 0;
}

static __always_inline bool is_veth(void *dev, struct pool_fields *at)
{
	void *ops = 0, *kind = 0;
	u64 word = 0;

	POOL_READ(ops, dev + at->dev_ops);
	POOL_READ(kind, ops + at->ops_kind);
	bpf_probe_read_kernel(&word, 5, kind);
	return word == ('v' | 'e' << 8 | 't' << 16 | 'h' << 24);
}

/* ctx: the index of a veth in the namespace of this thread, and the number of its queue. */
int peek_queue(struct bpf_raw_tracepoint_args *ctx)
{
	u32 ifindex = ctx->args[0], number = ctx->args[1], zero = 0, queues = 0, id = 0;
	struct pool_peek *found;
	struct pool_fields *at;
	struct offsets *where;
	void *dev, *queue = 0, *pool = 0;

	at = fields.lookup(&zero);
	where = offsets.lookup(&zero);
	found = pool_peeks.lookup(&zero);
	if (!at || !where || !found)
		return 0;
	dev = find_device(at, where, ifindex);
	if (!dev || !is_veth(dev, at))
		return 0;
	POOL_READ(queues, dev + at->dev_queues);
	POOL_READ(queue, dev + at->dev_private + at->private_queues);
	if (number >= queues || !queue)
		return 0;
	queue += number * at->queue_bytes;
	POOL_READ(pool, queue + at->queue_pool);
	__builtin_memset(&found->id, 0, sizeof(*found) - sizeof(found->asked));
	if (pool) {
		row_of(pool, &id);	/* from now on it is known whose it is, also when it ends without another event */
		peek(pool, at, found);
	}
	found->waiting = count_ring(queue + at->queue_ring, at, found);
	found->asked++;
	return 0;
}
