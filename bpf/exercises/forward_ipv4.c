// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Forward IPv4 as a router does. Here it leaves as if no router had seen it. */
#include "common/rewrite.h"
#include "common/verdict.h"

LAB_DEVMAP(ports, 64); /* each interface at its own ifindex */

int forward_ipv4(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	struct bpf_fib_lookup fib = {.family = 2 /* AF_INET */, .ifindex = ctx->ingress_ifindex};

	if (!ip)
		return verdict(ctx, XDP_PASS);
	fib.ipv4_src = ip->saddr;
	fib.ipv4_dst = ip->daddr;
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return verdict(ctx, XDP_PASS);
	return verdict(ctx, ports.redirect_map(fib.ifindex, 0));
}
