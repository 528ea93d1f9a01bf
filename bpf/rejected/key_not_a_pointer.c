// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Hands a helper the number 0 where it wants a pointer to the key.
 *
 * The verifier says: "R2 type=scalar expected=fp"
 */
#include "common/maps.h"

LAB_HASH(seen, u32, u64, 16);

int key_not_a_pointer(struct xdp_md *ctx)
{
	return seen.lookup((void *)0) ? XDP_PASS : XDP_DROP;
}
