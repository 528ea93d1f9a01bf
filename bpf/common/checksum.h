/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whether a UDP or TCP checksum is right, as a network card finds out: the sum of all 16-bit words that it covers, its
 * own among them, is 0xffff (RFC 1071).
 */
#ifndef LAB_COMMON_CHECKSUM_H
#define LAB_COMMON_CHECKSUM_H

#include "common/flow.h"
#include "common/meta.h"

#define SUM_BLOCK 512	/* bytes added up by one call: the most that every kernel takes */
#define SUM_BLOCKS 18	/* 9 KiB */

struct sum_block {
	u8 bytes[2 * SUM_BLOCK];	/* so that a length masked by 2 * SUM_BLOCK - 1 fits: the verifier follows masks */
};

/* What is being added up: variable lengths want memory that doesn't end with the packet. */
LAB_PERCPU_ARRAY(sum_block, struct sum_block, 1);

/* The sum over so many bytes of the packet; false where it ends before. A last odd byte counts as if a zero followed. */
static __always_inline bool sum_bytes(struct xdp_md *ctx, u32 offset, u32 bytes, u32 *sum)
{
	u32 only = 0, i, part;
	struct sum_block *block = sum_block.lookup(&only);

	if (!block || bytes > SUM_BLOCK * SUM_BLOCKS)
		return false;
	for (i = 0; i < SUM_BLOCKS; i++) {
		part = bytes < SUM_BLOCK ? bytes : SUM_BLOCK;
		asm volatile("" : "+r"(part));	/* keeps what follows as it is written */
		part &= 2 * SUM_BLOCK - 1;
		if (!part)
			break;
		*(u32 *)(block->bytes + ((part - 1) & (SUM_BLOCK - 4))) = 0;	/* the word that holds the last byte */
		if (bpf_xdp_load_bytes(ctx, offset, block, part))
			return false;
		*sum = bpf_csum_diff(NULL, 0, (void *)block, (part + 3) & (2 * SUM_BLOCK - 4), *sum);
		offset += part;
		bytes -= part;
	}
	return true;
}

/*
 * META_CSUM_VERIFIED or META_CSUM_WRONG; META_CSUM_NONE for what has no such checksum, or isn't here in one piece. A
 * checksum that a local sender left to its card to make is wrong as yet.
 */
static __always_inline u8 check_sum(struct xdp_md *ctx, struct cursor *at, struct flow *flow)
{
	u32 bytes = flow->l4_bytes, added = 0;
	u64 sum = flow->addresses;
	struct udphdr *udp = at->at;

	if (!flow->l4_offset || (void *)(udp + 1) > at->end)
		return META_CSUM_NONE;
	if (flow->protocol == IPPROTO_UDP) {
		if (!udp->check || ntohs(udp->len) > bytes)	/* RFC 768: 0, the sender made none */
			return META_CSUM_NONE;
		bytes = ntohs(udp->len);
	}
	if (bytes < sizeof(*udp))
		return META_CSUM_NONE;
	sum += htons(bytes) + htons(flow->protocol);
	if (!sum_bytes(ctx, flow->l4_offset, bytes, &added))
		return META_CSUM_NONE;
	sum += added;
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff ? META_CSUM_VERIFIED : META_CSUM_WRONG;
}

#endif
