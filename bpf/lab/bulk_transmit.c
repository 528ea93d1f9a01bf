// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What a driver took from a redirect. The tracepoint xdp_devmap_xmit fires once
 * for a bulk of up to 16 frames and says how many were sent and how many
 * dropped. veth's own counters are plain additions: two CPUs that send into one
 * queue lose some of them, this per-CPU count loses none. Only namespaces named
 * in "watched" count: the tracepoint is global to the machine. Where the fields
 * are, user space reads from BTF and writes to "offsets".
 */
#include "device.h"

struct bulk {
	u64 sent;
	u64 dropped;	/* the peer's ring was full */
	u64 refused;	/* the driver took none of the bulk: the peer is down, or can't take frames */
};

BPF_ARRAY(offsets, struct offsets, 1);
BPF_HASH(watched, u32, u32, 1024);
BPF_TABLE("percpu_hash", struct device, struct bulk, bulks, 1024);

int count_bulk(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(const struct net_device *from, const struct net_device *to, int sent, int drops, int err) */
	struct bulk *seen, none = {};
	struct device key = {};
	struct offsets *at;
	u32 zero = 0;

	at = offsets.lookup(&zero);
	if (!at)
		return 0;
	identify((void *)ctx->args[1], at, &key);
	if (!watched.lookup(&key.netns))
		return 0;
	seen = bulks.lookup_or_try_init(&key, &none);
	if (!seen)
		return 0;
	seen->sent += (int)ctx->args[2];
	if ((int)ctx->args[4] < 0)
		seen->refused += (int)ctx->args[3];
	else
		seen->dropped += (int)ctx->args[3];
	return 0;
}
