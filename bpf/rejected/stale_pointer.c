// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Goes on with a packet pointer from before the packet was moved.
 *
 * The verifier says: "invalid mem access 'scalar'"
 */
#include <uapi/linux/bpf.h>
#include <uapi/linux/if_ether.h>

int stale_pointer(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	if (bpf_xdp_adjust_head(ctx, -4))
		return XDP_ABORTED;
	eth->h_proto = 0;
	return XDP_PASS;
}
