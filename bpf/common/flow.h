/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a packet's headers tell of the flow it belongs to: the hash that a network card would give, and what it is of.
 *
 *	struct flow flow = flow_of(ctx);
 *
 * IPv4 and IPv6, behind one VLAN tag or none; ports of UDP and TCP. All packets of a flow have the same hash: a fragment
 * has no ports that could be told apart, so the hash of a fragment is of the addresses alone.
 */
#ifndef LAB_COMMON_FLOW_H
#define LAB_COMMON_FLOW_H

#include "common/hints.h"
#include "common/parse.h"

struct flow {
	u32 hash;
	u16 hash_type;		/* bits of enum xdp_rss_hash_type; 0: not IP, no hash */
	u16 source;		/* port, in host byte order; 0: none */
	u16 l4_offset;		/* bytes from the packet's start to the UDP or TCP header; 0: none */
	u16 l4_bytes;		/* what the IP header says is there from then on */
	__be16 vlan_proto;	/* 0: no tag */
	u16 vlan_tci;		/* in host byte order */
	u64 addresses;		/* the sum of both by 32-bit words, for a checksum */
	u8  protocol;
};

/* Neighbouring numbers end up far apart, in all bits: the last step of MurmurHash3 (Austin Appleby, public domain). */
static __always_inline u32 stirred(u32 hash)
{
	hash ^= hash >> 16;
	hash *= 0x85ebca6b;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35;
	return hash ^ hash >> 16;
}

static __always_inline u32 flow_hash(u32 source, u32 destination, u8 protocol, u32 ports)
{
	return stirred(stirred(stirred(source) ^ destination) ^ ports ^ protocol);
}

/* The ports of UDP or TCP, as they stand in the packet; 0: neither, or the packet ends before them. */
static __always_inline u32 read_ports(struct cursor *at, void *start, struct flow *flow)
{
	struct udphdr *udp = at->at;	/* UDP and TCP begin alike */

	if (flow->protocol != IPPROTO_UDP && flow->protocol != IPPROTO_TCP)
		return 0;
	if ((void *)(udp + 1) > at->end)
		return 0;
	flow->hash_type |= XDP_RSS_L4 | (flow->protocol == IPPROTO_UDP ? XDP_RSS_L4_UDP : XDP_RSS_L4_TCP);
	flow->l4_offset = at->at - start;
	flow->source = ntohs(udp->source);
	return (u32)udp->source << 16 | udp->dest;
}

static __always_inline void read_ipv4(struct cursor *at, void *start, struct flow *flow)
{
	struct iphdr *ip = next_ipv4(at);
	u32 ports = 0;

	if (!ip)
		return;
	flow->hash_type = XDP_RSS_L3_IPV4;
	flow->protocol = ip->protocol;
	if (!(ip->frag_off & htons(0x3fff))) {	/* neither a later fragment nor one with more to come */
		flow->l4_bytes = ntohs(ip->tot_len) - ip->ihl * 4;
		ports = read_ports(at, start, flow);
	}
	flow->addresses = (u64)ip->saddr + ip->daddr;
	flow->hash = flow_hash(ip->saddr, ip->daddr, ip->protocol, ports);
}

static __always_inline void read_ipv6(struct cursor *at, void *start, struct flow *flow)
{
	struct ipv6hdr *ip = next_ipv6(at);
	u32 source = 0, destination = 0, ports;
	u64 sum = 0;
	int i;

	if (!ip)
		return;
#pragma unroll
	for (i = 0; i < 4; i++) {
		source = stirred(source ^ ip->saddr.in6_u.u6_addr32[i]);
		destination = stirred(destination ^ ip->daddr.in6_u.u6_addr32[i]);
		sum += (u64)ip->saddr.in6_u.u6_addr32[i] + ip->daddr.in6_u.u6_addr32[i];
	}
	flow->hash_type = XDP_RSS_L3_IPV6;
	flow->protocol = ip->nexthdr;
	flow->l4_bytes = ntohs(ip->payload_len);
	ports = read_ports(at, start, flow);
	flow->addresses = sum;
	flow->hash = flow_hash(source, destination, ip->nexthdr, ports);
}

/* Fills in what can be told; the cursor ends at the UDP or TCP header, where there is one. */
static __always_inline void read_flow(struct cursor *at, struct flow *flow)
{
	void *start = at->at;
	struct ethhdr *eth = next_eth(at);
	struct vlan_tag *tag;
	__be16 proto;

	if (!eth)
		return;
	proto = eth->h_proto;
	if (is_vlan(proto)) {
		tag = next_vlan(at);
		if (!tag)
			return;
		flow->vlan_proto = proto;
		flow->vlan_tci = ntohs(tag->tci);
		proto = tag->encapsulated_proto;
	}
	if (proto == htons(ETH_P_IP))
		read_ipv4(at, start, flow);
	else if (proto == htons(ETH_P_IPV6))
		read_ipv6(at, start, flow);
}

/* The same, for a program that needs no more of the packet. */
static __always_inline struct flow flow_of(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct flow flow = {};

	read_flow(&at, &flow);
	return flow;
}

#endif
