// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Reads the packet without a look at where it ends.
 *
 * The verifier says: "invalid access to packet"
 */
#include <uapi/linux/bpf.h>

int no_bounds_check(struct xdp_md *ctx)
{
	u8 *data = (void *)(long)ctx->data;

	if (data[12] == 0x08)
		return XDP_DROP;
	return XDP_PASS;
}
