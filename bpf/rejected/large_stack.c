// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Needs more than 512 bytes for its variables.
 *
 * The compiler says: "BPF stack limit"
 */
#include <uapi/linux/bpf.h>

int large_stack(struct xdp_md *ctx)
{
	volatile u8 copy[600];
	u32 i;

	for (i = 0; i < sizeof(copy); i++)
		copy[i] = i;
	return copy[ctx->rx_queue_index & 511];
}
