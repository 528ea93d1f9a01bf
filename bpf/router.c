// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Forwards IPv4 as the host's routing table says, without the stack.
 *
 * The stack stays the authority: the program asks its table (the FIB) and its neighbours,
 * and hands it whatever it can't do itself, unaltered. That is ARP, packets for the
 * router, those whose TTL ends here (the stack answers), those too large for the next
 * link, IP options, routes and neighbours not known. ports[ifindex] must hold each
 * interface to forward to; what would leave by another one passes too.
 */
#include "common/rewrite.h"
#include "common/verdict.h"

#define AF_INET 2	/* include/linux/socket.h */
#define ANSWERS 16

/* Interfaces by their own ifindex. */
LAB_DEVMAP(ports, 64);

/*
 * Packets by what the routing table answered: BPF_FIB_LKUP_RET_…, 0 found, 4 not to be
 * forwarded, 8 too large.
 */
LAB_PERCPU_ARRAY(answers, u64, ANSWERS);

/* Asks the routing table; found, fib has the way out and both MAC addresses. */
static __always_inline bool find_route(struct xdp_md *ctx, struct iphdr *ip, struct bpf_fib_lookup *fib)
{
	u32 answer;
	u64 *packets;

	fib->family = AF_INET;
	fib->tos = ip->tos;
	fib->l4_protocol = ip->protocol;
	fib->tot_len = ntohs(ip->tot_len);
	fib->ipv4_src = ip->saddr;
	fib->ipv4_dst = ip->daddr;
	fib->ifindex = ctx->ingress_ifindex;
	answer = bpf_fib_lookup(ctx, fib, sizeof(*fib), 0);
	packets = answers.lookup(&answer);
	if (packets)
		(*packets)++;
	return answer == BPF_FIB_LKUP_RET_SUCCESS;
}

int router(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	struct bpf_fib_lookup fib = {};

	if (!ip || ip->ihl != 5 || ip->ttl <= 1)
		return verdict(ctx, XDP_PASS);
	if (!find_route(ctx, ip, &fib))
		return verdict(ctx, XDP_PASS);
	if (ports.redirect_map(fib.ifindex, XDP_PASS) != XDP_REDIRECT)
		return verdict(ctx, XDP_PASS);
	decrease_ttl(ip);
	__builtin_memcpy(eth->h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, fib.smac, ETH_ALEN);
	return verdict(ctx, XDP_REDIRECT);
}
