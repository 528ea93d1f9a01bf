// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Sends every packet out of the interface whose index the map holds.
 *
 * The kernel looks the index up packet by packet, among the interfaces of the host that
 * received. XDP_REDIRECT only says that the program wants it: whether the packet left is
 * counted elsewhere. Its MAC addresses stay as they are, so the stack at the other end may
 * take it for somebody else's.
 */
#include "common/verdict.h"

/* One entry: the index of the interface to send out of. */
LAB_ARRAY(out, u32, 1);

int redirect_ifindex(struct xdp_md *ctx)
{
	u32 slot = 0;
	u32 *ifindex = out.lookup(&slot);

	return verdict(ctx, ifindex ? bpf_redirect(*ifindex, 0) : XDP_ABORTED);
}
