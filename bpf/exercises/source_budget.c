// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Each IPv4 source may send 100 packets; here all packets share one budget. */
#include "common/parse.h"
#include "common/verdict.h"

LAB_HASH(packets_by_source, u32, u64, 1024);

int source_budget(struct xdp_md *ctx)
{
	u32 source = 0;
	u64 none = 0, *packets = packets_by_source.lookup_or_try_init(&source, &none);

	if (!packets)
		return verdict(ctx, XDP_ABORTED);
	__sync_fetch_and_add(packets, 1);
	return verdict(ctx, *packets > 100 ? XDP_DROP : XDP_PASS);
}
