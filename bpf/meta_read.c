// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Looks for the note that bpf/meta_write.c left in front of a packet: as an XDP program
 * (of an interface, of a CPU map, of a device map), and in traffic control.
 *
 * Both contexts have data_meta. Where there is no metadata it equals data; where there is,
 * it may be somebody else's: the length and the mark must be right.
 */
#include "common/note.h"
#include "common/verdict.h"
#include <uapi/linux/pkt_cls.h>

struct wanted {
	u32 mark;	/* of a note that counts as right */
	u32 take;	/* 1: what was read ends here; 0: it goes on */
};

/* One entry. */
LAB_ARRAY(wanted, struct wanted, 1);

struct found {
	u64 right;	/* packets with the note and the mark */
	u64 numbers;	/* sum of these notes' numbers */
	u64 none;	/* packets without metadata */
	u64 other;	/* packets with metadata that isn't the note */
};

/* One entry: what was read so far. */
LAB_PERCPU_ARRAY(found, struct found, 1);

/* Packets by TC action: TC_ACT_OK 0, TC_ACT_SHOT 2. */
LAB_PERCPU_ARRAY(tc_verdicts, u64, 8);

/* Counts one packet; from meta to data is its metadata. */
static __always_inline void look(void *meta, void *data, u32 mark)
{
	struct note *note = meta;
	u32 only = 0;
	struct found *count = found.lookup(&only);

	if (!count)
		return;
	if (meta == data) {
		count->none++;
	} else if ((void *)(note + 1) > data || note->mark != mark) {
		count->other++;
	} else {
		count->right++;
		count->numbers += note->number;
	}
}

int meta_read(struct xdp_md *ctx)
{
	u32 only = 0;
	struct wanted *rule = wanted.lookup(&only);

	if (!rule)
		return verdict(ctx, XDP_ABORTED);
	look((void *)(long)ctx->data_meta, (void *)(long)ctx->data, rule->mark);
	return verdict(ctx, rule->take ? XDP_DROP : XDP_PASS);
}

int meta_read_tc(struct __sk_buff *skb)
{
	u32 only = 0, action = TC_ACT_OK;
	struct wanted *rule = wanted.lookup(&only);
	u64 *packets;

	if (!rule)
		return TC_ACT_OK;
	look((void *)(long)skb->data_meta, (void *)(long)skb->data, rule->mark);
	if (rule->take)
		action = TC_ACT_SHOT;
	packets = tc_verdicts.lookup(&action);
	if (packets)
		(*packets)++;
	return action;
}
