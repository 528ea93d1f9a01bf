/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A note in front of a packet: what bpf/meta_write.c leaves there and bpf/meta_read.c looks for. Metadata has no types
 * and no names: whoever writes it and whoever reads it must agree, and this header is how they do.
 */
#ifndef LAB_COMMON_NOTE_H
#define LAB_COMMON_NOTE_H

#include "common/maps.h"

/* Eight bytes: the kernel wants a multiple of four. In host byte order, as it never leaves the host. */
struct note {
	u32 mark;	/* what the writer thinks of the packet */
	u32 number;	/* 0, 1, 2 … in the order they were written */
};

#endif
