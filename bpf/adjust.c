// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Moves the ends of one frame, step by step, and writes down after each step where they are: how
 * many bytes of metadata and of frame there are, how far the frame could grow to either side, and
 * what lies in the memory from the leftmost byte that can be reached. Drops that frame; every other
 * one passes.
 *
 * How far it could grow can't be read anywhere. So it is tried: half of what is possible, half of
 * that, and so on, as long as the kernel agrees; then all of it is taken back. The metadata are set
 * aside meanwhile, or adjust_head would leave copies of them behind.
 */
#include "common/maps.h"
#include "common/verdict.h"

#define MOST_STEPS 8
#define MEMORY_BYTES 2048
#define LARGEST_TRY 12	/* bits: 4096 bytes, then 2048, and so on to 1 */

enum step_kind { STEP_META, STEP_HEAD, STEP_TAIL, STEP_WRITE };

/* What to do: which end to move, and by how many bytes. STEP_WRITE fills the metadata with a0 a1 a2 … */
struct step {
	u32 kind;
	s32 bytes;
};

/* steps: how many; frame_bytes: the length of the frame to take; taken: 1 once it has come. */
struct order {
	u32 steps;
	u32 frame_bytes;
	u32 taken;
};

struct finding {
	s32 code;		/* what the helper returned */
	u32 meta_bytes;		/* data_meta to data */
	u32 frame_bytes;	/* data to data_end */
	u32 left_bytes;		/* how far data could go to the left if there were no metadata */
	u32 right_bytes;	/* how far data_end could go to the right */
	u32 memory_bytes;	/* of memory, as many as are valid */
	u32 complete;		/* 1: every byte was put back where it was */
	u8 memory[MEMORY_BYTES];	/* from left_bytes before data on */
};

LAB_ARRAY(order, struct order, 1);
LAB_ARRAY(steps, struct step, MOST_STEPS);

/* 0: as the frame came; n: after the step n. */
LAB_ARRAY(found, struct finding, MOST_STEPS + 1);

static __always_inline u32 meta_bytes(struct xdp_md *ctx)
{
	return (void *)(long)ctx->data - (void *)(long)ctx->data_meta;
}

/* As a lesson's program writes: every word is checked against data. 0, or 1 where there is nothing to write to. */
static __always_inline int write_meta(struct xdp_md *ctx)
{
	u32 *word = (void *)(long)ctx->data_meta;
	void *data = (void *)(long)ctx->data;
	u32 i, byte;

	if ((void *)(word + 1) > data)
		return 1;
	for (i = 0; i < 63; i++) {
		if ((void *)(word + 1) > data)
			break;
		byte = 0xa0 + 4 * i;
		*word++ = htonl((byte & 0xff) << 24 | (byte + 1 & 0xff) << 16 | (byte + 2 & 0xff) << 8 | (byte + 3 & 0xff));
		asm volatile("" : "+r"(word));	/* or the compiler counts the words beforehand, which the verifier doesn't follow */
	}
	return 0;
}

static __always_inline int do_step(struct xdp_md *ctx, struct step *step)
{
	switch (step->kind) {
	case STEP_META:
		return bpf_xdp_adjust_meta(ctx, step->bytes);
	case STEP_HEAD:
		return bpf_xdp_adjust_head(ctx, step->bytes);
	case STEP_TAIL:
		return bpf_xdp_adjust_tail(ctx, step->bytes);
	default:
		return write_meta(ctx);
	}
}

/*
 * Goes to the right as far as it can, and back. The sum is kept in the map: in a register, the verifier would follow
 * every sum that there can be.
 */
static __always_inline int try_tail(struct xdp_md *ctx, struct finding *finding)
{
	int bit;

	finding->right_bytes = 0;
	for (bit = LARGEST_TRY; bit >= 0; bit--) {
		if (!bpf_xdp_adjust_tail(ctx, 1 << bit))
			finding->right_bytes += 1 << bit;
	}
	return bpf_xdp_adjust_tail(ctx, -(s32)finding->right_bytes);
}

/* Goes to the left as far as it can, copies what is in the memory there, and goes back. */
static __always_inline int try_head(struct xdp_md *ctx, struct finding *finding)
{
	u64 length;
	int bit;

	finding->left_bytes = 0;
	for (bit = LARGEST_TRY; bit >= 0; bit--) {
		if (!bpf_xdp_adjust_head(ctx, -(1 << bit)))
			finding->left_bytes += 1 << bit;
	}
	length = bpf_xdp_get_buff_len(ctx);
	if (length > MEMORY_BYTES)
		length = MEMORY_BYTES;
	finding->memory_bytes = length;
	if (length && bpf_xdp_load_bytes(ctx, 0, finding->memory, length))
		finding->memory_bytes = 0;
	return bpf_xdp_adjust_head(ctx, finding->left_bytes);
}

/* Whether everything was found and put back. */
static __always_inline int look(struct xdp_md *ctx, struct finding *finding)
{
	finding->meta_bytes = meta_bytes(ctx);
	finding->frame_bytes = bpf_xdp_get_buff_len(ctx);
	/* Without metadata, 0 bytes: nothing moves, but a driver that has none refuses it. */
	if (finding->meta_bytes && bpf_xdp_adjust_meta(ctx, finding->meta_bytes))
		return 0;
	if (try_tail(ctx, finding) || try_head(ctx, finding))
		return 0;
	if (finding->meta_bytes && bpf_xdp_adjust_meta(ctx, -(s32)finding->meta_bytes))
		return 0;
	finding->complete = 1;
	return 1;
}

int adjust(struct xdp_md *ctx)
{
	struct finding *finding;
	struct order *wanted;
	struct step *step;
	u32 slot = 0, n;
	s32 code = 0;

	wanted = order.lookup(&slot);
	if (!wanted || wanted->taken || wanted->frame_bytes != bpf_xdp_get_buff_len(ctx))
		return verdict(ctx, XDP_PASS);
	wanted->taken = 1;
	for (n = 0; n <= MOST_STEPS; n++) {
		if (n > wanted->steps)
			break;
		if (n) {
			slot = n - 1;
			step = steps.lookup(&slot);
			if (!step)
				break;
			code = do_step(ctx, step);
		}
		slot = n;
		finding = found.lookup(&slot);
		if (!finding)
			break;
		finding->code = code;
		if (!look(ctx, finding))
			return verdict(ctx, XDP_ABORTED);
	}
	return verdict(ctx, XDP_DROP);
}
