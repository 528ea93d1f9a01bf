// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* XDP parses each packet once and leaves a note in front of it; TC acts on the note, and parses nothing. */
#include "common/note.h"
#include "common/parse.h"
#include "common/verdict.h"
#include <uapi/linux/pkt_cls.h>

LAB_ARRAY(counter, u32, 1); /* of the notes; one receive queue has one writer at a time */
LAB_ARRAY(closed, u32, 1); /* the mark that TC drops */

/* The UDP destination port, in host byte order; 0 for what isn't UDP over IPv4, or doesn't begin a datagram. */
static __always_inline u32 udp_port(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	struct udphdr *udp;

	if (!ip || ip->protocol != IPPROTO_UDP || is_later_fragment(ip))
		return 0;
	udp = next_udp(&at);
	return udp ? ntohs(udp->dest) : 0;
}

int leave_note(struct xdp_md *ctx)
{
	u32 only = 0, mark = udp_port(ctx), *number = counter.lookup(&only);
	struct note *note;

	if (!number || bpf_xdp_adjust_meta(ctx, -(int)sizeof(*note)))
		return verdict(ctx, XDP_PASS);
	note = (void *)(long)ctx->data_meta;
	if ((void *)(note + 1) > (void *)(long)ctx->data)
		return verdict(ctx, XDP_PASS);
	note->mark = mark;
	note->number = (*number)++;
	return verdict(ctx, XDP_PASS);
}

int read_note(struct __sk_buff *skb)
{
	struct note *note = (void *)(long)skb->data_meta;
	u32 only = 0, *mark = closed.lookup(&only);

	if (!mark || (void *)(note + 1) > (void *)(long)skb->data)
		return TC_ACT_OK;
	return note->mark == *mark ? TC_ACT_SHOT : TC_ACT_OK;
}
