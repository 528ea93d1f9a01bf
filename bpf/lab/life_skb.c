// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * One packet's life in the stack, as an sk_buff. The packet is told from others
 * by 16 bytes of its own, wherever headers were put before them or taken off.
 * Others of the lab are noted too: an answer is one.
 */
#include "life.h"

#define MARK_BYTES 16

struct life_mark {
	u64 words[MARK_BYTES / 8];
	u32 at;		/* bytes from the frame's start */
	u32 l2;		/* bytes before the network header */
	u32 quoted;	/* bytes of the frame that quotes it all in an ICMP error, and ends in the same bytes */
};

BPF_ARRAY(life_mark, struct life_mark, 1);

static __always_inline int same(void *from, struct life_mark *mark)
{
	u64 words[MARK_BYTES / 8] = {};

	LIFE_READ(words, from);
	return words[0] == mark->words[0] && words[1] == mark->words[1];
}

static __always_inline int is_marked(void *skb, struct life_fields *at)
{
	struct life_mark *mark;
	u32 zero = 0, tail = 0;
	u16 mac = 0, network = 0;
	void *head = NULL;

	mark = life_mark.lookup(&zero);
	if (!mark || !mark->quoted)	/* not told yet */
		return 0;
	LIFE_READ(head, skb + at->skb_head);
	LIFE_READ(tail, skb + at->skb_tail);
	LIFE_READ(mac, skb + at->skb_mac_header);
	LIFE_READ(network, skb + at->skb_network_header);
	if (mac != 0xffff && same(head + mac + mark->at, mark))	/* 0xffff: not set, skb_mac_header_was_set() */
		return 1;
	if (same(head + network + mark->at - mark->l2, mark))
		return 1;
	return tail >= MARK_BYTES && tail - mac != mark->quoted && same(head + tail - MARK_BYTES, mark);
}

/* The namespace and interface of an sk_buff: its device's, or the namespace of its socket. */
static __always_inline void place(void *skb, struct life_fields *at, struct life_event *event)
{
	void *dev = NULL, *sk = NULL, *net = NULL;
	struct offsets *in;
	u32 zero = 0;

	in = offsets.lookup(&zero);
	if (!in)
		return;
	LIFE_READ(dev, skb + at->skb_dev);
	if (dev)
		identify(dev, in, &event->at);
	if (event->at.netns)
		return;
	LIFE_READ(sk, skb + at->skb_sk);
	if (!sk)	/* UDP keeps notes in place of the device (dev_scratch), which are no address */
		return;
	LIFE_READ(net, sk + at->sock_net);
	LIFE_READ(event->at.netns, net + in->net_inum);
	LIFE_READ(event->at.ifindex, skb + at->skb_iif);
}

static __always_inline int seen(u32 kind, u64 skb, int first, int second)
{
	struct life_key key = life_now(kind);
	struct life_event event = { .object = skb, .args = { first, second } };
	struct life_fields *at;
	u32 zero = 0;

	at = fields.lookup(&zero);
	if (!at)
		return 0;
	place((void *)skb, at, &event);
	if (event.at.netns && !watched.lookup(&event.at.netns))
		return 0;
	event.marked = is_marked((void *)skb, at);
	if (event.marked || event.at.ifindex)	/* netlink's messages come from no interface */
		life_note(&key, &event);
	return 0;
}

int on_net_dev_queue(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(skb) */
	return seen(NET_DEV_QUEUE, ctx->args[0], 0, 0);
}

int on_net_dev_start_xmit(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(skb, dev) */
	return seen(NET_DEV_START_XMIT, ctx->args[0], 0, 0);
}

int on_netif_rx(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(skb) */
	return seen(NETIF_RX, ctx->args[0], 0, 0);
}

int on_napi_gro_receive_entry(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(skb) */
	return seen(NAPI_GRO_RECEIVE_ENTRY, ctx->args[0], 0, 0);
}

int on_netif_receive_skb(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(skb) */
	return seen(NETIF_RECEIVE_SKB, ctx->args[0], 0, 0);
}

int on_kfree_skb(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(skb, location, reason, …) */
	return seen(KFREE_SKB, ctx->args[0], ctx->args[2], 0);
}

int on_consume_skb(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(skb, location) */
	return seen(CONSUME_SKB, ctx->args[0], 0, 0);
}

int on_icmp_send(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(skb, type, code) */
	return seen(ICMP_SEND, ctx->args[0], ctx->args[1], ctx->args[2]);
}

int on_tcp_send_reset(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(sk, skb, …) */
	return seen(TCP_SEND_RESET, ctx->args[1], 0, 0);
}
