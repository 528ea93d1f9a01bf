// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A consumer of self-describing metadata in traffic control (TC): tells the stack what it needn't find out again.
 *
 * The generic fields serve for every format, known or not. Fields of a format's own are found where maps say that this
 * format has them: this program was compiled without a word of their structures.
 *
 * Load as a classifier with expected_attach_type=AttachType.TCX_INGRESS.
 */
#include "common/flow.h"
#include "common/recognise.h"
#include <uapi/linux/pkt_cls.h>

/* What to do with what is known. */
#define TELL_HASH	(1 << 0)
#define TELL_CHECKSUM	(1 << 1)
#define TELL_MARK	(1 << 2)
#define COMPARE		(1 << 3)	/* with the packet's own headers: to show that nothing is read wrongly */

struct tc_plan {
	u32 wanted;	/* bits as above */
	u32 action;	/* TC_ACT_OK 0, TC_ACT_SHOT 2 */
};

LAB_ARRAY(plan, struct tc_plan, 1);

/* Where each format has these fields, by full id. In Python: formats.teach(program.maps["mark_at"], "mark"). */
LAB_HASH(mark_at, u64, struct meta_field, 64);
LAB_HASH(sent_ns_at, u64, struct meta_field, 64);

struct used {
	u64 hashes;		/* packets whose hash the stack was told */
	u64 checksums;		/* … that it needn't check */
	u64 marks;
	u64 compared;
	u64 misread;		/* compared, and metadata says something else than the headers */
	u64 timed;
	u64 total_ns;		/* their time on the way, together */
};

LAB_PERCPU_ARRAY(used, struct used, 1);

/* Packets by the power of two of their time on the way: slot 10 is 1,024 to 2,047 ns. */
LAB_PERCPU_ARRAY(ns_log2, u64, 64);

/* Packets by action, as the lab counts what a classifier drops. */
LAB_PERCPU_ARRAY(tc_verdicts, u64, 8);

static __always_inline void tell_checksum(struct __sk_buff *skb, struct used *used)
{
	if (bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0)	/* the stack believes it already */
		return;
	if (!bpf_csum_level(skb, BPF_CSUM_LEVEL_INC))
		used->checksums++;
}

static __always_inline void use_generic(struct __sk_buff *skb, u32 wanted, struct meta_generic *generic,
					struct used *used)
{
	u8 status = generic->csum_status;

	if (wanted & TELL_HASH && generic->hash_type) {
		bpf_set_hash(skb, generic->hash);
		used->hashes++;
	}
	if (wanted & TELL_CHECKSUM && status == META_CSUM_VERIFIED)
		tell_checksum(skb, used);
}

static __always_inline void note_time(u64 sent_ns, struct used *used)
{
	u64 ns = bpf_ktime_get_ns() - sent_ns, *packets;
	u32 slot = 0;
	int i;

	used->timed++;
	used->total_ns += ns;
#pragma unroll
	for (i = 5; i >= 0; i--)	/* the highest bit that is set */
		if (ns >> slot >> (1 << i))
			slot += 1 << i;
	packets = ns_log2.lookup(&slot);
	if (packets)
		(*packets)++;
}

static __always_inline void use_own(struct __sk_buff *skb, u32 wanted, u64 full_id, struct used *used)
{
	struct meta_field *at;
	u64 value;

	at = mark_at.lookup(&full_id);
	if (wanted & TELL_MARK && at && META_FIELD(skb, at, &value)) {
		skb->mark = value;
		used->marks++;
	}
	at = sent_ns_at.lookup(&full_id);
	if (at && META_FIELD(skb, at, &value))
		note_time(value, used);
}

/* The hash, and the mark, against what the headers say; a VLAN tag has been taken out by now. */
static __always_inline void compare(struct __sk_buff *skb, u64 full_id, struct meta_generic *generic,
				    struct used *used)
{
	struct cursor at = {.at = (void *)(long)skb->data, .end = (void *)(long)skb->data_end};
	u32 hash = generic->hash, type = generic->hash_type;
	struct meta_field *place = mark_at.lookup(&full_id);
	struct flow flow = {};
	u64 mark = 0;

	read_flow(&at, &flow);
	used->compared++;
	if (type && (hash != flow.hash || type != flow.hash_type))
		used->misread++;
	else if (place && META_FIELD(skb, place, &mark) && mark != flow.source)
		used->misread++;
}

static __always_inline int counted_action(u32 action)
{
	u64 *packets = tc_verdicts.lookup(&action);

	if (packets)
		(*packets)++;
	return action;
}

int generic_tc(struct __sk_buff *skb)
{
	void *meta = (void *)(long)skb->data_meta, *data = (void *)(long)skb->data;
	struct meta_generic *generic = NULL;
	u32 only = 0, outcome;
	struct tc_plan *wanted = plan.lookup(&only);
	struct used *sums = used.lookup(&only);
	u64 full_id = 0;

	if (!wanted || !sums)
		return counted_action(TC_ACT_OK);
	outcome = recognise(meta, data, &full_id, &generic);
	if (generic && wanted->wanted & COMPARE)
		compare(skb, full_id, generic, sums);
	if (generic)
		use_generic(skb, wanted->wanted, generic, sums);
	if (outcome < META_SLOTS)
		use_own(skb, wanted->wanted, full_id, sums);
	return counted_action(wanted->action);
}
