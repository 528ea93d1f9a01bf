// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * One packet's life, as long as it is a frame without an sk_buff: redirects,
 * exceptions, and the bulks that drivers take. These tracepoints name devices
 * and programs and no packet, so the lab sends nothing else meanwhile. Only
 * namespaces named in "watched" count: tracepoints are global to the machine.
 */
#include "life.h"

/* The device of an event; 0 where it belongs to no namespace of the lab. */
static __always_inline int at_device(void *dev, struct life_event *event)
{
	struct offsets *at;
	u32 zero = 0;

	at = offsets.lookup(&zero);
	if (!at)
		return 0;
	identify(dev, at, &event->at);
	return watched.lookup(&event->at.netns) != NULL;
}

static __always_inline void other_device(void *dev, struct life_event *event)
{
	struct offsets *at;
	u32 zero = 0;

	at = offsets.lookup(&zero);
	if (at && dev)
		identify(dev, at, &event->other);
}

static __always_inline u32 program_id(void *prog)
{
	struct life_fields *at;
	u32 zero = 0, id = 0;
	void *aux = NULL;

	at = fields.lookup(&zero);
	if (!at)
		return 0;
	LIFE_READ(aux, prog + at->prog_aux);
	LIFE_READ(id, aux + at->aux_id);
	return id;
}

/* TP_PROTO(dev, xdp, tgt, err, map_type, map_id, index) */
static __always_inline int redirected(struct bpf_raw_tracepoint_args *ctx, u32 kind)
{
	struct life_key key = life_now(kind);
	struct life_event event = {};
	void *target = (void *)ctx->args[2], *dev = NULL;
	int i;

	if (!at_device((void *)ctx->args[0], &event))
		return 0;
	event.program = program_id((void *)ctx->args[1]);
#pragma unroll
	for (i = 0; i < 4; i++)
		event.args[i] = ctx->args[3 + i];
	/* struct bpf_dtab_netdev begins with its device, include/trace/events/xdp.h */
	if (target && (event.args[1] == BPF_MAP_TYPE_DEVMAP || event.args[1] == BPF_MAP_TYPE_DEVMAP_HASH)) {
		LIFE_READ(dev, target);
		other_device(dev, &event);
	}
	life_note(&key, &event);
	return 0;
}

int on_xdp_redirect(struct bpf_raw_tracepoint_args *ctx)
{
	return redirected(ctx, XDP_REDIRECTED);
}

int on_xdp_redirect_err(struct bpf_raw_tracepoint_args *ctx)
{
	return redirected(ctx, XDP_REDIRECT_FAILED);
}

int on_xdp_exception(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(dev, xdp, act) */
	struct life_key key = life_now(XDP_EXCEPTION);
	struct life_event event = {};

	if (!at_device((void *)ctx->args[0], &event))
		return 0;
	event.program = program_id((void *)ctx->args[1]);
	event.args[0] = ctx->args[2];
	life_note(&key, &event);
	return 0;
}

int on_xdp_devmap_xmit(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(from_dev, to_dev, sent, drops, err) */
	struct life_key key = life_now(XDP_DEVMAP_XMIT);
	struct life_event event = {};

	if (!at_device((void *)ctx->args[1], &event))
		return 0;
	other_device((void *)ctx->args[0], &event);
	event.args[0] = ctx->args[2];
	event.args[1] = ctx->args[3];
	event.args[2] = ctx->args[4];
	life_note(&key, &event);
	return 0;
}

int on_xdp_bulk_tx(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(dev, sent, drops, err) */
	struct life_key key = life_now(XDP_BULK_TX);
	struct life_event event = {};

	if (!at_device((void *)ctx->args[0], &event))
		return 0;
	event.args[0] = ctx->args[1];
	event.args[1] = ctx->args[2];
	event.args[2] = ctx->args[3];
	life_note(&key, &event);
	return 0;
}
