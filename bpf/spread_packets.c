// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Deals packets out to the CPUs like cards, one to each in turn, whatever flow they belong
 * to.
 *
 * The load could not be more even; the packets of a flow overtake one another. See
 * spread_cpus.c for the other way.
 */
#include "common/verdict.h"

#define MOST_CPUS 64

/* The CPUs, by number from 0: as many as cpus_in_use says must be filled in. */
LAB_CPUMAP(cpus, MOST_CPUS);

/* One entry: over how many CPUs. */
LAB_ARRAY(cpus_in_use, u32, 1);

/* Packets dealt so far. */
LAB_PERCPU_ARRAY(dealt, u64, 1);

int spread_packets(struct xdp_md *ctx)
{
	u32 only = 0, *count = cpus_in_use.lookup(&only);
	u64 *packets = dealt.lookup(&only);

	if (!count || !*count || !packets)
		return verdict(ctx, XDP_PASS);
	return verdict(ctx, cpus.redirect_map((*packets)++ % *count, 0));
}
