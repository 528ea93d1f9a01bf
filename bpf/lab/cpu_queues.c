// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What went through the queues of CPU maps. The tracepoint xdp_cpumap_enqueue
 * fires once for a bulk of up to 8 frames that were put in a queue, or found it
 * full; xdp_cpumap_kthread whenever the CPU's thread has taken up to 8 out and
 * run the slot's program over them. Nothing else in the kernel counts either.
 * The tracepoints are global to the machine: only queues that user space has
 * made an entry for count. Where the fields of the statistics are, it reads
 * from BTF and writes to "offsets". This runs once for 8 packets at the best:
 * one look-up each, and one read.
 */
#include <uapi/linux/bpf.h>

#define STATS 16	/* struct xdp_cpumap_stats has three counters of 4 bytes */

struct offsets {
	u32 redirect, pass, drop;	/* of struct xdp_cpumap_stats */
};

struct queue {
	u32 map;	/* its id */
	u32 cpu;	/* the queue's, not the sender's */
};

struct arrived {
	u64 queued;
	u64 full;	/* the queue had no place */
};

struct taken {
	u64 frames;
	u64 no_memory;	/* for the skb */
	u64 redirected;	/* by the slot's program, like the next two; all 0 where there is none */
	u64 passed;
	u64 dropped;	/* by verdict, or as a redirect failed */
};

BPF_ARRAY(offsets, struct offsets, 1);
BPF_TABLE("percpu_hash", struct queue, struct arrived, arrived, 4096);
BPF_TABLE("percpu_hash", struct queue, struct taken, taken, 4096);

/*
 * A counter of the copied statistics, wherever this kernel has it. They begin 4 bytes into their room: where no bits of
 * the addresses could meet LLVM would make an "or" of the addition, which the verifier refuses.
 */
#define FIELD(room, at) (*(u32 *)((room) + sizeof(u32) + ((at) & (STATS - sizeof(u32)))))

int count_arrived(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(int map_id, unsigned int processed, unsigned int drops, int to_cpu) */
	struct queue key = { .map = ctx->args[0], .cpu = ctx->args[3] };
	u32 processed = ctx->args[1], drops = ctx->args[2];
	struct arrived *seen;

	if (!processed)	/* of a generic program: xdp_redirect_err tells it, too, with ENOSPC */
		return 0;
	seen = arrived.lookup(&key);
	if (!seen)
		return 0;
	seen->queued += processed - drops;
	seen->full += drops;
	return 0;
}

int count_taken(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(int map_id, unsigned int processed, unsigned int drops, int sched, struct xdp_cpumap_stats *stats) */
	struct queue key = { .map = ctx->args[0], .cpu = bpf_get_smp_processor_id() };
	struct offsets *at;
	struct taken *seen;
	u8 room[sizeof(u32) + STATS] = {};
	u32 zero = 0;

	if (!(u32)ctx->args[1])
		return 0;
	at = offsets.lookup(&zero);
	seen = taken.lookup(&key);
	if (!at || !seen)
		return 0;
	bpf_probe_read_kernel(room + sizeof(u32), 3 * sizeof(u32), (void *)ctx->args[4]);
	seen->frames += (u32)ctx->args[1];
	seen->no_memory += (u32)ctx->args[2];
	seen->redirected += FIELD(room, at->redirect);
	seen->passed += FIELD(room, at->pass);
	seen->dropped += FIELD(room, at->drop);
	return 0;
}
