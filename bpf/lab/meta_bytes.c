// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Puts given bytes before each packet, whatever they mean: for checks of programs that read metadata. Then the packet is
 * sent out of ports[0], or passes where that is empty. No bytes: no metadata.
 */
#include "common/maps.h"

#define WORDS 63	/* 252 bytes: the most that the kernel takes */

struct given {
	u32 bytes;	/* a multiple of 4 */
	u32 words[WORDS];
};

LAB_ARRAY(given, struct given, 1);

LAB_DEVMAP(ports, 1);

int meta_bytes(struct xdp_md *ctx)
{
	u32 only = 0, *meta, i;
	struct given *wanted = given.lookup(&only);

	if (!wanted)
		return XDP_ABORTED;
	if (!wanted->bytes)
		return ports.redirect_map(0, XDP_PASS);
	if (bpf_xdp_adjust_meta(ctx, -(int)wanted->bytes))
		return XDP_ABORTED;
	meta = (void *)(long)ctx->data_meta;
	for (i = 0; i < WORDS; i++) {
		if ((void *)(meta + 1) > (void *)(long)ctx->data)
			break;
		*meta++ = wanted->words[i];
	}
	return ports.redirect_map(0, XDP_PASS);
}
