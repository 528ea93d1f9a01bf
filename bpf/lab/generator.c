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

#define RESTORED 64	/* bytes; the same number is in labkit/traffic/generator.py */

struct headers {
	u64 words[RESTORED / 8];
};

#define AFTER_ETH sizeof(struct ethhdr)
#define AFTER_IP (AFTER_ETH + sizeof(struct iphdr))

#define RESTORE_UP_TO(end, begin) \
	do { \
		if (data + (end) > data_end) \
			return; \
		_Pragma("unroll") \
		for (i = (begin) / 2; i < (end) / 2; i++) \
			((u16 *)data)[i] = ((u16 *)headers->words)[i]; \
	} while (0)

#define META_WORDS 54	/* of four bytes; the same number is in labkit/traffic/generator.py */

/* What goes before each frame: count words. */
struct metadata {
	u32 count;
	u32 words[META_WORDS];
};

BPF_DEVMAP(out, 1);
BPF_ARRAY(wanted, struct headers, 1);
BPF_ARRAY(metadata, struct metadata, 1);
BPF_ARRAY(flow_config, struct flow_config, 1);
BPF_PERCPU_ARRAY(flow_count, u64, 1);

/*
 * The beginning of the frame as it should be. Pages are recycled as they come
 * back: a receiver's stack may have lowered the TTL, taken a VLAN tag off or
 * put another MAC address in, and the next round would start from that.
 */
static __always_inline void restore(struct xdp_md *ctx)
{
	u8 *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct headers *headers;
	u32 zero = 0;
	int i;

	headers = wanted.lookup(&zero);
	if (!headers)
		return;
	if (data + RESTORED <= data_end) {
#pragma unroll
		for (i = 0; i < RESTORED / 8; i++)
			((u64 *)data)[i] = headers->words[i];
		return;
	}
	/* A shorter frame, header by header: Ethernet, IPv4, UDP, TCP (ports and checksum always together). */
	RESTORE_UP_TO(AFTER_ETH, 0);
	RESTORE_UP_TO(AFTER_IP, AFTER_ETH);
	RESTORE_UP_TO(AFTER_IP + sizeof(struct udphdr), AFTER_IP);
	RESTORE_UP_TO(AFTER_IP + sizeof(struct tcphdr), AFTER_IP + sizeof(struct udphdr));
}

/*
 * The metadata likewise. How long it is the kernel restores by itself, from what user space gave; a receiver's program
 * may have written other words there.
 */
static __always_inline void restore_metadata(struct xdp_md *ctx)
{
	u32 *meta = (void *)(long)ctx->data_meta, *data = (void *)(long)ctx->data;
	u32 i, zero = 0;
	struct metadata *wanted_metadata = metadata.lookup(&zero);

	if (!wanted_metadata)
		return;
	for (i = 0; i < META_WORDS; i++) {
		if (i >= wanted_metadata->count || meta + i + 1 > data)
			return;
		meta[i] = wanted_metadata->words[i];
	}
}

int generate(struct xdp_md *ctx)
{
	restore(ctx);
	return out.redirect_map(0, 0);
}

int generate_meta(struct xdp_md *ctx)
{
	restore_metadata(ctx);
	restore(ctx);
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
 * The same with the source port of UDP or TCP going round, and the checksum
 * with it. IPv4 without options; anything else is sent as it is.
 */
static __always_inline int send_flows(struct xdp_md *ctx)
{
	void *data, *data_end;
	struct flow_config *config;
	struct ethhdr *eth;
	struct iphdr *ip;
	u16 *ports, *check, port;
	u64 *count;
	u32 zero = 0;

	restore(ctx);
	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	eth = data;
	ip = (void *)(eth + 1);
	ports = (void *)(ip + 1);
	config = flow_config.lookup(&zero);
	count = flow_count.lookup(&zero);
	if (!config || !config->flows || !count)
		goto send;
	if ((void *)(ip + 1) + sizeof(struct udphdr) > data_end)
		goto send;
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

int generate_flows(struct xdp_md *ctx)
{
	return send_flows(ctx);
}

int generate_flows_meta(struct xdp_md *ctx)
{
	restore_metadata(ctx);
	return send_flows(ctx);
}
