// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Hands a helper a packet pointer where it wants the context.
 *
 * The verifier says: "helper access to the packet is not allowed"
 */
#include <uapi/linux/bpf.h>

int packet_as_context(struct xdp_md *ctx)
{
	return bpf_xdp_adjust_head((void *)(long)ctx->data, 4);
}
