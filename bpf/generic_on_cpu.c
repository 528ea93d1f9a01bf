// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A consumer of self-describing metadata on the other side of a CPU map. It takes the flow from the hash that came along,
 * and doesn't look at the packet.
 *
 * Load with expected_attach_type=AttachType.XDP_CPUMAP and write cpus[1] = 192, program.
 */
#include "common/recognise.h"
#include "common/verdict.h"

#define SHARES 16

/* XDP_DROP 1, XDP_PASS 2: on to the stack, the metadata with it. */
LAB_ARRAY(action, u32, 1);

/* Packets by the upper four bits of their hash; those without one in the last slot. */
LAB_PERCPU_ARRAY(by_hash, u64, SHARES + 1);

int generic_on_cpu(struct xdp_md *ctx)
{
	void *meta = (void *)(long)ctx->data_meta, *data = (void *)(long)ctx->data;
	struct meta_generic *generic = NULL;
	u32 only = 0, share = SHARES, *wanted = action.lookup(&only);
	u64 full_id = 0, *packets;

	if (!wanted)
		return verdict(ctx, XDP_ABORTED);
	recognise(meta, data, &full_id, &generic);
	if (generic && generic->hash_type)
		share = generic->hash >> 28;
	packets = by_hash.lookup(&share);
	if (packets)
		(*packets)++;
	return verdict(ctx, *wanted);
}
