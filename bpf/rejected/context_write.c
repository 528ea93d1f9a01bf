// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Writes to the context: the packet does not get shorter by that.
 *
 * The verifier says: "invalid bpf_context access"
 */
#include <uapi/linux/bpf.h>

int context_write(struct xdp_md *ctx)
{
	ctx->data_end = ctx->data;
	return XDP_PASS;
}
