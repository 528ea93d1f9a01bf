// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Frames that XDP could not send on, and why: two programs that count alike.
 *
 * The tracepoint xdp_redirect_err fires for each frame that a program wanted
 * sent elsewhere and the kernel could not: the target is down, the frame too
 * long, the peer unable to take it. Nothing else counts them where the frame
 * came from the generator. xdp_bulk_tx fires once for a bulk of up to 16 frames
 * that XDP_TX sends back, and says how many the driver dropped; a bulk without
 * loss ends at the first look. Only namespaces named in "watched" count: the
 * tracepoints are global to the machine. Where the fields are, user space reads
 * from BTF and writes to "offsets".
 */
#include "device.h"

struct failure {
	struct device received;	/* the generator's frames count as received at the loopback interface */
	u32 error;		/* errno; 0: the peer's ring was full */
};

BPF_ARRAY(offsets, struct offsets, 1);
BPF_HASH(watched, u32, u32, 1024);
BPF_TABLE("percpu_hash", struct failure, u64, failures, 1024);

static __always_inline int count(void *dev, int err, u64 frames)
{
	struct failure key = {};
	struct offsets *at;
	u64 none = 0, *total;
	u32 zero = 0;

	at = offsets.lookup(&zero);
	if (!at)
		return 0;
	identify(dev, at, &key.received);
	if (!watched.lookup(&key.received.netns))
		return 0;
	key.error = -err;
	total = failures.lookup_or_try_init(&key, &none);
	if (total)
		*total += frames;
	return 0;
}

int count_failure(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(const struct net_device *dev, const struct bpf_prog *xdp, const void *tgt, int err, …) */
	return count((void *)ctx->args[0], ctx->args[3], 1);
}

int count_unsent(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(const struct net_device *dev, int sent, int drops, int err) */
	int drops = ctx->args[2];

	return drops > 0 ? count((void *)ctx->args[0], ctx->args[3], drops) : 0;
}
