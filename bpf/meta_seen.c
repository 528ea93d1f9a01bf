// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Writes down what metadata each packet has when it comes to traffic control: how many
 * bytes, and what a note of bpf/common/note.h would say. Lets all of them go on.
 *
 * Load as a classifier, attach to an interface's ingress.
 */
#include "common/note.h"
#include <uapi/linux/pkt_cls.h>

struct seen {
	u32 bytes;	/* of metadata */
	u32 mark;	/* of the note, as far as there are bytes for one; else 0 */
	u32 number;
};

/* 8 pages, oldest first. */
LAB_RINGBUF(seen, 8);

int meta_seen(struct __sk_buff *skb)
{
	void *meta = (void *)(long)skb->data_meta, *data = (void *)(long)skb->data;
	struct note *note = meta;
	struct seen line = {.bytes = data - meta};

	if (meta + sizeof(note->mark) <= data)
		line.mark = note->mark;
	if ((void *)(note + 1) <= data)
		line.number = note->number;
	seen.ringbuf_output(&line, sizeof(line), 0);
	return TC_ACT_OK;
}
