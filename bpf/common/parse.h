/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Headers, one after the other, with the bounds checked.
 *
 *	struct cursor at = cursor_begin(ctx);
 *	struct ethhdr *eth = next_eth(&at);
 *	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
 *
 * Each next_…() returns the header at the cursor and moves the cursor behind it, or returns NULL,
 * and leaves the cursor where it is, if the packet ends before the header does. A packet that
 * can't be parsed is not ours to drop: pass it.
 *
 * Header fields of more than one byte are in network byte order: compare with htons(…), or convert
 * with ntohs(…).
 */
#ifndef LAB_COMMON_PARSE_H
#define LAB_COMMON_PARSE_H

#include <uapi/linux/bpf.h>
#include <uapi/linux/icmp.h>
#include <uapi/linux/if_ether.h>
#include <uapi/linux/in.h>
#include <uapi/linux/ip.h>
#include <uapi/linux/ipv6.h>
#include <uapi/linux/tcp.h>
#include <uapi/linux/udp.h>

/* Where we are in the packet, and where the packet ends (one past its last byte). */
struct cursor {
	void *at;
	void *end;
};

/*
 * A VLAN tag (IEEE 802.1Q), as it follows the Ethernet header. Both fields in network byte order.
 */
struct vlan_tag {
	__be16 tci;			/* priority (3 bits), drop eligible (1), VLAN number (12) */
	__be16 encapsulated_proto;	/* EtherType of what follows */
};

/* The start of the packet. */
static __always_inline struct cursor cursor_begin(struct xdp_md *ctx)
{
	struct cursor cursor = {
		.at = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
	};

	return cursor;
}

/* The Ethernet header. h_proto, in network byte order, may be a VLAN tag's: see next_vlan. */
static __always_inline struct ethhdr *next_eth(struct cursor *cursor)
{
	struct ethhdr *eth = cursor->at;

	if ((void *)(eth + 1) > cursor->end)
		return NULL;
	cursor->at = eth + 1;
	return eth;
}

/* Whether an EtherType, in network byte order, announces a VLAN tag. */
static __always_inline bool is_vlan(__be16 proto)
{
	return proto == htons(ETH_P_8021Q) || proto == htons(ETH_P_8021AD);
}

/* The VLAN tag; fields in network byte order. */
static __always_inline struct vlan_tag *next_vlan(struct cursor *cursor)
{
	struct vlan_tag *tag = cursor->at;

	if ((void *)(tag + 1) > cursor->end)
		return NULL;
	cursor->at = tag + 1;
	return tag;
}

/* The IPv4 header, options and all (ihl counts 4-byte words); fields in network byte order. */
static __always_inline struct iphdr *next_ipv4(struct cursor *cursor)
{
	struct iphdr *ip = cursor->at;
	u32 length;

	if ((void *)(ip + 1) > cursor->end)
		return NULL;
	length = ip->ihl * 4;
	if (length < sizeof(*ip))
		return NULL;
	if (cursor->at + length > cursor->end)
		return NULL;
	cursor->at += length;
	return ip;
}

/* Whether this is a later fragment: then no UDP, TCP or ICMP header follows. */
static __always_inline bool is_later_fragment(struct iphdr *ip)
{
	return ip->frag_off & htons(0x1fff);
}

/*
 * The fixed IPv6 header; fields in network byte order. Extension headers, if nexthdr says so,
 * follow.
 */
static __always_inline struct ipv6hdr *next_ipv6(struct cursor *cursor)
{
	struct ipv6hdr *ip6 = cursor->at;

	if ((void *)(ip6 + 1) > cursor->end)
		return NULL;
	cursor->at = ip6 + 1;
	return ip6;
}

/* The UDP header; ports, length and checksum in network byte order. */
static __always_inline struct udphdr *next_udp(struct cursor *cursor)
{
	struct udphdr *udp = cursor->at;

	if ((void *)(udp + 1) > cursor->end)
		return NULL;
	cursor->at = udp + 1;
	return udp;
}

/* The TCP header, options and all (doff counts 4-byte words); fields in network byte order. */
static __always_inline struct tcphdr *next_tcp(struct cursor *cursor)
{
	struct tcphdr *tcp = cursor->at;
	u32 length;

	if ((void *)(tcp + 1) > cursor->end)
		return NULL;
	length = tcp->doff * 4;
	if (length < sizeof(*tcp))
		return NULL;
	if (cursor->at + length > cursor->end)
		return NULL;
	cursor->at += length;
	return tcp;
}

/* The ICMP header; checksum, id and sequence in network byte order. */
static __always_inline struct icmphdr *next_icmp(struct cursor *cursor)
{
	struct icmphdr *icmp = cursor->at;

	if ((void *)(icmp + 1) > cursor->end)
		return NULL;
	cursor->at = icmp + 1;
	return icmp;
}

#endif
