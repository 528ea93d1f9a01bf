// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lends the sandbox's BPF token to libraries that know none, as libbcc does.
 *
 * Loaded before them (LD_PRELOAD), it takes the place of syscall(2) and passes every call on. To the three commands of
 * bpf(2) that make something, and name no token themselves, it adds one. Outside a sandbox there is no token to be
 * had, and nothing changes. env/setup.sh builds it; labkit's own calls don't need it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By number, as the headers may be older than the kernel: include/uapi/linux/bpf.h of Linux 6.9. */
#define TOKEN_CREATE 36
#define TOKEN_FD (1U << 16)
#define ATTR_BYTES 512

static long (*next_syscall)(long, ...);
static int token = -2; /* -2: not asked for yet; -1: there is none */

/* Where a command's attributes hold its flags and the token's descriptor, in bytes from their start. */
struct place {
	long command;
	unsigned int flags;
	unsigned int token;
};

static const struct place places[] = {
	{ BPF_MAP_CREATE, 16, 76 },
	{ BPF_PROG_LOAD, 44, 144 },
	{ BPF_BTF_LOAD, 32, 36 },
};

__attribute__((constructor)) static void find_next(void)
{
	next_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
}

static const struct place *place_of(long command)
{
	for (unsigned int i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (places[i].command == command)
			return &places[i];
	return NULL;
}

static int make_token(void)
{
	uint32_t attr[2] = { 0, 0 }; /* flags, descriptor of the bpffs */
	int mount = open("/sys/fs/bpf", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int made;

	if (mount < 0)
		return -1;
	attr[1] = mount;
	made = next_syscall(SYS_bpf, TOKEN_CREATE, attr, sizeof(attr));
	close(mount);
	return made;
}

/* The token of this process. Whoever closes all descriptors, as daemons do, gets another. */
static int the_token(void)
{
	int kept = errno;

	if (token == -2 || (token >= 0 && fcntl(token, F_GETFD) < 0))
		token = make_token();
	errno = kept;
	return token;
}

static long with_token(const struct place *place, long command, const void *attr, size_t size)
{
	unsigned char copy[ATTR_BYTES] = { 0 };
	size_t needed = place->token + sizeof(int);
	uint32_t flags;
	int fd;

	memcpy(copy, attr, size);
	memcpy(&flags, copy + place->flags, sizeof(flags));
	fd = flags & TOKEN_FD ? -1 : the_token();
	if (fd < 0)
		return next_syscall(SYS_bpf, command, attr, size);
	flags |= TOKEN_FD;
	memcpy(copy + place->flags, &flags, sizeof(flags));
	memcpy(copy + place->token, &fd, sizeof(fd));
	return next_syscall(SYS_bpf, command, copy, size > needed ? size : needed);
}

long syscall(long number, ...)
{
	const struct place *place;
	va_list list;
	long a[6];

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (!next_syscall)
		find_next();
	place = number == SYS_bpf ? place_of((int)a[0]) : NULL;
	if (place && a[1] && (unsigned int)a[2] <= ATTR_BYTES)
		return with_token(place, a[0], (const void *)a[1], (unsigned int)a[2]);
	return next_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
