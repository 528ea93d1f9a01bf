// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Notes how long the last frame was, and how much of it the program could reach with plain
 * pointers. Passes everything.
 *
 * A frame in several buffers has only its first part between data and data_end. Load with
 * frags support for those.
 */
#include "common/maps.h"
#include "common/verdict.h"

/* Bytes of the last frame: 0 all of it, 1 between data and data_end. */
LAB_ARRAY(bytes, u32, 2);

int linear_part(struct xdp_md *ctx)
{
	u32 all = 0, reachable = 1;
	u32 length = bpf_xdp_get_buff_len(ctx);
	u32 linear = ctx->data_end - ctx->data;

	bytes.update(&all, &length);
	bytes.update(&reachable, &linear);
	return verdict(ctx, XDP_PASS);
}
