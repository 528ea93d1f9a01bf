// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Gives every packet that leaves an interface a VLAN tag, as a VLAN device would.
 *
 * The tag goes into the packet's description (struct sk_buff). Whether it is in the frame at the other end is up to
 * the interface: with the offload tx-vlan it promises to put it in itself, and a veth hands it on beside the frame.
 *
 * Load as a classifier (BPF_PROG_TYPE_SCHED_CLS), attach to an interface's egress.
 */
#include "common/maps.h"
#include <uapi/linux/bpf.h>
#include <uapi/linux/if_ether.h>
#include <uapi/linux/pkt_cls.h>

/* One entry: priority (3 bits), drop eligible (1), VLAN number (12). */
LAB_ARRAY(tag, u16, 1);

int hints_push_vlan(struct __sk_buff *skb)
{
	u32 only = 0;
	u16 *tci = tag.lookup(&only);

	if (!tci || bpf_skb_vlan_push(skb, htons(ETH_P_8021Q), *tci))
		return TC_ACT_SHOT;
	return TC_ACT_OK;
}
