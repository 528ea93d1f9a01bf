// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Leaves a note in front of each packet, in the free space before it, and sends the packet
 * on: up the stack or by any of the ways a program has.
 *
 * The note is no part of the packet. Where there is no room for one, the packet goes on
 * without.
 */
#include "common/note.h"
#include "common/verdict.h"

/* Ways: as Way in labkit/lesson/metadata_post.py. */
enum way { TO_STACK, BACK, TO_DEVICE, TO_CPU, TO_SOCKET };

struct plan {
	u32 mark;	/* to write; 0: no note at all */
	u32 way;
	u32 cpu;	/* for TO_CPU */
	u32 same;	/* 1: every note has the number 0 */
};

/* One entry. */
LAB_ARRAY(plan, struct plan, 1);

/* One entry: notes written so far. One receive queue has one writer at a time. */
LAB_ARRAY(written, u32, 1);

/* Slot 0: where TO_DEVICE goes, and the program that a packet meets there. */
LAB_DEVMAP_PROGRAMS(ports, 1);

/* Where TO_CPU goes. */
LAB_CPUMAP(cpus, 64);

/* Where TO_SOCKET goes, by receive queue. */
LAB_XSKMAP(sockets, 4);

/* Whether there was room for the note; it takes the place of what somebody else may have left there. */
static __always_inline bool write_note(struct xdp_md *ctx, u32 mark, u32 number)
{
	long already = (void *)(long)ctx->data - (void *)(long)ctx->data_meta;
	struct note *note;

	if (bpf_xdp_adjust_meta(ctx, already - (int)sizeof(*note)))
		return false;
	note = (void *)(long)ctx->data_meta; /* read anew: it has moved */
	if ((void *)(note + 1) > (void *)(long)ctx->data)
		return false;
	note->mark = mark;
	note->number = number;
	return true;
}

/* The way that the plan has for the packet, as a return code. */
static __always_inline int send_on(struct xdp_md *ctx, struct plan *wanted)
{
	switch (wanted->way) {
	case BACK:
		return XDP_TX;
	case TO_DEVICE:
		return ports.redirect_map(0, 0);
	case TO_CPU:
		return cpus.redirect_map(wanted->cpu, 0);
	case TO_SOCKET:
		return sockets.redirect_map(ctx->rx_queue_index, 0);
	}
	return XDP_PASS;
}

int meta_write(struct xdp_md *ctx)
{
	u32 only = 0, *number = written.lookup(&only);
	struct plan *wanted = plan.lookup(&only);

	if (!number || !wanted)
		return verdict(ctx, XDP_ABORTED);
	if (wanted->mark && write_note(ctx, wanted->mark, wanted->same ? 0 : *number))
		(*number)++;
	return verdict(ctx, send_on(ctx, wanted));
}
