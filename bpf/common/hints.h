/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the driver knows of a packet beside its bytes: hash, timestamp, VLAN tag.
 *
 *	u32 hash = 0;
 *	enum xdp_rss_hash_type type = 0;
 *
 *	if (!bpf_xdp_metadata_rx_hash(ctx, &hash, &type))
 *		... the driver had a hash
 *
 * The three are functions of the kernel's (kfuncs), each a question to the driver of one device. So the program
 * is loaded for that device, lab.load(spec, device=server["eth0"]), and runs there in native mode, nowhere else.
 * The number after each declaration stands for the function until the program is loaded; then its number in the
 * kernel's own type information (BTF) takes its place: labkit/program/relocate.py.
 *
 * Each returns 0, or why there is no answer: -ENODATA, this packet has none (on veth: it came without an skb, or
 * without a tag); -EOPNOTSUPP, this driver has none for any packet. What they were to write is then as it was.
 */
#ifndef LAB_COMMON_HINTS_H
#define LAB_COMMON_HINTS_H

#include <uapi/linux/bpf.h>

#ifndef ENODATA
#define ENODATA 61		/* include/uapi/asm-generic/errno.h */
#endif
#ifndef EOPNOTSUPP
#define EOPNOTSUPP 95
#endif

/* What went into the hash (include/net/xdp.h, not part of the UAPI). 0: the driver doesn't say. */
enum xdp_rss_hash_type {
	XDP_RSS_TYPE_NONE = 0,
	XDP_RSS_L3_IPV4 = 1 << 0,
	XDP_RSS_L3_IPV6 = 1 << 1,
	XDP_RSS_L3_DYNHDR = 1 << 2,	/* IPv4 options or IPv6 extension headers as well */
	XDP_RSS_L4 = 1 << 3,		/* ports, too; of which protocol is in the bits below, if it is known */
	XDP_RSS_L4_TCP = 1 << 4,
	XDP_RSS_L4_UDP = 1 << 5,
	XDP_RSS_L4_SCTP = 1 << 6,
	XDP_RSS_L4_IPSEC = 1 << 7,
	XDP_RSS_L4_ICMP = 1 << 8,
};

/* When the packet was received, by the device's clock, in ns. 0 is no time, whatever is returned. */
static int (*bpf_xdp_metadata_rx_timestamp)(const struct xdp_md *ctx, u64 *timestamp) = (void *)1000001;

/* A number that is the same for all packets of a flow, and what went into it. */
static int (*bpf_xdp_metadata_rx_hash)(const struct xdp_md *ctx, u32 *hash,
				       enum xdp_rss_hash_type *rss_type) = (void *)1000002;

/*
 * The VLAN tag that travels beside the packet: its EtherType in network byte order, priority and number in the
 * host's. A tag that is in the frame itself is read there: next_vlan(), common/parse.h.
 */
static int (*bpf_xdp_metadata_rx_vlan_tag)(const struct xdp_md *ctx, __be16 *vlan_proto,
					   u16 *vlan_tci) = (void *)1000003;

#endif
