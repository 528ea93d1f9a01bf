// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Share IPv4 out over the CPUs, each flow always to the same one.
 *
 * A fragment has no ports, but for the first: all of a datagram's stay together only if none is asked for its ports.
 * The multiplication stirs: without it, the low bits would be those of one byte of the ports.
 */
#include "common/parse.h"
#include "common/verdict.h"

LAB_CPUMAP(cpus, 64); /* filled in from CPU 0 */
LAB_ARRAY(cpus_in_use, u32, 1);

int spread_flows(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	u32 only = 0, hash, *count = cpus_in_use.lookup(&only);
	struct udphdr *ports = NULL;

	if (!ip || !count || !*count)
		return verdict(ctx, XDP_PASS);
	hash = ip->saddr ^ ip->daddr ^ ip->protocol;
	if (ip->protocol == IPPROTO_UDP || ip->protocol == IPPROTO_TCP)
		if (!(ip->frag_off & htons(0x3fff))) /* no offset, and no more fragments: it is whole */
			ports = next_udp(&at); /* TCP begins with the same two ports */
	if (ports)
		hash ^= (u32)ports->source << 16 | ports->dest;
	hash *= 0x9e3779b1;
	return verdict(ctx, cpus.redirect_map((u64)hash * *count >> 32, 0));
}
