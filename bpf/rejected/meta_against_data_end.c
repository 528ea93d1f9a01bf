// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Checks metadata against the end of the packet, and not against its start, where metadata ends.
 *
 * The verifier says: "invalid access to packet"
 */
#include <uapi/linux/bpf.h>

int meta_against_data_end(struct xdp_md *ctx)
{
	u32 *meta;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*meta)))
		return XDP_ABORTED;
	meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	*meta = 0xabcd;
	return XDP_PASS;
}
