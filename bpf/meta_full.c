// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Sends each frame on with as much metadata in front of it as the kernel allows, 252
 * bytes: a program that comes later may add nothing to it.
 *
 * That is more than a driver's headroom has room for. So the last 48 bytes of the frame,
 * which are there for this only, are given up: what is in front of them moves back.
 */
#include "common/verdict.h"

#define SPARE 48	/* bytes at the end of the frame */
#define KEPT 64		/* bytes in front of them: the frame proper */
#define MOST 252	/* bytes of metadata */

struct copy {
	u8 bytes[KEPT];
};

/* Slot 0: where to. */
LAB_DEVMAP(ports, 1);

LAB_PERCPU_ARRAY(held, struct copy, 1);

/* One entry: frames that have so much metadata now. */
LAB_PERCPU_ARRAY(filled, u64, 1);

int meta_full(struct xdp_md *ctx)
{
	u32 only = 0;
	struct copy *frame = held.lookup(&only);
	u64 *count = filled.lookup(&only);

	if (!frame || !count || ctx->data_end - ctx->data != KEPT + SPARE)
		return verdict(ctx, ports.redirect_map(0, 0));
	if (bpf_xdp_load_bytes(ctx, 0, frame, KEPT) || bpf_xdp_adjust_head(ctx, SPARE) ||
	    bpf_xdp_store_bytes(ctx, 0, frame, KEPT))
		return verdict(ctx, XDP_ABORTED);
	if (!bpf_xdp_adjust_meta(ctx, -MOST))
		(*count)++;
	return verdict(ctx, ports.redirect_map(0, 0));
}
