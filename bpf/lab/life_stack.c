// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * One packet's life: the poll that took it out of a ring, and the socket that
 * got it, and its reader. Only namespaces named in "watched" count.
 */
#include "life.h"

/* include/linux/socket.h */
#define PF_NETLINK 16
#define MSG_PEEK 2

int on_napi_poll(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(napi, work, budget), when the poll has ended */
	struct life_key key = life_now(NAPI_POLL);
	struct life_event event = {};
	struct life_fields *at;
	struct offsets *in;
	void *dev = NULL;
	u32 zero = 0;

	at = fields.lookup(&zero);
	in = offsets.lookup(&zero);
	if (!at || !in || !(int)ctx->args[1])
		return 0;
	LIFE_READ(dev, ctx->args[0] + at->napi_dev);
	if (!dev)	/* the backlog's */
		return 0;
	identify(dev, in, &event.at);
	if (!watched.lookup(&event.at.netns))
		return 0;
	event.args[0] = ctx->args[1];
	event.args[1] = ctx->args[2];
	life_note(&key, &event);
	return 0;
}

/* A socket of the lab, by family, protocol and local port (host order). */
static __always_inline int at_socket(u64 sk, struct life_event *event)
{
	struct life_fields *at;
	struct offsets *in;
	void *net = NULL;
	u16 word = 0;
	u32 zero = 0;

	at = fields.lookup(&zero);
	in = offsets.lookup(&zero);
	if (!at || !in)
		return 0;
	LIFE_READ(net, sk + at->sock_net);
	LIFE_READ(event->at.netns, net + in->net_inum);
	if (!watched.lookup(&event->at.netns))
		return 0;
	event->object = sk;
	LIFE_READ(word, sk + at->sock_family);
	event->args[0] = word;
	if (word == PF_NETLINK)
		return 0;
	LIFE_READ(word, sk + at->sock_protocol);
	event->args[1] = word;
	LIFE_READ(word, sk + at->sock_num);
	event->args[2] = word;
	return 1;
}

int on_sk_data_ready(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(sk) */
	struct life_key key = life_now(SK_DATA_READY);
	struct life_event event = {};

	if (at_socket(ctx->args[0], &event))
		life_note(&key, &event);
	return 0;
}

int on_sock_recv_length(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(sk, ret, flags) */
	struct life_key key = life_now(SOCK_RECV_LENGTH);
	struct life_event event = {};

	if ((int)ctx->args[1] < 0 || ctx->args[2] & MSG_PEEK || !at_socket(ctx->args[0], &event))
		return 0;
	event.args[3] = ctx->args[1];
	life_note(&key, &event);
	return 0;
}
