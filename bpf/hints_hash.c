// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Asks the driver for the hash of each packet, counts what it answered, and drops the packet.
 *
 * Load it for a device: lab.load(spec, device=server["eth0"]).
 */
#include "common/hints.h"
#include "common/verdict.h"

/* Packets by the driver's answer: 0 a hash, 1 none for this packet (-ENODATA), 2 none for any (-EOPNOTSUPP). */
LAB_PERCPU_ARRAY(answers, u64, 3);

/* One entry: the hash of the last packet that had one. */
LAB_ARRAY(latest, u32, 1);

int hints_hash(struct xdp_md *ctx)
{
	enum xdp_rss_hash_type type = XDP_RSS_TYPE_NONE;
	u32 hash = 0, only = 0, slot;
	u64 *packets;
	int code;

	code = bpf_xdp_metadata_rx_hash(ctx, &hash, &type);
	slot = !code ? 0 : code == -ENODATA ? 1 : 2;
	packets = answers.lookup(&slot);
	if (packets)
		(*packets)++;
	if (!code)
		latest.update(&only, &hash);
	return verdict(ctx, XDP_DROP);
}
