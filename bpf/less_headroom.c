// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Takes room in front of the packet, and lets it pass: the first 64 bytes move 16 bytes
 * towards the beginning of the page, and nothing else about them changes.
 *
 * Whoever gets the packet next finds 16 bytes less before it. It is for packets of 64
 * bytes; of a longer one the rest would stay behind, so that one is aborted.
 */
#include "common/verdict.h"

#define BY 16
#define MOVED 64

int less_headroom(struct xdp_md *ctx)
{
	u64 *to;
	int i;

	if (ctx->data_end - ctx->data != MOVED || bpf_xdp_adjust_head(ctx, -BY))
		return verdict(ctx, XDP_ABORTED);
	to = (void *)(long)ctx->data;
	if ((void *)to + MOVED + BY > (void *)(long)ctx->data_end)
		return verdict(ctx, XDP_ABORTED);
#pragma unroll
	for (i = 0; i < MOVED / 8; i++)
		to[i] = to[i + BY / 8];
	return verdict(ctx, bpf_xdp_adjust_tail(ctx, -BY) ? XDP_ABORTED : XDP_PASS);
}
