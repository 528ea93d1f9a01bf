// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Forward IPv4 as a router does: one hop less, new MAC addresses; whatever it can't do itself is left to the stack. */
#include "common/rewrite.h"
#include "common/verdict.h"

LAB_DEVMAP(ports, 64); /* each interface at its own ifindex */

int forward_ipv4(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	struct bpf_fib_lookup fib = {.family = 2 /* AF_INET */, .ifindex = ctx->ingress_ifindex};

	if (!ip || ip->ttl <= 1)
		return verdict(ctx, XDP_PASS);
	fib.ipv4_src = ip->saddr;
	fib.ipv4_dst = ip->daddr;
	fib.tot_len = ntohs(ip->tot_len);
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return verdict(ctx, XDP_PASS);
	if (ports.redirect_map(fib.ifindex, XDP_PASS) != XDP_REDIRECT)
		return verdict(ctx, XDP_PASS);
	decrease_ttl(ip);
	__builtin_memcpy(eth->h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, fib.smac, ETH_ALEN);
	return verdict(ctx, XDP_REDIRECT);
}
