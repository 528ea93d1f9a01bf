/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a packet needs rewritten when a program sends it on. Give headers from common/parse.h: their bounds are checked.
 */
#ifndef LAB_COMMON_REWRITE_H
#define LAB_COMMON_REWRITE_H

#include "common/parse.h"

/* A MAC address, its bytes as they are on the wire. In Python a list of six numbers. */
struct mac {
	u8 bytes[ETH_ALEN];
};

/* The receiver's address: a stack takes no other. */
static __always_inline void set_destination(struct ethhdr *eth, struct mac *mac)
{
	__builtin_memcpy(eth->h_dest, mac->bytes, ETH_ALEN);
}

/* The sender's address: of the interface that the packet leaves by. */
static __always_inline void set_source(struct ethhdr *eth, struct mac *mac)
{
	__builtin_memcpy(eth->h_source, mac->bytes, ETH_ALEN);
}

/* Back to the sender. */
static __always_inline void swap_macs(struct ethhdr *eth)
{
	struct mac sender;

	__builtin_memcpy(sender.bytes, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	set_destination(eth, &sender);
}

/*
 * One hop less. The checksum is mended, not made anew: the TTL is the high byte of its 16-bit word, so the sum of the
 * words is 0x0100 less, and its complement as much more (RFC 1624; the kernel's ip_decrease_ttl does the same).
 */
static __always_inline void decrease_ttl(struct iphdr *ip)
{
	u32 check = (u32)ip->check + htons(0x0100);

	ip->check = check + (check >= 0xffff);
	ip->ttl--;
}

#endif
