// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Writes a line for every packet that goes through one map: the way one looks at it first,
 * and the dearest.
 *
 * The lines wait in a ring buffer; when nobody reads them it fills up, and those that find
 * it full are lost. Load with type=ProgType.RAW_TRACEPOINT.
 */
#include "common/maps.h"

struct line {
	u64 time_ns;	/* on the kernel's monotonic clock */
	u32 index;	/* in the map, where the packet is going */
	u32 cpu;
};

/* One entry: the id of the map to look at; the tracepoint fires for the whole machine. */
LAB_ARRAY(watched_map, u32, 1);

/* 0: lines written, 1: lines lost, as the buffer was full. */
LAB_PERCPU_ARRAY(lines, u64, 2);

/* 64 pages of lines. */
LAB_RINGBUF(journal, 64);

/*
 * xdp_redirect(dev, prog, const void *tgt, int err, enum bpf_map_type map_type, u32
 * map_id, u32 index)
 */
int log_watch(struct bpf_raw_tracepoint_args *ctx)
{
	struct line line = {};
	u32 slot = 0;
	u32 *wanted = watched_map.lookup(&slot);
	u64 *count;

	if (!wanted || (u32)ctx->args[5] != *wanted)
		return 0;
	line.time_ns = bpf_ktime_get_ns();
	line.index = ctx->args[6];
	line.cpu = bpf_get_smp_processor_id();
	slot = journal.ringbuf_output(&line, sizeof(line), 0) ? 1 : 0;
	count = lines.lookup(&slot);
	if (count)
		(*count)++;
	return 0;
}
