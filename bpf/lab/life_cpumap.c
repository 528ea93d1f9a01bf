// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * One packet's life, on its way through a CPU map to another CPU. These
 * tracepoints name a map and no device: only the maps in "cpumaps" count.
 */
#include "life.h"

BPF_HASH(cpumaps, u32, u32, 1024);	/* by the map's id */

int on_xdp_cpumap_enqueue(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(map_id, processed, drops, to_cpu) */
	struct life_key key = life_now(XDP_CPUMAP_ENQUEUE);
	struct life_event event = {};
	u32 map = ctx->args[0];

	if (!cpumaps.lookup(&map))
		return 0;
	event.args[0] = map;
	event.args[1] = ctx->args[1];
	event.args[2] = ctx->args[2];
	event.args[3] = ctx->args[3];
	life_note(&key, &event);
	return 0;
}

int on_xdp_cpumap_kthread(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(map_id, processed, drops, sched, stats) */
	struct life_key key = life_now(XDP_CPUMAP_KTHREAD);
	struct { u32 redirect, pass, drop; } stats = {};	/* struct xdp_cpumap_stats, include/net/xdp.h */
	struct life_event event = {};
	u32 map = ctx->args[0];

	if (!cpumaps.lookup(&map) || !(u32)ctx->args[1])	/* it also runs to find nothing */
		return 0;
	LIFE_READ(stats, ctx->args[4]);
	event.args[0] = map;
	event.args[1] = ctx->args[1];
	event.args[2] = ctx->args[2];
	event.args[3] = stats.redirect;
	event.args[4] = stats.pass;
	event.args[5] = stats.drop;
	life_note(&key, &event);
	return 0;
}
