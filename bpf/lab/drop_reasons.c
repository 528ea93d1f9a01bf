// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Why the stack threw a packet away. A raw tracepoint on kfree_skb counts
 * dropped packets by namespace, interface, reason and protocol. Only packets
 * that were received count (skb_iif is set): a packet that a host failed to
 * send was never on the wire. Only namespaces named in "watched" count: the
 * tracepoint is global to the machine. Where the fields are depends on the
 * kernel, so user space reads it from BTF and writes it to "offsets".
 */
#include <uapi/linux/bpf.h>
#include <uapi/linux/if_ether.h>

struct offsets {
	u32 skb_dev, skb_sk, skb_iif, skb_head, skb_data, skb_protocol;
	u32 skb_network_header, dev_net, sock_net, net_inum;
};

struct drop_key {
	u32 netns;	/* inode of the namespace */
	u32 ifindex;	/* received on */
	u32 reason;	/* enum skb_drop_reason */
	u32 ethertype;	/* host order */
	u32 protocol;	/* of the IPv4 header; 0 for others */
	u32 transport;	/* 1: IP had handed it on to a transport protocol */
};

BPF_ARRAY(offsets, struct offsets, 1);
BPF_HASH(watched, u32, u32, 1024);
BPF_HASH(drops, struct drop_key, u64, 4096);

/* The namespace of a packet: its device's, or its socket's once the device is cleared. */
static __always_inline u32 namespace_of(void *skb, struct offsets *at)
{
	void *holder = 0, *net = 0;
	u32 inum = 0;

	bpf_probe_read_kernel(&holder, sizeof(holder), skb + at->skb_dev);
	if (holder)
		bpf_probe_read_kernel(&net, sizeof(net), holder + at->dev_net);
	if (!net) {	/* cleared, or in use for UDP's notes (dev_scratch), which are no address */
		bpf_probe_read_kernel(&holder, sizeof(holder), skb + at->skb_sk);
		if (!holder)
			return 0;
		bpf_probe_read_kernel(&net, sizeof(net), holder + at->sock_net);
	}
	bpf_probe_read_kernel(&inum, sizeof(inum), net + at->net_inum);
	return inum;
}

/* Fill in ethertype, IPv4 protocol, and how far up the packet had got. */
static __always_inline void describe(void *skb, struct offsets *at, struct drop_key *key)
{
	void *head = 0, *data = 0;
	u16 ethertype = 0, network = 0;
	u8 protocol = 0;

	bpf_probe_read_kernel(&ethertype, sizeof(ethertype), skb + at->skb_protocol);
	key->ethertype = ntohs(ethertype);
	if (key->ethertype != ETH_P_IP)
		return;
	bpf_probe_read_kernel(&head, sizeof(head), skb + at->skb_head);
	bpf_probe_read_kernel(&data, sizeof(data), skb + at->skb_data);
	bpf_probe_read_kernel(&network, sizeof(network), skb + at->skb_network_header);
	bpf_probe_read_kernel(&protocol, sizeof(protocol), head + network + 9);
	key->protocol = protocol;
	key->transport = data > head + network;
}

int count_drop(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(struct sk_buff *skb, void *location, enum skb_drop_reason reason, …) */
	void *skb = (void *)ctx->args[0];
	struct drop_key key = {};
	struct offsets *at;
	u64 zero_count = 0, *count;
	u32 zero = 0;

	at = offsets.lookup(&zero);
	if (!at)
		return 0;
	bpf_probe_read_kernel(&key.ifindex, sizeof(key.ifindex), skb + at->skb_iif);
	if (!key.ifindex)
		return 0;
	key.netns = namespace_of(skb, at);
	if (!watched.lookup(&key.netns))
		return 0;
	key.reason = ctx->args[2];
	describe(skb, at, &key);
	/* Two CPUs may meet a new key at once: the slot is made empty by whoever is first, then both add. */
	count = drops.lookup_or_try_init(&key, &zero_count);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}
