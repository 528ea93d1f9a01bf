/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The source port of UDP or TCP going round from frame to frame, and the checksum with it, for the lab's generators.
 */
#ifndef LAB_FLOWS_H
#define LAB_FLOWS_H

#include <uapi/linux/if_ether.h>
#include <uapi/linux/ip.h>
#include <uapi/linux/in.h>
#include <uapi/linux/udp.h>
#include <uapi/linux/tcp.h>

struct flow_config {
	u32 flows;	/* how many source ports to go round */
	u32 base;	/* the first of them */
};

BPF_ARRAY(flow_config, struct flow_config, 1);
BPF_PERCPU_ARRAY(flow_count, u64, 1);

/* RFC 1624, equation 3: the checksum after one 16-bit word went from old to new. */
static __always_inline u16 checksum_after(u16 check, u16 old, u16 new)
{
	u32 sum = (u16)~check + (u16)~old + new;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* IPv4 without options; anything else stays as it is. */
static __always_inline void next_flow(void *data, void *data_end)
{
	struct flow_config *config;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	u16 *ports = (void *)(ip + 1), *check, port;
	u64 *count;
	u32 zero = 0;

	config = flow_config.lookup(&zero);
	count = flow_count.lookup(&zero);
	if (!config || !config->flows || !count)
		return;
	if ((void *)(ip + 1) + sizeof(struct udphdr) > data_end)
		return;
	if (eth->h_proto != htons(ETH_P_IP) || ip->ihl != 5)
		return;
	if (ip->frag_off & htons(0x1fff))	/* a later fragment has no ports */
		return;
	if (ip->protocol == IPPROTO_UDP)
		check = &((struct udphdr *)ports)->check;
	else if (ip->protocol == IPPROTO_TCP && (void *)ports + sizeof(struct tcphdr) <= data_end)
		check = &((struct tcphdr *)ports)->check;
	else
		return;
	port = htons(config->base + *count % config->flows);
	*count += 1;
	if (ip->protocol == IPPROTO_TCP || *check)	/* UDP: 0 means "no checksum" */
		*check = checksum_after(*check, *ports, port);
	*ports = port;
}

#endif
