// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Drops every packet in traffic control (TC): after the kernel has made its own
 * description of it (struct sk_buff), so later than XDP could.
 *
 * Load as a classifier (BPF_PROG_TYPE_SCHED_CLS), attach to an interface's ingress.
 */
#include "common/maps.h"
#include <uapi/linux/pkt_cls.h>

/* Packets by action: TC_ACT_OK 0, TC_ACT_SHOT 2. */
LAB_PERCPU_ARRAY(tc_verdicts, u64, 8);

int tc_drop(struct __sk_buff *skb)
{
	u32 action = TC_ACT_SHOT;
	u64 *packets = tc_verdicts.lookup(&action);

	if (packets)
		(*packets)++;
	return action;
}
