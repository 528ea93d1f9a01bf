// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A timestamp without a card that makes one: who still sees it at the other end of a veth pair?
 *
 * hints_send_stamped is run by BPF_PROG_TEST_RUN over a frame and a context whose hwtstamp is set; a copy leaves by
 * the interface in "out", stamp and all. hints_stamp_seen, at another interface's ingress, looks for it.
 *
 * Load both as classifiers (BPF_PROG_TYPE_SCHED_CLS).
 */
#include "common/maps.h"
#include <uapi/linux/bpf.h>
#include <uapi/linux/pkt_cls.h>

/* One entry: the interface's index. */
LAB_ARRAY(out, u32, 1);

struct stamp {
	u64 packets;
	u64 hwtstamp;	/* ns, of the last packet; 0: none */
};

LAB_ARRAY(seen, struct stamp, 1);

int hints_send_stamped(struct __sk_buff *skb)
{
	u32 only = 0;
	u32 *ifindex = out.lookup(&only);

	if (!ifindex)
		return TC_ACT_SHOT;
	return bpf_clone_redirect(skb, *ifindex, 0);
}

int hints_stamp_seen(struct __sk_buff *skb)
{
	u32 only = 0;
	struct stamp *stamp = seen.lookup(&only);

	if (stamp) {
		stamp->hwtstamp = skb->hwtstamp;
		stamp->packets++;
	}
	return TC_ACT_OK;
}
