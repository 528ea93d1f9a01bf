// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Makes sure of the Ethernet header, then reads from the IPv4 header behind it.
 *
 * The verifier says: "invalid access to packet"
 */
#include <uapi/linux/bpf.h>
#include <uapi/linux/if_ether.h>
#include <uapi/linux/ip.h>
#include <uapi/linux/in.h>

int small_check(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(eth + 1);

	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	if (ip->protocol == IPPROTO_UDP)
		return XDP_DROP;
	return XDP_PASS;
}
