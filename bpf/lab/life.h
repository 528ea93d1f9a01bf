/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the programs that follow one packet share: the record of an event, and
 * the map all of them write to, each event under a key of its own, so that
 * none overwrites another. Where the kernel's fields are, user space reads
 * from BTF and writes to "offsets" and "fields".
 */
#ifndef LAB_LIFE_H
#define LAB_LIFE_H

#include "device.h"

/* The tracepoints, in the order of TRACEPOINTS in labkit/observe/life_probes.py. */
enum life_kind {
	XDP_REDIRECTED,
	XDP_REDIRECT_FAILED,
	XDP_EXCEPTION,
	XDP_DEVMAP_XMIT,
	XDP_BULK_TX,
	XDP_CPUMAP_ENQUEUE,
	XDP_CPUMAP_KTHREAD,
	NET_DEV_QUEUE,
	NET_DEV_START_XMIT,
	NETIF_RX,
	NAPI_GRO_RECEIVE_ENTRY,
	NETIF_RECEIVE_SKB,
	KFREE_SKB,
	CONSUME_SKB,
	ICMP_SEND,
	TCP_SEND_RESET,
	NAPI_POLL,
	SK_DATA_READY,
	SOCK_RECV_LENGTH,
};

struct life_fields {
	u32 skb_dev, skb_sk, skb_iif, skb_head, skb_tail, skb_mac_header, skb_network_header;
	u32 sock_net, sock_family, sock_protocol, sock_num;
	u32 prog_aux, aux_id, napi_dev;
};

struct life_key {
	u64 time_ns;	/* monotonic */
	u32 cpu;
	u32 kind;	/* enum life_kind */
};

struct life_event {
	u64 object;	/* the address of the sk_buff or socket: tells one from another, nothing more; else 0 */
	struct device at;	/* all 0 where it isn't known */
	struct device other;	/* where a redirect goes to, or comes from */
	u32 marked;	/* 1: the sk_buff holds the marked packet */
	u32 program;	/* id */
	s32 args[6];	/* by kind, in the tracepoint's order */
};

BPF_ARRAY(offsets, struct offsets, 1);
BPF_ARRAY(fields, struct life_fields, 1);
BPF_HASH(watched, u32, u32, 1024);
BPF_HASH(life_events, struct life_key, struct life_event, 1024);
BPF_PERCPU_ARRAY(life_lost, u64, 1);	/* events for which there was no room */

/* Now, here: call it first, so that the time is that of the event. */
static __always_inline struct life_key life_now(u32 kind)
{
	struct life_key key = {
		.time_ns = bpf_ktime_get_ns(),
		.cpu = bpf_get_smp_processor_id(),
		.kind = kind,
	};

	return key;
}

static __always_inline void life_note(struct life_key *key, struct life_event *event)
{
	u32 zero = 0;
	u64 *lost;

	if (!life_events.insert(key, event))
		return;
	lost = life_lost.lookup(&zero);
	if (lost)
		*lost += 1;
}

#define LIFE_READ(value, from) bpf_probe_read_kernel(&(value), sizeof(value), (void *)(from))

#endif
