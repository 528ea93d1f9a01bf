// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What metadata costs, and what it saves: the same packets with and without, timed.
 *
 *	cost_to_cpu	XDP: plays the network card that has verified the checksum, and writes so before the
 *			frame; then the frame goes to a CPU's queue
 *	cost_tell	TC ingress, behind it: tells the stack what the metadata says
 *	cost_drop	XDP: plays the same card, and drops the frame at once
 *	cost_by_hash	XDP: chooses a CPU by the hash in the metadata, and drops the frame
 *	cost_by_parsing	XDP: chooses it by the frame's headers
 *
 * What a card finds out, it knows when the frame arrives. Here it is constants, but for what plan.find_out says.
 */
#include "common/checksum.h"
#include "common/verdict.h"
#include <uapi/linux/pkt_cls.h>

#define MOST_CPUS 64
#define SAME_HASH 0x5eed1ab5

/* What the composer has to find out by itself. */
#define FIND_HASH	(1 << 0)	/* in the headers */
#define FIND_TIME	(1 << 1)	/* on the clock */
#define FIND_CHECKSUM	(1 << 2)	/* by adding up the whole packet */

struct plan {
	u32 cpu;	/* whose queue: there an skb is made */
	u32 find_out;	/* bits as above */
};

LAB_ARRAY(plan, struct plan, 1);
LAB_CPUMAP(cpus, MOST_CPUS);

/* A longer pause between two packets is somebody else's: another program had the CPU. */
#define LONGEST_GAP_NS 50000

/* How fast packets follow one another at one place, by the clock. */
struct pace {
	u64 last_ns;
	u64 packets;
	u64 gaps;	/* between two packets, but for the longest */
	u64 gaps_ns;	/* and how long they were together */
};

/*
 * In the driver, and in TC: there the stack comes for the next packets when it has done with those before, whatever
 * it had to do with them.
 */
LAB_PERCPU_ARRAY(came, struct pace, 1);
LAB_PERCPU_ARRAY(told, struct pace, 1);

/* Packets that came to traffic control without (0) and with (1) metadata that says what it is. */
LAB_PERCPU_ARRAY(with_metadata, u64, 2);

/* Packets meant for each CPU. */
LAB_PERCPU_ARRAY(packets_to_cpu, u64, MOST_CPUS);

static __always_inline void note_pace(struct pace *at)
{
	u64 now_ns = bpf_ktime_get_ns(), gap_ns = now_ns - at->last_ns;

	if (at->packets && gap_ns <= LONGEST_GAP_NS) {
		at->gaps++;
		at->gaps_ns += gap_ns;
	}
	at->last_ns = now_ns;
	at->packets++;
}

/* False where there is no room for it. Pointers into the packet have to be read anew. */
static __always_inline bool play_the_card(struct xdp_md *ctx, u32 find_out)
{
	struct flow flow = {.hash = SAME_HASH, .hash_type = XDP_RSS_L3_IPV4 | XDP_RSS_L4 | XDP_RSS_L4_UDP};
	struct cursor at = cursor_begin(ctx);
	struct meta_generic *generic;
	u8 csum_status = META_CSUM_VERIFIED;
	u64 now_ns = 0;

	if (find_out & (FIND_HASH | FIND_CHECKSUM))
		read_flow(&at, &flow);
	if (find_out & FIND_CHECKSUM)
		csum_status = check_sum(ctx, &at, &flow);
	if (find_out & FIND_TIME)
		now_ns = bpf_ktime_get_ns();
	generic = meta_compose(ctx, META_GENERIC, sizeof(*generic));
	if (!generic)
		return false;
	generic->timestamp_ns = now_ns;
	generic->hash = flow.hash;
	generic->hash_type = flow.hash_type;
	generic->queue = ctx->rx_queue_index;
	generic->csum_status = csum_status;
	return true;
}

int cost_drop(struct xdp_md *ctx)
{
	u32 only = 0;
	struct plan *wanted = plan.lookup(&only);

	if (!wanted)
		return verdict(ctx, XDP_ABORTED);
	if (meta_pays(ctx) && !play_the_card(ctx, wanted->find_out))
		return verdict(ctx, XDP_ABORTED);
	return verdict(ctx, XDP_DROP);
}

int cost_to_cpu(struct xdp_md *ctx)
{
	u32 only = 0;
	struct plan *wanted = plan.lookup(&only);
	struct pace *at = came.lookup(&only);

	if (!wanted || !at)
		return verdict(ctx, XDP_ABORTED);
	note_pace(at);
	if (meta_pays(ctx) && !play_the_card(ctx, wanted->find_out))
		return verdict(ctx, XDP_ABORTED);
	return verdict(ctx, cpus.redirect_map(wanted->cpu, 0));
}

static __always_inline int choose(struct xdp_md *ctx, u32 hash)
{
	u32 cpu = (u64)hash * MOST_CPUS >> 32;
	u64 *packets = packets_to_cpu.lookup(&cpu);

	if (packets)
		(*packets)++;
	return verdict(ctx, XDP_DROP);
}

int cost_by_hash(struct xdp_md *ctx)
{
	struct meta_generic *generic = META_GENERIC_OF(ctx);

	return generic && generic->hash_type ? choose(ctx, generic->hash) : verdict(ctx, XDP_ABORTED);
}

int cost_by_parsing(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct flow flow = {};

	read_flow(&at, &flow);
	return flow.hash_type ? choose(ctx, flow.hash) : verdict(ctx, XDP_ABORTED);
}

/* Load as a classifier (BPF_PROG_TYPE_SCHED_CLS), with maps=cost_to_cpu.maps. */
int cost_tell(struct __sk_buff *skb)
{
	struct meta_generic *generic = META_GENERIC_OF(skb);
	u32 only = 0, with = generic != NULL;
	struct pace *at = told.lookup(&only);
	u64 *packets = with_metadata.lookup(&with);

	if (at)
		note_pace(at);
	if (packets)
		(*packets)++;
	if (!generic)
		return TC_ACT_OK;
	if (generic->hash_type)
		bpf_set_hash(skb, generic->hash);
	if (generic->csum_status == META_CSUM_VERIFIED)
		bpf_csum_level(skb, BPF_CSUM_LEVEL_INC);
	return TC_ACT_OK;
}
