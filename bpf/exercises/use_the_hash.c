// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Choose the CPU by the hash that came along; leave the packet alone. Here all go to CPU 0. */
#include "common/meta.h"
#include "common/verdict.h"

LAB_CPUMAP(cpus, 64); /* filled in from CPU 0 */
LAB_ARRAY(cpus_in_use, u32, 1);

int use_the_hash(struct xdp_md *ctx)
{
	u32 only = 0, *count = cpus_in_use.lookup(&only);

	if (!count || !*count)
		return verdict(ctx, XDP_PASS);
	return verdict(ctx, cpus.redirect_map(0, 0));
}
