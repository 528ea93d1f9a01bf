// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Asks the kernel for other bounds of each packet, and writes down what it answers.
 *
 * Each packet takes the next question: one adjustment, and then perhaps another. Nothing
 * is written into the room gained. Packets that come when all questions are answered pass.
 */
#include "common/verdict.h"

#define QUESTIONS 512

/* Which of a packet's bounds: as in labkit/lesson/metadata_adjust.py. */
enum bound { NOTHING, META, HEAD, TAIL };

struct adjust {
	u32 bound;
	s32 by;		/* bytes; for the first two, less than 0 is to the left */
};

struct question {
	struct adjust first;
	struct adjust then;
};

struct answer {
	s32 first;	/* 0, or a negative errno */
	s32 then;
	u32 metadata;	/* bytes, after both */
	u32 length;	/* of the frame in bytes, after both */
};

LAB_ARRAY(questions, struct question, QUESTIONS);
LAB_ARRAY(answers, struct answer, QUESTIONS);

/* One entry: the question of the next packet; at QUESTIONS there are no more. */
LAB_ARRAY(next, u32, 1);

static __always_inline int adjust(struct xdp_md *ctx, struct adjust *asked)
{
	switch (asked->bound) {
	case META:
		return bpf_xdp_adjust_meta(ctx, asked->by);
	case HEAD:
		return bpf_xdp_adjust_head(ctx, asked->by);
	case TAIL:
		return bpf_xdp_adjust_tail(ctx, asked->by);
	}
	return 0;
}

int meta_adjust(struct xdp_md *ctx)
{
	u32 only = 0, number, *at = next.lookup(&only);
	struct question *question;
	struct answer *answer;

	if (!at)
		return verdict(ctx, XDP_ABORTED);
	number = *at;
	question = questions.lookup(&number);
	answer = answers.lookup(&number);
	if (!question || !answer)
		return verdict(ctx, XDP_PASS);
	(*at)++;
	answer->first = adjust(ctx, &question->first);
	answer->then = adjust(ctx, &question->then);
	answer->metadata = ctx->data - ctx->data_meta;
	answer->length = ctx->data_end - ctx->data;
	return verdict(ctx, XDP_DROP);
}
