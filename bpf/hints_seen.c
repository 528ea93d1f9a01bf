// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Asks the driver for all it knows of each packet, and counts which answers there were.
 *
 * Load it for a device: lab.load(spec, device=server["eth0"]).
 */
#include "common/hints.h"
#include "common/parse.h"
#include "common/verdict.h"

/* An answer; all of a kind are counted together. A code is 0 or an errno below 0. */
struct answer {
	s32 hash_code;
	u32 hash_type;		/* enum xdp_rss_hash_type */
	s32 timestamp_code;
	u32 timestamp_set;	/* whether a time was given: 0 is none */
	s32 vlan_code;
	u16 vlan_tci;		/* of the tag that travels beside the packet */
	u16 frame_proto;	/* the EtherType in the frame itself, 0 without one; host byte order, as vlan_tci */
};

/* How many had it, and the numbers of the last of them. */
struct answered {
	u64 packets;
	u64 timestamp_ns;
	u64 hash;
};

LAB_HASH(answers, struct answer, struct answered, 64);

/* One entry: the verdict, XDP_DROP 1 or XDP_PASS 2. */
LAB_ARRAY(action, u32, 1);

int hints_seen(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct answered none = {}, *counted;
	struct answer answer = {};
	enum xdp_rss_hash_type type = XDP_RSS_TYPE_NONE;
	u64 timestamp = 0;
	__be16 proto = 0;
	u32 hash = 0, only = 0, *wanted = action.lookup(&only);

	if (!wanted)
		return verdict(ctx, XDP_ABORTED);
	if (eth)
		answer.frame_proto = ntohs(eth->h_proto);
	answer.hash_code = bpf_xdp_metadata_rx_hash(ctx, &hash, &type);
	answer.hash_type = type;
	answer.timestamp_code = bpf_xdp_metadata_rx_timestamp(ctx, &timestamp);
	answer.timestamp_set = timestamp != 0;
	answer.vlan_code = bpf_xdp_metadata_rx_vlan_tag(ctx, &proto, &answer.vlan_tci);
	counted = answers.lookup_or_try_init(&answer, &none);
	if (!counted)
		return verdict(ctx, XDP_ABORTED);
	__sync_fetch_and_add(&counted->packets, 1);
	counted->timestamp_ns = timestamp;
	counted->hash = hash;
	return verdict(ctx, *wanted);
}
