// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What a consumer sees: copies the metadata, and the packet's first bytes, of the first packets that come by to a ring
 * buffer. The packet goes on as if nothing had been there.
 *
 * The same at four places: capture_tc at TC ingress, capture_xdp on an interface and in a slot of a CPU map or of a
 * device map (loaded with that expected_attach_type).
 */
#include "common/verdict.h"
#include <uapi/linux/pkt_cls.h>

#define META_BYTES	252	/* the most that the kernel allows */
#define FRAME_BYTES	256
#define NO_METADATA	0xffff	/* the driver has none: data_meta lies behind data then */

struct captured {
	u64 time_ns;		/* monotonic */
	u32 cpu;
	u32 length;		/* bytes of the packet */
	u16 meta_bytes;		/* or NO_METADATA */
	u16 frame_bytes;	/* of it that are here */
	u32 meta[META_BYTES / 4];
	u8  frame[FRAME_BYTES];
};

LAB_RINGBUF(captured, 256);

/* How many packets to copy. */
LAB_ARRAY(wanted, u64, 1);

/* Packets that came by, those that were copied, and those for which the ring had no room. */
LAB_ARRAY(copied, u64, 1);
LAB_PERCPU_ARRAY(seen, u64, 1);
LAB_PERCPU_ARRAY(lost, u64, 1);

/* A line in the ring, where this packet is one of the first; NULL else. */
static __always_inline struct captured *begin(void)
{
	u32 only = 0;
	u64 *most = wanted.lookup(&only), *so_far = copied.lookup(&only), *packets = seen.lookup(&only);
	struct captured *line;

	if (packets)
		(*packets)++;
	if (!most || !so_far || *so_far >= *most)	/* CPUs may copy one too many each: the reader puts it right */
		return NULL;
	line = captured.ringbuf_reserve(sizeof(*line));
	if (line) {
		__sync_fetch_and_add(so_far, 1);
		line->time_ns = bpf_ktime_get_ns();
		line->cpu = bpf_get_smp_processor_id();
		return line;
	}
	packets = lost.lookup(&only);
	if (packets)
		(*packets)++;
	return NULL;
}

/*
 * Word by word, as the verifier follows no copy of a length that it doesn't know. Metadata is a multiple of four bytes
 * long, so nothing is left over.
 */
static __always_inline void copy_meta(struct captured *line, u32 *meta, void *data)
{
	u32 words = 0;

	if ((void *)meta > data) {
		line->meta_bytes = NO_METADATA;
		return;
	}
	for (; words < META_BYTES / 4; words++) {
		if ((void *)(meta + words + 1) > data)
			break;
		line->meta[words] = meta[words];
	}
	line->meta_bytes = words * 4;
}

/*
 * How many bytes of the packet to copy, 0 to FRAME_BYTES. The empty line of assembler keeps the compiler from putting
 * this check and the next one, against 0, together as one that the verifier can't follow.
 */
static __always_inline u64 part(struct captured *line, u64 length)
{
	u64 bytes = length < FRAME_BYTES ? length : FRAME_BYTES;

	line->length = length;
	line->frame_bytes = bytes;
	asm volatile("" : "+r"(bytes));
	if (bytes > FRAME_BYTES)
		return 0;
	asm volatile("" : "+r"(bytes));
	return bytes;
}

int capture_xdp(struct xdp_md *ctx)
{
	struct captured *line = begin();
	u64 bytes;

	if (!line)
		return verdict(ctx, XDP_PASS);
	copy_meta(line, (void *)(long)ctx->data_meta, (void *)(long)ctx->data);
	bytes = part(line, bpf_xdp_get_buff_len(ctx));
	if (bytes && bpf_xdp_load_bytes(ctx, 0, line->frame, bytes))
		line->frame_bytes = 0;
	captured.ringbuf_submit(line, 0);
	return verdict(ctx, XDP_PASS);
}

int capture_tc(struct __sk_buff *skb)
{
	struct captured *line = begin();
	u64 bytes;

	if (!line)
		return TC_ACT_UNSPEC;	/* TCX_NEXT of newer headers: the next program decides */
	copy_meta(line, (void *)(long)skb->data_meta, (void *)(long)skb->data);
	bytes = part(line, skb->len);
	if (bytes && bpf_skb_load_bytes(skb, 0, line->frame, bytes))
		line->frame_bytes = 0;
	captured.ringbuf_submit(line, 0);
	return TC_ACT_UNSPEC;	/* TCX_NEXT of newer headers: the next program decides */
}
