// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* No more than most datagrams may wait to be read: what was passed, less what was read, is out. */
#include "common/parse.h"
#include "common/verdict.h"

LAB_ARRAY(most, u64, 1);	/* filled in */
LAB_ARRAY(taken, u64, 1);	/* filled in: datagrams read so far */
LAB_ARRAY(passed, u64, 1);	/* yours: datagrams passed so far */

int few_out(struct xdp_md *ctx)
{
	u32 only = 0;
	u64 *limit = most.lookup(&only), *read = taken.lookup(&only), *out = passed.lookup(&only);
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;

	if (!limit || !read || !out)
		return verdict(ctx, XDP_ABORTED);
	if (!ip || ip->protocol != IPPROTO_UDP)
		return verdict(ctx, XDP_PASS);
	if (*out - *read >= *limit)
		return verdict(ctx, XDP_DROP);
	*out += 1;
	return verdict(ctx, XDP_PASS);
}
