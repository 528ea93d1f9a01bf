// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The lab's traffic source. User space runs these programs over a frame of its
 * own with BPF_PROG_TEST_RUN in live-frame mode; each run sends the frame out of
 * the interface in "out". A devmap gathers frames and hands them to the driver
 * in bulk, which is what makes millions a second possible.
 */
#include <uapi/linux/bpf.h>
#include <uapi/linux/if_ether.h>
#include <uapi/linux/ip.h>
#include <uapi/linux/in.h>
#include <uapi/linux/udp.h>
#include <uapi/linux/tcp.h>

struct flow_config {
	u32 flows;	/* how many source ports to go round */
	u32 base;	/* the first of them */
};

BPF_DEVMAP(out, 1);
BPF_ARRAY(flow_config, struct flow_config, 1);
BPF_PERCPU_ARRAY(flow_count, u64, 1);

int generate(struct xdp_md *ctx)
{
	return out.redirect_map(0, 0);
}

/* RFC 1624, equation 3: the checksum after one 16-bit word went from old to new. */
static __always_inline u16 checksum_after(u16 check, u16 old, u16 new)
{
	u32 sum = (u16)~check + (u16)~old + new;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/*
 * The same with the source port of UDP or TCP going round. The frame's page may
 * carry the port of an earlier round (pages are recycled as they are), so the
 * checksum is brought from whatever port is there to the new one. IPv4 without
 * options; anything else is sent as it is.
 */
int generate_flows(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	u16 *ports = (void *)(ip + 1), *check, port;
	struct flow_config *config;
	u64 *count;
	u32 zero = 0;

	config = flow_config.lookup(&zero);
	count = flow_count.lookup(&zero);
	if (!config || !config->flows || !count)
		goto send;
	if ((void *)(ip + 1) + sizeof(struct tcphdr) > data_end) {
		if ((void *)(ip + 1) + sizeof(struct udphdr) > data_end)
			goto send;
	}
	if (eth->h_proto != htons(ETH_P_IP) || ip->ihl != 5)
		goto send;
	if (ip->frag_off & htons(0x1fff))	/* a later fragment has no ports */
		goto send;
	if (ip->protocol == IPPROTO_UDP)
		check = &((struct udphdr *)ports)->check;
	else if (ip->protocol == IPPROTO_TCP && (void *)ports + sizeof(struct tcphdr) <= data_end)
		check = &((struct tcphdr *)ports)->check;
	else
		goto send;
	port = htons(config->base + *count % config->flows);
	*count += 1;
	if (ip->protocol == IPPROTO_TCP || *check)	/* UDP: 0 means "no checksum" */
		*check = checksum_after(*check, *ports, port);
	*ports = port;
send:
	return out.redirect_map(0, 0);
}
