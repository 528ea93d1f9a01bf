// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Shares IPv4 out over several CPUs: each flow always goes to the same one, so its packets
 * stay in order.
 *
 * A thread of the kernel on that CPU takes it from there, up to the network stack. cpus
 * holds the length of each CPU's queue; what finds it full is dropped. What is not IPv4
 * passes right here.
 */
#include "common/parse.h"
#include "common/verdict.h"

#define MOST_CPUS 64

/* The CPUs, by number from 0: as many as cpus_in_use says must be filled in. */
LAB_CPUMAP(cpus, MOST_CPUS);

/* One entry: over how many CPUs. */
LAB_ARRAY(cpus_in_use, u32, 1);

/* Packets meant for each CPU. */
LAB_PERCPU_ARRAY(packets_to_cpu, u64, MOST_CPUS);

/*
 * A number that all packets of a flow share: their addresses, protocol and ports, stirred
 * (a fragment has no ports).
 */
static __always_inline u32 flow_hash(struct cursor at, struct iphdr *ip)
{
	bool has_ports = ip->protocol == IPPROTO_UDP || ip->protocol == IPPROTO_TCP;
	struct udphdr *ports = has_ports && !(ip->frag_off & htons(0x3fff)) ? next_udp(&at) : NULL;
	u32 hash = ip->saddr ^ ip->daddr ^ ip->protocol;

	if (ports)	/* UDP and TCP begin alike */
		hash ^= (u32)ports->source << 16 | ports->dest;
	return hash * 0x9e3779b1;	/* 2^32 over the golden ratio: neighbours end up far apart, by the upper bits */
}

int spread_cpus(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	u32 only = 0, cpu, *count = cpus_in_use.lookup(&only);
	u64 *packets;

	if (!ip || !count || !*count)
		return verdict(ctx, XDP_PASS);
	cpu = (u64)flow_hash(at, ip) * *count >> 32;
	packets = packets_to_cpu.lookup(&cpu);
	if (packets)
		(*packets)++;
	return verdict(ctx, cpus.redirect_map(cpu, 0));
}
