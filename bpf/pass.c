// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Lets every packet through, and counts it: the smallest program that shows it is there.
 */
#include "common/verdict.h"

int pass(struct xdp_md *ctx)
{
	return verdict(ctx, XDP_PASS);
}
