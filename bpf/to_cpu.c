// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Sends every packet to one CPU: a thread there takes it to the network stack, or through the
 * slot's program first.
 */
#include "common/verdict.h"

/* The CPUs, by number. In Python: cpus[1] = 192, the length of its queue in packets. */
LAB_CPUMAP(cpus, 64);

/* One entry: which of them. */
LAB_ARRAY(target, u32, 1);

int to_cpu(struct xdp_md *ctx)
{
	u32 only = 0, *cpu = target.lookup(&only);

	if (!cpu)
		return verdict(ctx, XDP_ABORTED);
	/* 0: what an empty slot gives */
	return verdict(ctx, cpus.redirect_map(*cpu, 0));
}
