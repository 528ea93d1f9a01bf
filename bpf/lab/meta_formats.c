// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The formats of common/meta.h and nothing more: compiled for their type information, which labkit loads into the
 * kernel where a lesson gives no program of its own.
 */
#include "common/meta.h"

int no_program(struct xdp_md *ctx)
{
	return XDP_PASS;
}
