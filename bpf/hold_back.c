// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Flow control where XDP has none: a program at a tracepoint sees that a queue is full,
 * and tells the XDP program.
 *
 * Proposed on the kernel's mailing list in 2017, when redirected packets were lost in full
 * transmit queues: whatever is lost there has already cost its work. see_drops runs when a
 * driver has taken a bulk of up to 16 frames, and knows how many it threw away; then
 * hold_back drops at once, before any work, until the time is up.
 */
#include "common/verdict.h"
#include "lab/device.h"

#define MOST_NS 10000000	/* 10 ms: a queue that nobody watches any more must not close the road for ever */

struct frames {
	u64 sent;
	u64 dropped;
};

/* Where the kernel keeps what identify() reads; filled in by program.watch. */
LAB_ARRAY(offsets, struct offsets, 1);

/* Devices to look at: the tracepoint fires for every device of the machine. */
LAB_HASH(watched, struct device, u32, 8);

/* Frames of those devices, as their drivers took them. */
LAB_PERCPU_ARRAY(taken, struct frames, 1);

/* Nanoseconds: how long to hold back after a loss; 0: not at all. */
LAB_ARRAY(hold_ns, u64, 1);

/* Until when, on the kernel's monotonic clock. */
LAB_ARRAY(until_ns, u64, 1);

LAB_DEVMAP(ports, 1);

/* Note a loss: nothing is to leave for a while. */
static __always_inline void start_holding(void)
{
	u32 only = 0;
	u64 *hold = hold_ns.lookup(&only), until;

	if (!hold || !*hold)
		return;
	until = bpf_ktime_get_ns() + (*hold < MOST_NS ? *hold : MOST_NS);
	until_ns.update(&only, &until);
}

/*
 * xdp_devmap_xmit(const struct net_device *from, const struct net_device *to, int sent,
 * int drops, int err)
 */
int see_drops(struct bpf_raw_tracepoint_args *ctx)
{
	struct device to = {};
	u32 only = 0;
	struct offsets *at = offsets.lookup(&only);
	struct frames *seen = taken.lookup(&only);

	if (!at || !seen)
		return 0;
	identify((void *)ctx->args[1], at, &to);
	if (!watched.lookup(&to))
		return 0;
	seen->sent += (int)ctx->args[2];
	seen->dropped += (int)ctx->args[3];
	if ((int)ctx->args[3] > 0)
		start_holding();
	return 0;
}

int hold_back(struct xdp_md *ctx)
{
	u32 only = 0;
	u64 *until = until_ns.lookup(&only);

	if (until && *until && bpf_ktime_get_ns() < *until)
		return verdict(ctx, XDP_DROP);
	return verdict(ctx, ports.redirect_map(0, 0));
}
