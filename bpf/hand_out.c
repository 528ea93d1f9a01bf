// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A fixed piece of work for each packet, done where it arrives or on other CPUs: which is
 * done sooner?
 *
 * hand_out runs in the driver. It does the work itself, or deals the packets out to CPUs
 * in turn, where work does it. Both note times on the kernel's monotonic clock: when
 * packets came, and when each CPU had done its last one. The work is a checksum over 512
 * bytes, so many times over: the same for every packet, and none is looked at.
 */
#include "common/verdict.h"

#define MOST_CPUS 64
#define MOST_ROUNDS 512
#define BLOCK 512

struct plan {
	u32 rounds;	/* of work a packet, MOST_ROUNDS at most */
	u32 cpus;	/* how many share it; 0: the driver's own program does it */
};

struct times {
	u64 first_ns;	/* 0: none yet */
	u64 last_ns;
	u64 packets;
};

struct block {
	u32 words[BLOCK / 4];
};

LAB_ARRAY(plan, struct plan, 1);

/* What the work reads: a checksum over it is one round. */
LAB_ARRAY(block, struct block, 1);

/* The CPUs by number, and which of them in what order. */
LAB_CPUMAP(cpus, MOST_CPUS);
LAB_ARRAY(turn, u32, MOST_CPUS);

/* Packets as they came, and as the work on them was done, each by the CPU that saw it. */
LAB_PERCPU_ARRAY(came, struct times, 1);
LAB_PERCPU_ARRAY(done, struct times, 1);

static __always_inline void note(struct times *at)
{
	at->last_ns = bpf_ktime_get_ns();
	if (!at->first_ns)
		at->first_ns = at->last_ns;
	at->packets++;
}

static __always_inline int do_work(struct xdp_md *ctx, struct plan *wanted)
{
	u32 only = 0, i;
	struct times *at = done.lookup(&only);
	struct block *bytes = block.lookup(&only);
	u32 sum = 0;

	if (!at || !bytes)
		return verdict(ctx, XDP_ABORTED);
	for (i = 0; i < MOST_ROUNDS; i++) {
		if (i >= *(volatile u32 *)&wanted->rounds)	/* read anew: the verifier need not keep it in mind */
			break;
		sum = bpf_csum_diff(NULL, 0, (void *)bytes, sizeof(*bytes), sum);
	}
	note(at);
	return verdict(ctx, XDP_DROP);
}

int hand_out(struct xdp_md *ctx)
{
	u32 only = 0, next, *cpu;
	struct plan *wanted = plan.lookup(&only);
	struct times *at = came.lookup(&only);

	if (!wanted || !at)
		return verdict(ctx, XDP_ABORTED);
	note(at);
	if (!wanted->cpus)
		return do_work(ctx, wanted);
	next = at->packets % wanted->cpus;
	cpu = turn.lookup(&next);
	return verdict(ctx, cpu ? cpus.redirect_map(*cpu, 0) : XDP_ABORTED);
}

/* Load with expected_attach_type=AttachType.XDP_CPUMAP and maps=hand_out.maps. */
int work(struct xdp_md *ctx)
{
	u32 only = 0;
	struct plan *wanted = plan.lookup(&only);

	return wanted ? do_work(ctx, wanted) : verdict(ctx, XDP_ABORTED);
}
