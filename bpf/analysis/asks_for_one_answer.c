// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Lets a packet pass unless the redirect said XDP_REDIRECT.
 *
 * Today a full queue shows after the program, and the packet is dropped. A helper that sends
 * at once could only answer XDP_DROP, and this program would turn that into XDP_PASS.
 */
#include "common/maps.h"

/* Where packets go. */
LAB_DEVMAP(ports, 8);

int asks_for_one_answer(struct xdp_md *ctx)
{
	if (ports.redirect_map(0, XDP_PASS) == XDP_REDIRECT)
		return XDP_REDIRECT;
	return XDP_PASS;
}
