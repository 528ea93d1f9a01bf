// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* No more than most datagrams may wait to be read; here all of them pass. */
#include "common/parse.h"
#include "common/verdict.h"

LAB_ARRAY(most, u64, 1);	/* filled in */
LAB_ARRAY(taken, u64, 1);	/* filled in: datagrams read so far */
LAB_ARRAY(passed, u64, 1);	/* yours: datagrams passed so far */

int few_out(struct xdp_md *ctx)
{
	u32 only = 0;
	u64 *limit = most.lookup(&only), *read = taken.lookup(&only), *out = passed.lookup(&only);

	if (!limit || !read || !out)
		return verdict(ctx, XDP_ABORTED);
	return verdict(ctx, XDP_PASS);
}
