// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* A note where there is room. Here packets without room are lost, and all count as noted. */
#include "common/note.h"
#include "common/verdict.h"
#include <uapi/linux/pkt_cls.h>

LAB_PERCPU_ARRAY(notes, u64, 2); /* packets at TC: 0 with the note, 1 without it */

int note_if_room(struct xdp_md *ctx)
{
	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(struct note)))
		return verdict(ctx, XDP_ABORTED);
	return verdict(ctx, XDP_PASS); /* the mark is to be 1 */
}

int note_or_none(struct __sk_buff *skb)
{
	u32 with = 0;

	notes.increment(with);
	return TC_ACT_OK;
}
