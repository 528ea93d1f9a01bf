// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Generic metadata. Give it a field of its own, u32 frame_bytes; old readers mustn't notice. */
#include "common/flow.h"
#include "common/meta.h"
#include "common/verdict.h"

struct meta_mine {
	struct meta_generic generic;
} __attribute__((packed, aligned(4)));
LAB_META_FORMAT(meta_mine);

int add_a_field(struct xdp_md *ctx)
{
	struct flow flow = flow_of(ctx);
	struct meta_mine *mine = meta_compose(ctx, META_GENERIC, sizeof(*mine));

	if (mine) {
		mine->generic.hash = flow.hash;
		mine->generic.hash_type = flow.hash_type;
	}
	return verdict(ctx, XDP_PASS);
}
