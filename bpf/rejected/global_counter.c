// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts in a variable of the file. Found before the verifier sees it; that would say "invalid mem
 * access 'scalar'".
 *
 * The compiler says: "uses a global variable"
 */
#include <uapi/linux/bpf.h>

static u64 packets;

int global_counter(struct xdp_md *ctx)
{
	packets++;
	return packets % 2 ? XDP_PASS : XDP_DROP;
}
