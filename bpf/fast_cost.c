// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A redirect cut into pieces, for the clock: each program goes one step further than the one
 * before, so that the difference of two rates is the price of a step.
 *
 *	fast_drop	drops: what every packet costs
 *	fast_miss	asks an empty slot, and drops as its flags say: a call that finds nothing
 *	fast_abort	the same, and the flags say XDP_ABORTED
 *	fast_pass	the same, and the flags say XDP_PASS: the stack's work
 *	fast_call	calls bpf_redirect_map, and drops all the same: the first step alone
 *	fast_index	the same with bpf_redirect
 *	fast_nobody	redirects to every device in an empty map: the second step too, but no queue
 *	fast_send	redirects
 *	fast_by_index	redirects by the interface's index
 *	fast_egress	at the way out of the slot's device: takes the packet away again
 *
 * None of them counts, but for the last: a counter behind the redirect is what the lesson is about,
 * and the drivers count anyway.
 */
#include "common/verdict.h"

/* Slot 0: where to. With fast_egress, or without it. */
LAB_DEVMAP_PROGRAMS(ports, 1);

/* Never filled. */
LAB_DEVMAP(nobody, 1);

/* One entry: the index of the same interface. */
LAB_ARRAY(out, u32, 1);

int fast_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

int fast_miss(struct xdp_md *ctx)
{
	return nobody.redirect_map(0, XDP_DROP);
}

int fast_abort(struct xdp_md *ctx)
{
	return nobody.redirect_map(0, XDP_ABORTED);
}

int fast_pass(struct xdp_md *ctx)
{
	return nobody.redirect_map(0, XDP_PASS);
}

int fast_call(struct xdp_md *ctx)
{
	ports.redirect_map(0, 0);
	return XDP_DROP;
}

int fast_index(struct xdp_md *ctx)
{
	u32 only = 0, *ifindex = out.lookup(&only);

	if (ifindex)
		bpf_redirect(*ifindex, 0);
	return XDP_DROP;
}

int fast_nobody(struct xdp_md *ctx)
{
	return nobody.redirect_map(0, BPF_F_BROADCAST);
}

int fast_send(struct xdp_md *ctx)
{
	return ports.redirect_map(0, 0);
}

int fast_by_index(struct xdp_md *ctx)
{
	u32 only = 0, *ifindex = out.lookup(&only);

	return ifindex ? bpf_redirect(*ifindex, 0) : XDP_ABORTED;
}

int fast_egress(struct xdp_md *ctx)
{
	return verdict(ctx, XDP_DROP);
}
