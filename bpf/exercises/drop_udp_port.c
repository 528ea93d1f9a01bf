// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Drop UDP to port 9999, pass the rest. Its author tried it with one empty datagram: dropped. */
#include "common/parse.h"
#include "common/verdict.h"

int drop_udp_port(struct xdp_md *ctx)
{
	u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (data + 60 > end) /* no frame on Ethernet is shorter */
		return verdict(ctx, XDP_DROP);
	if (data[23] == IPPROTO_UDP && *(u16 *)(data + 36) == 9999)
		return verdict(ctx, XDP_DROP);
	return verdict(ctx, XDP_PASS);
}
