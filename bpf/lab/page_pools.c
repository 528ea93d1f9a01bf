// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Every page that a page pool took from the page allocator or gave back to it:
 * page_pool_state_hold and page_pool_state_release fire once a page, with the
 * pool's own count. Pages that come home to the pool and go out again cause no
 * event: that is what recycling is. page_pool_release fires when a pool tries
 * to end, and with no page out it has ended. The tracepoints are the whole
 * machine's: only pools of devices and test runs in the namespaces of "watched"
 * have a row.
 */
#include "page_pools.h"

int on_page_pool_state_hold(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(const struct page_pool *pool, netmem_ref netmem, u32 hold) */
	struct pool_row *row;
	u32 id = 0;

	row = row_of((void *)ctx->args[0], &id);
	if (!row)
		return 0;
	if (!row->held)	/* one CPU at a time allocates */
		row->held_before = (u32)ctx->args[2] - 1;
	lock_xadd(&row->held, 1);
	return 0;
}

int on_page_pool_state_release(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(const struct page_pool *pool, netmem_ref netmem, u32 release) */
	u32 id = 0, before = (u32)ctx->args[2] - 1;
	struct pool_row *row;

	row = row_of((void *)ctx->args[0], &id);
	if (!row)
		return 0;
	if ((s32)(before - row->released_before) < 0)	/* the row was made a moment late */
		row->released_before = before;
	lock_xadd(&row->released, 1);
	return 0;
}

static __always_inline void add_up(struct pool_row *row)
{
	struct pool_totals *sums, none = {};
	struct pool_owner_key key = {};
	u32 zero = 0;

	key.at = row->at;
	key.owner = row->owner;
	sums = pool_sums.lookup_or_try_init(&key, &none);
	if (!sums) {
		no_room.increment(zero);
		return;
	}
	lock_xadd(&sums->pools, 1);
	lock_xadd(&sums->held, row->held);
	lock_xadd(&sums->released, row->released);
	lock_xadd(&sums->tries, row->tries);
	lock_xadd(&sums->stalled, row->tries > 1);
	lock_xadd(&sums->held_before, row->held_before);
	lock_xadd(&sums->released_before, row->released_before);
	lock_xadd(&sums->own_held, row->last_hold);
	lock_xadd(&sums->own_released, row->last_release);
}

int on_page_pool_release(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(const struct page_pool *pool, s32 inflight, u32 hold, u32 release): where none is out, it ends now */
	u32 id = 0, begun = 0, done = 1;
	struct pool_row *row;

	row = row_of((void *)ctx->args[0], &id);
	if (!row)
		return 0;
	row->closing = 1;
	row->last_in_flight = (s32)ctx->args[1];
	row->last_hold = (u32)ctx->args[2];
	row->last_release = (u32)ctx->args[3];
	lock_xadd(&row->tries, 1);
	if (row->last_in_flight)
		return 0;
	row->ended_ns = bpf_ktime_get_ns();
	pool_ends.increment(begun);
	add_up(row);
	pools_gone.update(&id, row);
	pool_rows.delete(&id);
	pool_ends.increment(done);
	return 0;
}

/* The pool that an allocator stands for; 0: it has none. */
static __always_inline void *pool_of(u64 allocator, u32 *id)
{
	struct pool_fields *at;
	void *pool = 0;
	u32 zero = 0;

	at = fields.lookup(&zero);
	if (!at || !allocator)
		return 0;
	POOL_READ(pool, allocator + at->allocator_pool);
	if (pool)
		POOL_READ(*id, pool + at->pool_id);
	return pool;
}

int on_mem_disconnect(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(const struct xdp_mem_allocator *xa): a second witness of the end, for pools that frames know by number */
	struct pool_owner_key key = {};
	struct pool_totals *sums;
	struct pool_row *row;
	u32 id = 0;

	if (!pool_of(ctx->args[0], &id))
		return 0;
	row = pools_gone.lookup(&id);
	if (!row)
		return 0;
	key.at = row->at;
	key.owner = row->owner;
	sums = pool_sums.lookup(&key);
	if (sums)
		lock_xadd(&sums->disconnected, 1);
	return 0;
}

int on_mem_connect(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(const struct xdp_mem_allocator *xa, const struct xdp_rxq_info *rxq): a queue has got its pool */
	u32 id = 0;
	void *pool = pool_of(ctx->args[0], &id);

	if (pool)
		row_of(pool, &id);
	return 0;
}
