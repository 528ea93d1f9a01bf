// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Redirects that failed. The tracepoint xdp_redirect_err fires for each frame
 * that a program wanted sent elsewhere and the kernel could not: the target is
 * down, the frame too long, the peer unable to take it. Nothing else counts
 * them where the frame came from the generator. Only namespaces named in
 * "watched" count: the tracepoint is global to the machine. Where the fields
 * are, user space reads from BTF and writes to "offsets".
 */
#include "device.h"

struct failure {
	struct device received;	/* the generator's frames count as received at the loopback interface */
	u32 error;		/* errno */
};

BPF_ARRAY(offsets, struct offsets, 1);
BPF_HASH(watched, u32, u32, 1024);
BPF_TABLE("percpu_hash", struct failure, u64, failures, 1024);

int count_failure(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(const struct net_device *dev, const struct bpf_prog *xdp, const void *tgt, int err, …) */
	struct failure key = {};
	struct offsets *at;
	u64 none = 0, *count;
	u32 zero = 0;

	at = offsets.lookup(&zero);
	if (!at)
		return 0;
	identify((void *)ctx->args[0], at, &key.received);
	if (!watched.lookup(&key.received.netns))
		return 0;
	key.error = -(int)ctx->args[3];
	count = failures.lookup_or_try_init(&key, &none);
	if (count)
		*count += 1;
	return 0;
}
