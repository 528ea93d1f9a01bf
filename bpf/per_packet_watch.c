// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts every packet that goes through one map, at the tracepoint xdp_redirect: exact,
 * and expensive.
 *
 * One more run of a program for every packet that anything on the machine redirects:
 * measure with it and without. Per bulk, as hold_back.c does it, one run serves up to 16
 * packets. Load with type=ProgType.RAW_TRACEPOINT.
 */
#include "common/maps.h"

/*
 * One entry: the id of the map to look at (program.maps["ports"].id); the tracepoint fires
 * for the whole machine.
 */
LAB_ARRAY(watched_map, u32, 1);

/* Packets that were redirected through it. */
LAB_PERCPU_ARRAY(redirected, u64, 1);

/*
 * xdp_redirect(dev, prog, const void *tgt, int err, enum bpf_map_type map_type, u32
 * map_id, u32 index)
 */
int per_packet_watch(struct bpf_raw_tracepoint_args *ctx)
{
	u32 only = 0;
	u32 *wanted = watched_map.lookup(&only);
	u64 *packets = redirected.lookup(&only);

	if (wanted && packets && (u32)ctx->args[5] == *wanted)
		(*packets)++;
	return 0;
}
