/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reading a struct net_device from a tracepoint; where the fields are, user space reads from BTF. */
#ifndef LAB_DEVICE_H
#define LAB_DEVICE_H

#include <uapi/linux/bpf.h>

struct offsets {
	u32 dev_net, dev_ifindex, net_inum;
};

/* Which device: the inode of its namespace and its index there, as indexes repeat across namespaces. */
struct device {
	u32 netns;
	u32 ifindex;
};

static __always_inline void identify(void *dev, struct offsets *at, struct device *found)
{
	void *net = 0;

	bpf_probe_read_kernel(&net, sizeof(net), dev + at->dev_net);
	bpf_probe_read_kernel(&found->netns, sizeof(found->netns), net + at->net_inum);
	bpf_probe_read_kernel(&found->ifindex, sizeof(found->ifindex), dev + at->dev_ifindex);
}

#endif
