// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Writes metadata in front of the packet without a check that there is room for it.
 *
 * The verifier says: "invalid access to packet"
 */
#include <uapi/linux/bpf.h>

int meta_not_checked(struct xdp_md *ctx)
{
	u32 *meta;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*meta)))
		return XDP_ABORTED;
	meta = (void *)(long)ctx->data_meta;
	*meta = 0xabcd;
	return XDP_PASS;
}
