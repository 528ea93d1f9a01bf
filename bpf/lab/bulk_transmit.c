// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What a driver took from a redirect. The tracepoint xdp_devmap_xmit fires once
 * for a bulk of up to 16 frames and says how many were sent and how many
 * dropped. veth's own counters are plain additions: two CPUs that send into one
 * queue lose some of them, this per-CPU count loses none. Only namespaces named
 * in "watched" count: the tracepoint is global to the machine. Where the fields
 * are, user space reads from BTF and writes to "offsets".
 */
#include <uapi/linux/bpf.h>

struct offsets {
	u32 dev_net, dev_ifindex, net_inum;
};

struct device {
	u32 netns;	/* inode of the namespace */
	u32 ifindex;	/* sends */
};

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
	void *dev = (void *)ctx->args[1], *net = 0;
	struct device key = {};
	struct bulk *seen, none = {};
	struct offsets *at;
	u32 zero = 0;

	at = offsets.lookup(&zero);
	if (!at)
		return 0;
	bpf_probe_read_kernel(&net, sizeof(net), dev + at->dev_net);
	bpf_probe_read_kernel(&key.netns, sizeof(key.netns), net + at->net_inum);
	if (!watched.lookup(&key.netns))
		return 0;
	bpf_probe_read_kernel(&key.ifindex, sizeof(key.ifindex), dev + at->dev_ifindex);
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
