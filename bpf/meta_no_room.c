// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Moves each frame to the very beginning of its buffer, and sends it on: whoever gets it
 * next finds no headroom, and so no room for metadata.
 *
 * It is what is left to the next program when one before it needed the room, for the
 * outer headers of a tunnel, say. The frame itself stays as it is.
 */
#include "common/verdict.h"

#define LONGEST 64	/* bytes of a frame; longer ones go on as they are */

struct copy {
	u8 bytes[LONGEST];
};

/* Slot 0: where to. */
LAB_DEVMAP(ports, 1);

/* Room to hold a frame: more than the stack has to give with ease. */
LAB_PERCPU_ARRAY(held, struct copy, 1);

/* One entry: bytes of headroom that the last frame had. */
LAB_ARRAY(headroom, u32, 1);

/* Takes all the headroom, in steps; how many bytes there were. The frame is so much longer then. */
static __always_inline u32 take_headroom(struct xdp_md *ctx)
{
	u32 taken = 0, step;

#pragma unroll
	for (step = 512; step; step /= 2)
		if (!bpf_xdp_adjust_head(ctx, -(int)step))
			taken += step;
	return taken;
}

int meta_no_room(struct xdp_md *ctx)
{
	u64 length = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
	u32 only = 0, taken;
	struct copy *frame = held.lookup(&only);
	u32 *found = headroom.lookup(&only);

	if (!frame || !found)
		return verdict(ctx, XDP_ABORTED);
	asm volatile("" : "+r"(length)); /* that the compiler checks the value it uses */
	if (length < 1 || length > LONGEST)
		return verdict(ctx, ports.redirect_map(0, 0));
	if (bpf_xdp_load_bytes(ctx, 0, frame, length))
		return verdict(ctx, XDP_ABORTED);
	taken = take_headroom(ctx);
	if (bpf_xdp_store_bytes(ctx, 0, frame, length) || bpf_xdp_adjust_tail(ctx, -(int)taken))
		return verdict(ctx, XDP_ABORTED);
	*found = taken;
	return verdict(ctx, ports.redirect_map(0, 0));
}
