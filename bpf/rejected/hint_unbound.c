// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Asks for metadata (a hint) of the network card, and is not bound to a device.
 *
 * The verifier says: "metadata kfuncs require device-bound program"
 */
#include "common/hints.h"

int hint_unbound(struct xdp_md *ctx)
{
	u64 timestamp = 0;

	return bpf_xdp_metadata_rx_timestamp(ctx, &timestamp) ? XDP_PASS : XDP_DROP;
}
