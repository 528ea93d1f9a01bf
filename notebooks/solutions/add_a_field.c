// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Generic metadata with a field of its own on the left: what an old reader knows is where it was. */
#include "common/flow.h"
#include "common/meta.h"
#include "common/verdict.h"

struct meta_mine {
	u32 frame_bytes;
	struct meta_generic generic;
} __attribute__((packed, aligned(4)));
LAB_META_FORMAT(meta_mine);

int add_a_field(struct xdp_md *ctx)
{
	struct flow flow = flow_of(ctx);
	struct meta_mine *mine = meta_compose(ctx, META_OWN, sizeof(*mine));

	if (mine) {
		mine->frame_bytes = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
		mine->generic.hash = flow.hash;
		mine->generic.hash_type = flow.hash_type;
	}
	return verdict(ctx, XDP_PASS);
}
