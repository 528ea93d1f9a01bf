// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts every packet three times: in a counter that all CPUs share, in one that they
 * share with atomic additions, and in one for each CPU. Then drops it.
 *
 * With packets on two queues, so on two CPUs, the first of the three loses some.
 */
#include "common/verdict.h"

/* Packets; one counter, plain additions. */
LAB_ARRAY(shared, u64, 1);

/* Packets; one counter, atomic additions. */
LAB_ARRAY(shared_atomic, u64, 1);

/* Packets; one counter for each CPU. */
LAB_PERCPU_ARRAY(per_cpu, u64, 1);

int shared_counter(struct xdp_md *ctx)
{
	u32 slot = 0;
	u64 *plain = shared.lookup(&slot);
	u64 *atomic = shared_atomic.lookup(&slot);
	u64 *own = per_cpu.lookup(&slot);

	if (!plain || !atomic || !own)
		return verdict(ctx, XDP_ABORTED);
	(*plain)++;
	__sync_fetch_and_add(atomic, 1);
	(*own)++;
	return verdict(ctx, XDP_DROP);
}
