/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Metadata that says what it is: a structure before the packet whose last ten bytes name its format, after a
 * proposal of 2022 for the kernel.
 *
 *	headroom …  | flow's own fields | generic fields | BTF ids, magic |  packet …
 *	            ^ data_meta                                           ^ data
 *
 * A reader starts at the packet and goes left. Behind the magic (two bytes) and the ids (eight) it finds the generic
 * fields, the same in every format; what a format has of its own is further left. So formats grow to the left, and
 * an old reader finds all it knows where it always was.
 *
 * Write:
 *
 *	struct meta_flow *flow = meta_compose(ctx, META_FLOW, sizeof(*flow));
 *
 *	if (flow)
 *		flow->generic.hash = hash;	(and read ctx->data anew: adjusting moves pointers)
 *
 * Read, in XDP as in TC (both contexts have data_meta and data):
 *
 *	struct meta_generic *generic = META_READ(ctx, sizeof(*generic));
 *
 * Metadata that isn't there, or isn't of this kind, is NULL: that packet goes on without.
 */
#ifndef LAB_COMMON_META_H
#define LAB_COMMON_META_H

#include "common/maps.h"

#define META_MAGIC	0x1ab5	/* this lab's own number */
#define META_NO_QUEUE	0xffff	/* not known */
#define META_MOST	252	/* bytes that the kernel allows, in steps of four; a driver may have less room: veth 216 */

/* What is known of the packet's checksums. */
#define META_CSUM_NONE		0	/* nothing */
#define META_CSUM_VERIFIED	1	/* found right */
#define META_CSUM_WRONG		2

/*
 * The last ten bytes: the format's type in a BTF object of the kernel's, that object, and the magic. Little-endian, as
 * x86 and most others write them.
 */
struct meta_id {
	u32 type_id;
	u32 btf_id;
	u16 magic;
} __attribute__((packed, aligned(2)));

/* What every format has at its end. A new field comes leftmost, at the top. */
struct meta_generic {
	u64 timestamp_ns;	/* 0: not known */
	u32 hash;		/* of addresses and ports; means something only with a hash_type */
	u16 hash_type;		/* bits of enum xdp_rss_hash_type; 0: no hash */
	u16 queue;		/* META_NO_QUEUE: not known */
	__be16 vlan_proto;	/* in network byte order; 0: no tag */
	u16 vlan_tci;		/* in host byte order */
	u8  csum_status;	/* META_CSUM_… */
	u8  csum_level;		/* how many further checksums inside were found right, as skb->csum_level */
	struct meta_id id;
} __attribute__((packed, aligned(4)));

/* For who tells flows apart. */
struct meta_flow {
	u32 mark;
	u16 l4_offset;		/* bytes from the packet's start to its UDP or TCP header; 0: none */
	u8  protocol;		/* as the IP header has it; 0: not IP */
	u8  pad;
	struct meta_generic generic;
} __attribute__((packed, aligned(4)));

/* For who measures how long a packet was on its way. */
struct meta_latency {
	u64 sent_ns;		/* by the clock of bpf_ktime_get_ns() */
	u32 sequence;
	struct meta_generic generic;
} __attribute__((packed, aligned(4)));

/* Slots of the map meta_formats; a format of your own takes the next one, in the order that labkit was given. */
enum meta_slot {
	META_GENERIC,
	META_FLOW,
	META_LATENCY,
	META_OWN,
	META_SLOTS = 16,
};

struct meta_format_ids {
	u32 type_id;
	u32 btf_id;	/* 0: the kernel wasn't told of the format, so nobody could read it: none is written */
};

/* The ids to write. In Python: formats.tell(program). */
LAB_ARRAY(meta_formats, struct meta_format_ids, META_SLOTS);

/* The smallest frame, in bytes, for which metadata pays. In Python: program.maps["meta_threshold"][0] = 256. */
LAB_ARRAY(meta_threshold, u32, 1);

/*
 * Never used, and never made: it has the compiler describe these structures in the type information (BTF), which it
 * does for the types of maps. Do the same for a format of your own: LAB_META_FORMAT(name), below its struct.
 */
#define LAB_META_FORMAT(name) LAB_ARRAY(describes_##name, struct name, 1)

LAB_META_FORMAT(meta_generic);
LAB_META_FORMAT(meta_flow);
LAB_META_FORMAT(meta_latency);

/*
 * Whether the frame (of several buffers: the first) is long enough for metadata. The threshold may change while
 * packets run.
 */
static __always_inline bool meta_pays(struct xdp_md *ctx)
{
	long frame = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
	u32 only = 0, *threshold = meta_threshold.lookup(&only);

	return !threshold || frame >= *threshold;
}

/*
 * Room for so many bytes before the packet, in place of what metadata there is: their start, or NULL where the driver
 * has none to give. A multiple of four, META_MOST at most. Pointers into the packet have to be read anew.
 */
static __always_inline void *meta_prepend(struct xdp_md *ctx, u32 bytes)
{
	void *meta = (void *)(long)ctx->data_meta, *data = (void *)(long)ctx->data;
	long already = data - meta;

	if (bpf_xdp_adjust_meta(ctx, already - bytes))
		return NULL;
	meta = (void *)(long)ctx->data_meta;
	data = (void *)(long)ctx->data;
	if (meta + bytes > data)	/* the check that the verifier wants: against data, not data_end */
		return NULL;
	return meta;
}

/*
 * Room for the format in this slot, with its ids and the magic at the end and nothing known in its other fields; NULL
 * where the kernel doesn't know the format or the driver has no room.
 */
static __always_inline void *meta_compose(struct xdp_md *ctx, u32 slot, u32 bytes)
{
	struct meta_format_ids *ids = meta_formats.lookup(&slot);
	struct meta_generic *generic;
	void *meta;

	if (!ids || !ids->btf_id)
		return NULL;
	meta = meta_prepend(ctx, bytes);
	if (!meta)
		return NULL;
	__builtin_memset(meta, 0, bytes);
	generic = meta + bytes - sizeof(*generic);
	generic->queue = META_NO_QUEUE;
	generic->id.type_id = ids->type_id;
	generic->id.btf_id = ids->btf_id;
	generic->id.magic = META_MAGIC;
	return meta;
}

/*
 * The metadata's last so many bytes, which a constant says or a map: up to the packet's start; NULL where there is less.
 * Give both ends as they are in the context. What is returned may be read for as many bytes as the constant `certain`
 * says, which is no more than `bytes`.
 */
static __always_inline void *meta_end(void *meta, void *data, u32 bytes, u32 certain)
{
	u64 skipped = data - meta - bytes;

	/*
	 * The compiler sees through the sums: it would leave out checks that the verifier wants, or add first and check
	 * then. What passes through an empty line of assembler, it knows nothing of, and keeps in order.
	 */
	asm volatile("" : "+r"(skipped));
	if (skipped > META_MOST)	/* less than nothing, too, is more than that */
		return NULL;
	asm volatile("" : "+r"(skipped));
	meta += skipped;
	if (meta + certain > data)
		return NULL;
	return meta;
}

/* Whether these last ten bytes are of metadata that says what it is. */
static __always_inline bool meta_is_ours(struct meta_id *id)
{
	return id && id->magic == META_MAGIC;
}

/* The format's full id, as Python has it: the BTF object in the upper half, the type in the lower. */
static __always_inline u64 meta_full_id(struct meta_id *id)
{
	return (u64)id->btf_id << 32 | id->type_id;
}

/* The last so many bytes (a constant) of the metadata of an xdp_md or __sk_buff, or NULL. The magic is looked at. */
#define META_READ(ctx, bytes) \
	meta_checked(meta_end((void *)(long)(ctx)->data_meta, (void *)(long)(ctx)->data, bytes, bytes), bytes)

static __always_inline void *meta_checked(void *found, u32 bytes)
{
	if (!found || !meta_is_ours(found + bytes - sizeof(struct meta_id)))
		return NULL;
	return found;
}

/* The last ten bytes of metadata that says what it is, or NULL. */
#define META_ID(ctx) ((struct meta_id *)META_READ(ctx, sizeof(struct meta_id)))

/* The generic fields, whatever the format is, or NULL. */
#define META_GENERIC_OF(ctx) ((struct meta_generic *)META_READ(ctx, sizeof(struct meta_generic)))

/*
 * One field of a format that this program has never seen: where it is, a map says. In Python:
 * formats.offsets("sent_ns"), by full id.
 */
struct meta_field {
	u32 before;	/* bytes from the field's start to the packet's: 10 (there are the ids) to META_MOST */
	u32 bytes;	/* of the field: 1, 2, 4 or 8; 0: this format has no such field */
};

/* The field's value, as an unsigned number; false where the metadata is too short, or the field isn't one. */
static __always_inline bool meta_field(void *meta, void *data, struct meta_field *at, u64 *value)
{
	u32 before = at->before, bytes = at->bytes;
	u64 *found;

	if (before < sizeof(struct meta_id) || before > META_MOST || !bytes || bytes > sizeof(*value))
		return false;
	found = meta_end(meta, data, before, sizeof(*found));	/* the ids behind it make eight bytes safe to read */
	if (!found)
		return false;
	*value = *found & (~0ULL >> (64 - 8 * bytes));	/* little-endian */
	return true;
}

/* The same for an xdp_md or __sk_buff. */
#define META_FIELD(ctx, at, value) \
	meta_field((void *)(long)(ctx)->data_meta, (void *)(long)(ctx)->data, at, value)

#endif
