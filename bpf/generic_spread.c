// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Shares packets out over CPUs, each flow always to the same one, in two ways that choose alike.
 *
 * spread_by_hash takes the hash that somebody before it put in the metadata, and doesn't touch the packet: its headers
 * need not even be in the cache. A packet that came without (below the threshold, from elsewhere) it parses; else the
 * small packets of a flow would go to another CPU than its large ones, and overtake them. spread_by_parsing parses every
 * packet.
 */
#include "common/flow.h"
#include "common/meta.h"
#include "common/verdict.h"

#define MOST_CPUS 64

/* The CPUs, by number from 0: as many as cpus_in_use says must be filled in. */
LAB_CPUMAP(cpus, MOST_CPUS);

/* One entry: over how many CPUs. */
LAB_ARRAY(cpus_in_use, u32, 1);

/* Packets meant for each CPU. */
LAB_PERCPU_ARRAY(packets_to_cpu, u64, MOST_CPUS);

/* Packets whose hash was there to be read (0), and those that had to be parsed (1). */
LAB_PERCPU_ARRAY(hashes, u64, 2);

static __always_inline void count(u32 parsed)
{
	u64 *packets = hashes.lookup(&parsed);

	if (packets)
		(*packets)++;
}

/* What is no IP has no flow, and passes. */
static __always_inline bool parse_hash(struct xdp_md *ctx, u32 *hash)
{
	struct flow flow = flow_of(ctx);

	count(1);
	*hash = flow.hash;
	return flow.hash_type;
}

static __always_inline int spread(struct xdp_md *ctx, u32 hash)
{
	u32 only = 0, cpu, *in_use = cpus_in_use.lookup(&only);
	u64 *packets;

	if (!in_use || !*in_use)
		return verdict(ctx, XDP_PASS);
	cpu = (u64)hash * *in_use >> 32;
	packets = packets_to_cpu.lookup(&cpu);
	if (packets)
		(*packets)++;
	return verdict(ctx, cpus.redirect_map(cpu, 0));
}

int spread_by_hash(struct xdp_md *ctx)
{
	struct meta_generic *generic = META_GENERIC_OF(ctx);
	u32 hash;

	if (generic && generic->hash_type) {
		count(0);
		return spread(ctx, generic->hash);
	}
	return parse_hash(ctx, &hash) ? spread(ctx, hash) : verdict(ctx, XDP_PASS);
}

int spread_by_parsing(struct xdp_md *ctx)
{
	u32 hash;

	return parse_hash(ctx, &hash) ? spread(ctx, hash) : verdict(ctx, XDP_PASS);
}
