// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * How many datagrams wait in a UDP socket: the kernel knows, and tells nobody.
 * A raw tracepoint on sock_recv_length runs whenever a process has asked a
 * socket for data; for the one socket whose cookie is in "wanted" it copies
 * the lengths of the two queues of UDP: the one that packets are put in, and
 * the one that the reader has taken over (reader_queue, net/ipv4/udp.c). Where
 * the fields are depends on the kernel, so user space reads it from BTF and
 * writes it to "offsets". It is attached for the moment of the question only.
 */
#include <uapi/linux/bpf.h>

struct offsets {
	u32 sock_cookie, receive_queue_length, reader_queue_length;
};

struct answer {
	u64 asked;	/* how often the tracepoint met the socket */
	u64 length;	/* datagrams, at the last time */
};

BPF_ARRAY(offsets, struct offsets, 1);
BPF_ARRAY(wanted, u64, 1);
BPF_ARRAY(answer, struct answer, 1);

int copy_queue_length(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(struct sock *sk, int ret, int flags) */
	void *sk = (void *)ctx->args[0];
	u32 zero = 0, received = 0, taken_over = 0;
	struct answer *found;
	struct offsets *at;
	u64 cookie = 0, *only;

	at = offsets.lookup(&zero);
	only = wanted.lookup(&zero);
	found = answer.lookup(&zero);
	if (!at || !only || !found)
		return 0;
	bpf_probe_read_kernel(&cookie, sizeof(cookie), sk + at->sock_cookie);
	if (!cookie || cookie != *only)
		return 0;
	bpf_probe_read_kernel(&received, sizeof(received), sk + at->receive_queue_length);
	bpf_probe_read_kernel(&taken_over, sizeof(taken_over), sk + at->reader_queue_length);
	found->length = received + taken_over;
	found->asked++;
	return 0;
}
