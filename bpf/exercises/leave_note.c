// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* XDP leaves a note in front of each packet, TC reads it. Here it stays blank, and nobody looks. */
#include "common/note.h"
#include "common/parse.h"
#include "common/verdict.h"
#include <uapi/linux/pkt_cls.h>

LAB_ARRAY(counter, u32, 1); /* of the notes; one receive queue has one writer at a time */
LAB_ARRAY(closed, u32, 1); /* the mark that TC drops */

int leave_note(struct xdp_md *ctx)
{
	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(struct note)))
		return verdict(ctx, XDP_PASS);
	return verdict(ctx, XDP_PASS);
}

int read_note(struct __sk_buff *skb)
{
	return TC_ACT_OK; /* TC_ACT_SHOT drops */
}
