// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The CPU by the hash that came along, whatever the format; what came without one passes. */
#include "common/meta.h"
#include "common/verdict.h"

LAB_CPUMAP(cpus, 64); /* filled in from CPU 0 */
LAB_ARRAY(cpus_in_use, u32, 1);

int use_the_hash(struct xdp_md *ctx)
{
	struct meta_generic *generic = META_GENERIC_OF(ctx);
	u32 only = 0, *count = cpus_in_use.lookup(&only);

	if (!generic || !generic->hash_type || !count || !*count)
		return verdict(ctx, XDP_PASS);
	return verdict(ctx, cpus.redirect_map((u64)generic->hash * *count >> 32, 0));
}
