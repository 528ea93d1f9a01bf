// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The lab's traffic source where the kernel has no live frames. User space runs these programs over a packet of its own
 * with BPF_PROG_TEST_RUN; each run sends a clone of it out of the interface in "aim", as the stack sends a packet.
 * What became of the clones is counted in the packet's own cb, which user space gets back: exact with several threads.
 */
#include <uapi/linux/bpf.h>
#include "lab/flows.h"

BPF_ARRAY(aim, u32, 1);

#define REFUSED 0	/* words of cb */
#define ERRNO 1

static __always_inline int send(struct __sk_buff *skb)
{
	u32 zero = 0, *ifindex = aim.lookup(&zero);
	long answer;

	if (!ifindex)
		return 0;
	answer = bpf_clone_redirect(skb, *ifindex, 0);
	if (answer < 0) {	/* above 0: a ring was full, which the driver counts */
		skb->cb[REFUSED]++;
		skb->cb[ERRNO] = -answer;
	}
	return 0;
}

int generate(struct __sk_buff *skb)
{
	return send(skb);
}

int generate_flows(struct __sk_buff *skb)
{
	next_flow((void *)(long)skb->data, (void *)(long)skb->data_end);
	return send(skb);
}
