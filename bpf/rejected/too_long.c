// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Goes round ten million times: it would end, but the verifier follows every round, and
 * stops at a million instructions.
 *
 * The verifier says: "BPF program is too large"
 */
#include <uapi/linux/bpf.h>

int too_long(struct xdp_md *ctx)
{
	volatile u32 sum = 0;
	u32 i;

	for (i = 0; i < 10000000; i++)
		sum += i;
	return sum ? XDP_PASS : XDP_DROP;
}
