// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Never ends.
 *
 * The verifier says: "infinite loop detected"
 */
#include <uapi/linux/bpf.h>

int infinite_loop(struct xdp_md *ctx)
{
	while (1)
		;
	return XDP_PASS;
}
