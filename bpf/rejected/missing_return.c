// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Ends without a verdict.
 *
 * The verifier says: "R0 !read_ok"
 */
#include <uapi/linux/bpf.h>

int missing_return(struct xdp_md *ctx)
{
}
