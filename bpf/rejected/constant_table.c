// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Looks up a table of constants. Found before the verifier sees it.
 *
 * The compiler says: "table of constants"
 */
#include <uapi/linux/bpf.h>

int constant_table(struct xdp_md *ctx)
{
	u64 verdicts[8] = { 1, 2, 2, 1, 2, 1, 1, 2 };

	return verdicts[ctx->rx_queue_index & 7];
}
