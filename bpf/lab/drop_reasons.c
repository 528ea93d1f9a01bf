// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Why the stack threw a packet away. A raw tracepoint on kfree_skb counts
 * dropped packets by namespace, interface, reason and protocol. Only packets
 * that were received count (skb_iif is set): a packet that a host failed to
 * send was never on the wire. Only namespaces named in "watched" count: the
 * tracepoint is global to the machine. Where the fields are depends on the
 * kernel, so user space reads it from BTF and writes it to "offsets"; one read
 * then fetches the part of the sk_buff that has them all.
 */
#include <uapi/linux/bpf.h>
#include <uapi/linux/if_ether.h>

#define SKB_BYTES 256	/* struct sk_buff is a little smaller */
#define MALFORMED 256	/* a protocol number that no IPv4 header can hold */

struct offsets {
	u32 skb_dev, skb_sk, skb_iif, skb_head, skb_data, skb_len, skb_protocol;
	u32 skb_network_header, dev_net, dev_ifindex, sock_net, net_inum;
};

struct drop_key {
	u32 netns;	/* inode of the namespace */
	u32 ifindex;	/* received on */
	u32 reason;	/* enum skb_drop_reason */
	u32 ethertype;	/* host order */
	u32 protocol;	/* of the IPv4 header; MALFORMED for one that is none; 0 for other ethertypes */
	u32 transport;	/* 1: IP had handed it on to a transport protocol */
	u32 leaving;	/* 1: it was on its way out of another interface */
};

BPF_ARRAY(offsets, struct offsets, 1);
BPF_HASH(watched, u32, u32, 1024);
BPF_TABLE("percpu_hash", struct drop_key, u64, drops, 4096);

/* A field of the copied sk_buff, wherever this kernel has it. */
#define FIELD(type, skb, at) (*(type *)((skb) + ((at) & (SKB_BYTES - sizeof(type)))))

/* The namespace of a packet: its device's, or its socket's once the device is cleared. */
static __always_inline u32 namespace_of(u8 *skb, struct offsets *at)
{
	void *dev = FIELD(void *, skb, at->skb_dev), *sk = FIELD(void *, skb, at->skb_sk), *net = 0;
	u32 inum = 0;

	if (dev)
		bpf_probe_read_kernel(&net, sizeof(net), dev + at->dev_net);
	if (!net && sk)	/* no device, or UDP's notes in its place (dev_scratch), which are no address */
		bpf_probe_read_kernel(&net, sizeof(net), sk + at->sock_net);
	if (net)
		bpf_probe_read_kernel(&inum, sizeof(inum), net + at->net_inum);
	return inum;
}

/* Whether it had got as far as another interface's transmission, which counts what it drops itself. */
static __always_inline u32 is_leaving(u8 *skb, struct offsets *at)
{
	void *dev = FIELD(void *, skb, at->skb_dev);
	u32 ifindex = 0;

	if (dev)
		bpf_probe_read_kernel(&ifindex, sizeof(ifindex), dev + at->dev_ifindex);
	return ifindex && ifindex != FIELD(u32, skb, at->skb_iif);
}

/* Fill in ethertype, IPv4 protocol, and how far up the packet had got. */
static __always_inline void describe(u8 *skb, struct offsets *at, struct drop_key *key)
{
	void *head = FIELD(void *, skb, at->skb_head), *data = FIELD(void *, skb, at->skb_data);
	u16 network = FIELD(u16, skb, at->skb_network_header);
	u8 header[10] = {};

	key->ethertype = ntohs(FIELD(u16, skb, at->skb_protocol));
	if (key->ethertype != ETH_P_IP)
		return;
	key->transport = data > head + network;
	bpf_probe_read_kernel(&header, sizeof(header), head + network);
	key->protocol = header[9];
	if (!key->transport && (header[0] < 0x45 || header[0] > 0x4f || FIELD(u32, skb, at->skb_len) < 20))
		key->protocol = MALFORMED;
}

int count_drop(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(struct sk_buff *skb, void *location, enum skb_drop_reason reason, …) */
	struct drop_key key = {};
	struct offsets *at;
	u64 none = 0, *count;
	u8 skb[SKB_BYTES];
	u32 zero = 0;

	at = offsets.lookup(&zero);
	if (!at)
		return 0;
	bpf_probe_read_kernel(skb, sizeof(skb), (void *)ctx->args[0]);
	key.ifindex = FIELD(u32, skb, at->skb_iif);
	if (!key.ifindex)
		return 0;
	key.netns = namespace_of(skb, at);
	if (!watched.lookup(&key.netns))
		return 0;
	key.reason = ctx->args[2];
	key.leaving = is_leaving(skb, at);
	describe(skb, at, &key);
	count = drops.lookup_or_try_init(&key, &none);
	if (count)
		*count += 1;
	return 0;
}
