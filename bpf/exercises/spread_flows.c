// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Share IPv4 out over CPUs, a flow always to the same one. Here packets are dealt out in turn. */
#include "common/parse.h"
#include "common/verdict.h"

LAB_CPUMAP(cpus, 64); /* filled in from CPU 0 */
LAB_ARRAY(cpus_in_use, u32, 1);
LAB_PERCPU_ARRAY(packets, u64, 1);

int spread_flows(struct xdp_md *ctx)
{
	u32 only = 0, *count = cpus_in_use.lookup(&only);
	u64 *number = packets.lookup(&only);

	if (!count || !*count || !number)
		return verdict(ctx, XDP_PASS);
	return verdict(ctx, cpus.redirect_map((*number)++ % *count, 0));
}
