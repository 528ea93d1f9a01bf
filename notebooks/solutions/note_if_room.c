// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* A note where there is room for one; every packet goes on, and TC can tell those with a note from those without. */
#include "common/note.h"
#include "common/verdict.h"
#include <uapi/linux/pkt_cls.h>

LAB_PERCPU_ARRAY(notes, u64, 2); /* packets at TC: 0 with the note, 1 without it */

int note_if_room(struct xdp_md *ctx)
{
	struct note *note;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*note)))
		return verdict(ctx, XDP_PASS); /* whatever the reason: the packet isn't to blame */
	note = (void *)(long)ctx->data_meta;
	if ((void *)(note + 1) > (void *)(long)ctx->data)
		return verdict(ctx, XDP_PASS);
	note->mark = 1;
	note->number = 0;
	return verdict(ctx, XDP_PASS);
}

int note_or_none(struct __sk_buff *skb)
{
	struct note *note = (void *)(long)skb->data_meta;
	u32 slot = 1;
	u64 *packets;

	if ((void *)(note + 1) <= (void *)(long)skb->data && note->mark == 1)
		slot = 0;
	packets = notes.lookup(&slot);
	if (packets)
		(*packets)++;
	return TC_ACT_OK;
}
