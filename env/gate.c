// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Leads libraries that know nothing of it, as libbcc, to the sandbox's gate.
 *
 * Loaded before them (LD_PRELOAD), it takes the place of syscall(2) and passes every call on, but for the three commands
 * of bpf(2) that make something: those it takes to the gate, as labkit/kernel/gate.py does (env/gate tells the form of
 * a request). Outside a sandbox there is no gate, and nothing changes. env/setup.sh builds it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define GATE "/run/xdp-lab-gate"
#define ATTR_BYTES 160
#define MOST_FDS 250
#define NAMESPACE (-1) /* among the descriptors: the network namespace of who asks */

/* Where the attributes hold things, by bytes from their start: see struct bpf_attr of linux/bpf.h. */
enum { INSN_COUNT = 4, INSNS = 8, LICENSE = 16, IFINDEX = 64, PROG_BTF = 72, FUNCTIONS = 76, LINES = 92 };
enum { INNER_MAP = 20, MAP_BTF = 48, BTF = 0, BTF_BYTES = 16 };

struct buffer {
	uint32_t offset, size;
	const void *data;
};

struct request {
	unsigned char attr[ATTR_BYTES];
	uint32_t command, attr_bytes;
	struct buffer buffers[4];
	uint32_t buffer_count;
	int numbers[MOST_FDS], fds[MOST_FDS];
	uint32_t fd_count;
	int namespace;
};

struct answer {
	int32_t error;
	uint32_t log_bytes, log_true_bytes;
};

static long (*next_syscall)(long, ...);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one request at a time */
static int line = -1;
static pid_t line_of; /* a forked child needs a line of its own */

__attribute__((constructor)) static void find_next(void)
{
	next_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
}

static uint32_t word(const struct request *r, unsigned int offset)
{
	uint32_t found;

	memcpy(&found, r->attr + offset, sizeof(found));
	return found;
}

static void *pointer(const struct request *r, unsigned int offset)
{
	uint64_t found;

	memcpy(&found, r->attr + offset, sizeof(found));
	return (void *)(uintptr_t)found;
}

static void add_buffer(struct request *r, uint32_t offset, uint32_t size)
{
	const void *data = pointer(r, offset);

	r->buffers[r->buffer_count++] = (struct buffer){ offset, data ? size : 0, data };
}

static void add_fd(struct request *r, int fd)
{
	for (uint32_t i = 0; i < r->fd_count; i++)
		if (r->numbers[i] == fd)
			return;
	if (fd > 0 && r->fd_count < MOST_FDS - 2) {
		r->numbers[r->fd_count] = fd;
		r->fds[r->fd_count++] = fd;
	}
}

/* Maps that the instructions speak of by descriptor. */
static void add_maps(struct request *r, const struct bpf_insn *insns, uint32_t count)
{
	for (uint32_t i = 0; insns && i < count; i++) {
		if (insns[i].code != (BPF_LD | BPF_DW | BPF_IMM))
			continue;
		if (insns[i].src_reg == BPF_PSEUDO_MAP_FD || insns[i].src_reg == BPF_PSEUDO_MAP_VALUE)
			add_fd(r, insns[i].imm);
		i++; /* its second half */
	}
}

static void gather_program(struct request *r)
{
	const char *license = pointer(r, LICENSE);

	add_buffer(r, INSNS, word(r, INSN_COUNT) * sizeof(struct bpf_insn));
	add_buffer(r, LICENSE, license ? strlen(license) + 1 : 0);
	for (unsigned int at = FUNCTIONS; at <= LINES; at += LINES - FUNCTIONS)
		add_buffer(r, at + 4, word(r, at) * word(r, at + 12));
	add_maps(r, pointer(r, INSNS), word(r, INSN_COUNT));
	add_fd(r, word(r, PROG_BTF));
	if (word(r, IFINDEX)) {
		r->namespace = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
		r->numbers[r->fd_count] = NAMESPACE;
		r->fds[r->fd_count++] = r->namespace;
	}
}

static void gather(struct request *r, uint32_t command, const void *attr, size_t size)
{
	memset(r, 0, sizeof(*r));
	memcpy(r->attr, attr, size < ATTR_BYTES ? size : ATTR_BYTES);
	r->command = command;
	r->attr_bytes = ATTR_BYTES;
	r->namespace = -1;
	if (command == BPF_PROG_LOAD) {
		gather_program(r);
	} else if (command == BPF_BTF_LOAD) {
		add_buffer(r, BTF, word(r, BTF_BYTES));
	} else {
		add_fd(r, word(r, INNER_MAP));
		add_fd(r, word(r, MAP_BTF));
	}
}

static int put(int parcel, const void *data, size_t size)
{
	return write(parcel, data, size) == (ssize_t)size ? 0 : -1;
}

/* A file in memory with the request. */
static int pack(const struct request *r)
{
	uint32_t head[4] = { r->command, r->attr_bytes, r->buffer_count, r->fd_count };
	int parcel = memfd_create("bpf-request", MFD_CLOEXEC), bad;

	if (parcel < 0)
		return -1;
	bad = put(parcel, head, sizeof(head)) || put(parcel, r->numbers, r->fd_count * sizeof(int)) ||
	      put(parcel, r->attr, ATTR_BYTES);
	for (uint32_t i = 0; !bad && i < r->buffer_count; i++)
		bad = put(parcel, &r->buffers[i], 2 * sizeof(uint32_t));
	for (uint32_t i = 0; !bad && i < r->buffer_count; i++)
		bad = put(parcel, r->buffers[i].data, r->buffers[i].size);
	if (bad) {
		close(parcel);
		return -1;
	}
	return parcel;
}

static int the_line(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = GATE };

	if (line >= 0 && line_of == getpid())
		return line;
	line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	line_of = getpid();
	if (line >= 0 && connect(line, (struct sockaddr *)&to, sizeof(to)) < 0) {
		close(line);
		line = -1;
	}
	return line;
}

/* Sends the request and waits: 0 and the descriptor made, or -1 where the gate doesn't answer. */
static int ask(int to, const struct request *r, int parcel, struct answer *answer, int *made)
{
	char text[4] = "make", control[CMSG_SPACE(MOST_FDS * sizeof(int))] = { 0 };
	struct iovec data = { text, sizeof(text) };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control };
	struct cmsghdr *rights;

	message.msg_controllen = CMSG_SPACE((r->fd_count + 1) * sizeof(int));
	rights = CMSG_FIRSTHDR(&message);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN((r->fd_count + 1) * sizeof(int));
	memcpy(CMSG_DATA(rights), &parcel, sizeof(int));
	memcpy(CMSG_DATA(rights) + sizeof(int), r->fds, r->fd_count * sizeof(int));
	if (sendmsg(to, &message, MSG_NOSIGNAL) < 0)
		return -1;

	data = (struct iovec){ answer, sizeof(*answer) };
	message = (struct msghdr){ .msg_iov = &data, .msg_iovlen = 1, .msg_control = control,
				   .msg_controllen = sizeof(control) };
	if (recvmsg(to, &message, MSG_CMSG_CLOEXEC) != sizeof(*answer))
		return -1;
	*made = -1;
	rights = CMSG_FIRSTHDR(&message);
	if (rights && rights->cmsg_type == SCM_RIGHTS)
		memcpy(made, CMSG_DATA(rights), sizeof(int));
	return 0;
}

/* What the kernel, or the gate, said: to where it is wanted, cut to its size. */
static void give_log(const struct request *r, int parcel, const struct answer *answer)
{
	unsigned int address_at = r->command == BPF_PROG_LOAD ? 32 : 8, size_at = r->command == BPF_PROG_LOAD ? 28 : 20;
	char *to = pointer(r, address_at);
	uint32_t size = word(r, size_at);

	if (r->command == BPF_MAP_CREATE || !to || !size || !answer->log_bytes)
		return;
	if (pread(parcel, to, size < answer->log_bytes ? size : answer->log_bytes, 0) > 0)
		to[size - 1] = '\0';
}

static long through_gate(uint32_t command, const void *attr, size_t size)
{
	static struct request r; /* under the lock: too large for a stack */
	struct answer answer = { .error = EIO };
	int parcel, to = the_line(), made = -1;

	if (to < 0)
		return next_syscall(SYS_bpf, command, attr, size);
	gather(&r, command, attr, size);
	parcel = pack(&r);
	if (parcel >= 0) {
		if (ask(to, &r, parcel, &answer, &made) == 0)
			give_log(&r, parcel, &answer);
		close(parcel);
	}
	if (r.namespace >= 0)
		close(r.namespace);
	errno = answer.error;
	return answer.error ? -1 : made;
}

long syscall(long number, ...)
{
	va_list list;
	long a[6], result;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (!next_syscall)
		find_next();
	if (number != SYS_bpf || (a[0] != BPF_MAP_CREATE && a[0] != BPF_PROG_LOAD && a[0] != BPF_BTF_LOAD) || !a[1] ||
	    access(GATE, F_OK) != 0)
		return next_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	pthread_mutex_lock(&lock);
	result = through_gate(a[0], (const void *)a[1], (unsigned int)a[2]);
	pthread_mutex_unlock(&lock);
	return result;
}
