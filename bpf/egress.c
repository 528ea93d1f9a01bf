// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A second program at the way out: to_port redirects by the map, and egress meets each
 * packet just before it leaves.
 *
 * There XDP_PASS means "send it" and XDP_DROP takes it away again, though the first
 * program has long said XDP_REDIRECT. Load egress with
 * expected_attach_type=AttachType.XDP_DEVMAP, then write ports[0] = interface, egress.
 */
#include "common/rewrite.h"
#include "common/verdict.h"

struct leaving {
	u32 least_bytes;	/* a shorter frame does not leave */
	u16 closed_port;	/* UDP to this port, in host byte order, does not leave; 0: none */
	struct mac source;	/* of the interface they leave by */
};

/* Slot 0: where to, and with which program. */
LAB_DEVMAP_PROGRAMS(ports, 1);

/* One entry: what egress goes by. */
LAB_ARRAY(leaving, struct leaving, 1);

int to_port(struct xdp_md *ctx)
{
	return verdict(ctx, ports.redirect_map(0, 0));
}

/* Whether this is UDP to the given port, in host byte order. */
static __always_inline bool is_to_port(struct cursor at, struct ethhdr *eth, u16 port)
{
	struct iphdr *ip = eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	struct udphdr *udp;

	if (!ip || ip->protocol != IPPROTO_UDP || is_later_fragment(ip))
		return false;
	udp = next_udp(&at);
	return udp && udp->dest == htons(port);
}

int egress(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	u32 only = 0;
	struct leaving *rule = leaving.lookup(&only);

	if (!eth || !rule)
		return verdict(ctx, XDP_ABORTED);
	if (ctx->data_end - ctx->data < rule->least_bytes)
		return verdict(ctx, XDP_DROP);
	if (rule->closed_port && is_to_port(at, eth, rule->closed_port))
		return verdict(ctx, XDP_DROP);
	set_source(eth, &rule->source);
	return verdict(ctx, XDP_PASS);
}
