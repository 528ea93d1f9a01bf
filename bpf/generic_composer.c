// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * In the role of a driver: puts before each packet what is known of it, in a format that says what it is.
 *
 * Proposed for the kernel's drivers in 2022, and not taken up; here a program does it. Which of three formats a packet
 * gets, its source port decides, so that a consumer meets them mixed. Frames below the threshold get none.
 *
 * compose finds out by itself what it writes. compose_bound asks the driver (load it with device=…): hash, time and
 * VLAN tag are what the driver says, and what it doesn't know is not known.
 */
#include "common/checksum.h"
#include "common/hints.h"
#include "common/rewrite.h"
#include "common/verdict.h"

/* What to find out, and how to send the packet on. */
#define WANT_HASH	(1 << 0)
#define WANT_CHECKSUM	(1 << 1)	/* adds up the whole packet */
#define WANT_VLAN	(1 << 2)
#define WANT_TIME	(1 << 3)
#define CLAIM_CHECKSUM	(1 << 4)	/* say that it is right, and don't look: as a card with a fault would */

struct compose_plan {
	u32 wanted;	/* bits as above */
	u32 action;	/* XDP_PASS 2, or XDP_REDIRECT 4: out of ports[0] */
};

LAB_ARRAY(plan, struct compose_plan, 1);

/* Format by the lowest four bits of the source port: a slot of meta_formats. A slot without ids: no metadata. */
LAB_ARRAY(format_of, u32, 16);

/* Packets that were given metadata, by slot. */
LAB_PERCPU_ARRAY(composed, u64, META_SLOTS);

LAB_DEVMAP(ports, 1);

/* The receiver's address, where packets are sent on; all zero: leave it as it is. */
LAB_ARRAY(next_hop, struct mac, 1);

struct facts {
	struct flow flow;
	u64 timestamp_ns;
	u8 csum_status;
};

/* Everything that is read from the packet is read before metadata is made: that moves pointers. */
static __always_inline void look(struct xdp_md *ctx, u32 wanted, struct facts *facts)
{
	struct cursor at = cursor_begin(ctx);

	read_flow(&at, &facts->flow);
	if (wanted & CLAIM_CHECKSUM)
		facts->csum_status = META_CSUM_VERIFIED;
	else if (wanted & WANT_CHECKSUM)
		facts->csum_status = check_sum(ctx, &at, &facts->flow);
	if (wanted & WANT_TIME)
		facts->timestamp_ns = bpf_ktime_get_ns();
}

static __always_inline void count(u32 slot)
{
	u64 *packets = composed.lookup(&slot);

	if (packets)
		(*packets)++;
}

static __always_inline struct meta_generic *as_flow(struct xdp_md *ctx, struct flow *flow)
{
	struct meta_flow *meta = meta_compose(ctx, META_FLOW, sizeof(*meta));

	if (!meta)
		return NULL;
	meta->mark = flow->source;
	meta->l4_offset = flow->l4_offset;
	meta->protocol = flow->protocol;
	return &meta->generic;
}

static __always_inline struct meta_generic *as_latency(struct xdp_md *ctx)
{
	struct meta_latency *meta = meta_compose(ctx, META_LATENCY, sizeof(*meta));
	u32 slot = META_LATENCY;
	u64 *before = composed.lookup(&slot);

	if (!meta)
		return NULL;
	meta->sent_ns = bpf_ktime_get_ns();
	meta->sequence = before ? *before : 0;
	return &meta->generic;
}

/*
 * A driver's packet comes without metadata. On a veth it may bring some along that somebody wrote on the way, or, in a
 * page that the lab's generator uses again, for an earlier packet.
 */
static __always_inline void start_empty(struct xdp_md *ctx)
{
	long bytes = (void *)(long)ctx->data - (void *)(long)ctx->data_meta;

	if (bytes > 0)
		bpf_xdp_adjust_meta(ctx, bytes);
}

/* Writes the format of this packet's slot; slots without a format of their own have the generic one. */
static __always_inline void write(struct xdp_md *ctx, u32 wanted, struct facts *facts)
{
	u32 low = facts->flow.source & 15, *chosen = format_of.lookup(&low);
	u32 slot = chosen ? *chosen : META_GENERIC;
	struct meta_generic *generic;

	if (slot == META_FLOW)
		generic = as_flow(ctx, &facts->flow);
	else if (slot == META_LATENCY)
		generic = as_latency(ctx);
	else
		generic = meta_compose(ctx, slot, sizeof(*generic));
	if (!generic)
		return;
	if (wanted & WANT_HASH) {
		generic->hash = facts->flow.hash;
		generic->hash_type = facts->flow.hash_type;
	}
	if (wanted & WANT_VLAN) {
		generic->vlan_proto = facts->flow.vlan_proto;
		generic->vlan_tci = facts->flow.vlan_tci;
	}
	generic->queue = ctx->rx_queue_index;
	generic->timestamp_ns = facts->timestamp_ns;
	generic->csum_status = facts->csum_status;
	count(slot);
}

static __always_inline int send_on(struct xdp_md *ctx, u32 action)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	u32 only = 0;
	struct mac *mac = next_hop.lookup(&only);

	if (action != XDP_REDIRECT)
		return verdict(ctx, action);
	if (eth && mac && (mac->bytes[0] | mac->bytes[1] | mac->bytes[5]))
		set_destination(eth, mac);
	return verdict(ctx, ports.redirect_map(0, 0));
}

/* What the driver knows, in place of what the headers tell. */
static __always_inline void ask(struct xdp_md *ctx, u32 wanted, struct facts *facts)
{
	enum xdp_rss_hash_type type = 0;
	struct flow *flow = &facts->flow;
	__be16 proto = 0;
	u16 tci = 0;
	u32 hash = 0;
	u64 time = 0;

	flow->hash = 0;
	flow->hash_type = 0;
	if (!bpf_xdp_metadata_rx_hash(ctx, &hash, &type) && type) {
		flow->hash = hash;
		flow->hash_type = type;
	}
	if (!bpf_xdp_metadata_rx_vlan_tag(ctx, &proto, &tci)) {
		flow->vlan_proto = proto;
		flow->vlan_tci = tci;
	}
	facts->timestamp_ns = 0;
	if (wanted & WANT_TIME && !bpf_xdp_metadata_rx_timestamp(ctx, &time))
		facts->timestamp_ns = time;
}

static __always_inline int compose_as(struct xdp_md *ctx, bool bound)
{
	u32 only = 0;
	struct compose_plan *wanted = plan.lookup(&only);
	struct facts facts = {};

	if (!wanted)
		return verdict(ctx, XDP_ABORTED);
	start_empty(ctx);
	if (meta_pays(ctx)) {
		look(ctx, wanted->wanted, &facts);
		if (bound)
			ask(ctx, wanted->wanted, &facts);
		write(ctx, wanted->wanted, &facts);
	}
	return send_on(ctx, wanted->action);
}

int compose(struct xdp_md *ctx)
{
	return compose_as(ctx, false);
}

int compose_bound(struct xdp_md *ctx)
{
	return compose_as(ctx, true);
}
