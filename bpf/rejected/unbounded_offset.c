// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Adds a number from the packet to a packet pointer, and the number may be anything.
 *
 * The verifier says: "math between pkt pointer and register with unbounded"
 */
#include "common/parse.h"

int unbounded_offset(struct xdp_md *ctx)
{
	struct cursor cursor = cursor_begin(ctx);
	u64 *offset = cursor.at;
	u8 *byte;

	if ((void *)(offset + 1) > cursor.end)
		return XDP_PASS;
	byte = cursor.at + *offset;
	if ((void *)(byte + 1) > cursor.end)
		return XDP_PASS;
	return *byte ? XDP_PASS : XDP_DROP;
}
