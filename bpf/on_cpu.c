// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The program on the other side of a CPU map: runs on the CPU that a packet was sent to,
 * and decides anew.
 *
 * Load with expected_attach_type=AttachType.XDP_CPUMAP and write cpus[1] = 192, program.
 * Its verdicts, read CPU by CPU, show where it ran.
 */
#include "common/verdict.h"

/*
 * One entry: XDP_DROP 1, XDP_PASS 2 (on to the stack), XDP_REDIRECT 4 (out of the
 * interface in ports[0]).
 */
LAB_ARRAY(action, u32, 1);

LAB_DEVMAP(ports, 1);

int on_cpu(struct xdp_md *ctx)
{
	u32 only = 0;
	u32 *number = action.lookup(&only);

	if (!number)
		return verdict(ctx, XDP_ABORTED);
	return verdict(ctx, *number == XDP_REDIRECT ? ports.redirect_map(0, 0) : *number);
}
