// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Leaves four bytes in front of each packet: a mark, and nothing else. Who looks for the
 * eight of bpf/common/note.h there finds half of them.
 */
#include "common/verdict.h"

/* One entry: the mark. */
LAB_ARRAY(mark, u32, 1);

int meta_short(struct xdp_md *ctx)
{
	u32 only = 0, *wanted = mark.lookup(&only), *meta;

	if (!wanted || bpf_xdp_adjust_meta(ctx, -(int)sizeof(*meta)))
		return verdict(ctx, XDP_ABORTED);
	meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) > (void *)(long)ctx->data)
		return verdict(ctx, XDP_ABORTED);
	*meta = *wanted;
	return verdict(ctx, XDP_PASS);
}
