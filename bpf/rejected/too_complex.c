// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Walks the packet byte by byte, with work for each: too much for the verifier to follow.
 *
 * The verifier says: "is too complex"
 */
#include <uapi/linux/bpf.h>

int too_complex(struct xdp_md *ctx)
{
	u8 *at = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	u32 i, sum = 0;

	for (i = 0; i < 100000000; i++) {
		if ((void *)(at + i % 1024 + 1) > end)
			break;
		sum = sum * 31 + at[i % 1024];
		if (sum % 7 == 3)
			sum++;
	}
	return sum ? XDP_PASS : XDP_DROP;
}
