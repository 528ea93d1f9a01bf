// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Calls a helper that is for other types of program: where XDP runs there is no struct sk_buff
 * to take a VLAN tag from.
 *
 * The verifier says: "program of this type cannot use helper"
 */
#include <uapi/linux/bpf.h>

int wrong_helper(struct xdp_md *ctx)
{
	return bpf_skb_vlan_pop(ctx) ? XDP_PASS : XDP_DROP;
}
