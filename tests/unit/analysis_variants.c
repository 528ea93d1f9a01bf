// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * One program in many shapes, for the tests of labkit.analysis: clang makes an object file of it
 * for each optimisation level, instruction set and SHAPE.
 */
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) value *name

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 8);
	__uint(key_size, 4);
	__uint(value_size, 4);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} verdicts SEC(".maps");

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;

__u32 chosen = 1;	/* a global: direct access to a map's value */

#if defined(NOINLINE)
#define SHARED static __attribute__((noinline))
#else
#define SHARED static __attribute__((always_inline)) inline
#endif

SHARED int send(struct xdp_md *ctx)
{
	return redirect_map(&ports, ctx->rx_queue_index, 0);
}

SHARED int count(int action)
{
	__u32 slot = action;
	__u64 *packets = map_lookup(&verdicts, &slot);

	if (packets)
		(*packets)++;
	return action;
}

SEC("xdp/plain") int plain(struct xdp_md *ctx)
{
	return send(ctx);
}

SEC("xdp/global") int uses_a_global(struct xdp_md *ctx)
{
	return redirect_map(&ports, chosen, 0);
}

SEC("xdp/before") int counts_before(struct xdp_md *ctx)
{
	count(4);
	return send(ctx);
}

SEC("xdp/behind") int counts_behind(struct xdp_md *ctx)
{
	return count(send(ctx));
}

SEC("xdp/between") int helper_between(struct xdp_md *ctx)
{
	int action = send(ctx);
	__u32 only = 0;

	return map_lookup(&verdicts, &only) ? action : XDP_PASS;
}

SEC("xdp/fallback") int falls_back(struct xdp_md *ctx)
{
	int action = send(ctx);

	if (action > 0)
		return action;
	return redirect_map(&ports, 0, XDP_PASS);
}

SEC("xdp/overruled") int overruled(struct xdp_md *ctx)
{
	send(ctx);
	return XDP_DROP;
}

SEC("xdp/mixed") int mixed(struct xdp_md *ctx)
{
	return ctx->rx_queue_index ? send(ctx) : redirect(2, 0);
}

/* Spilled as an int, changed twice, and the same again. */
SEC("xdp/spilled") int spilled(struct xdp_md *ctx)
{
	volatile int action = send(ctx);

	action ^= 0x55;
	action ^= 0x55;
	return action;
}

char _license[] SEC("license") = "Dual BSD/GPL";
