/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Maps, as the lessons declare them: thin names over BCC's macros. The name given is the map's
 * name, in C and in Python.
 *
 *	counts.lookup(&key)		pointer to the value, or NULL
 *	counts.update(&key, &value)	sets the value
 *	ports.redirect_map(index, flags)	for device, CPU and socket maps: a verdict
 */
#ifndef LAB_COMMON_MAPS_H
#define LAB_COMMON_MAPS_H

#include <uapi/linux/bpf.h>

/* One value for each index below entries, shared by all CPUs. All zero at first. */
#define LAB_ARRAY(name, type, entries) BPF_ARRAY(name, type, entries)

/*
 * One value for each index and CPU: a counter here needs no atomic operation. A value is a
 * multiple of 8 bytes.
 */
#define LAB_PERCPU_ARRAY(name, type, entries) BPF_PERCPU_ARRAY(name, type, entries)

/* Values by key, at most entries of them; empty at first. */
#define LAB_HASH(name, key, type, entries) BPF_HASH(name, key, type, entries)

/* Values by key and CPU. */
#define LAB_PERCPU_HASH(name, key, type, entries) BPF_PERCPU_HASH(name, key, type, entries)

/*
 * Where redirect_map(index, flags) can send a packet. It returns XDP_REDIRECT, and for an empty slot
 * the lower two bits of flags: 0 is XDP_ABORTED, XDP_PASS lets the packet go on to the stack.
 */

/* Devices, by index. In Python: ports[0] = host["eth0"]. */
#define LAB_DEVMAP(name, entries) BPF_DEVMAP(name, entries)

/* A device, and the program that each packet meets on its way out of it (fd 0: none). */
struct device_entry {
	u32 ifindex;
	int fd;
};

/* The same with programs, loaded for XDP_DEVMAP. In Python: ports[0] = host["eth0"], program. */
#define LAB_DEVMAP_PROGRAMS(name, entries) BPF_XDP_REDIRECT_MAP("devmap", struct device_entry, name, entries)

/* A CPU's queue, in packets, and the program that each packet meets there (fd 0: none). */
struct cpu_entry {
	u32 qsize;
	int fd;
};

/* CPUs, by their number; programs are loaded for XDP_CPUMAP. In Python: cpus[1] = 192, or 192, program. */
#define LAB_CPUMAP(name, entries) BPF_XDP_REDIRECT_MAP("cpumap", struct cpu_entry, name, entries)

/* AF_XDP sockets, by index: the number of the receive queue, as a socket takes one queue's packets only. */
#define LAB_XSKMAP(name, entries) BPF_XSKMAP(name, entries)

/* A queue of lines from the kernel to one reader, pages of memory long (a power of two). */
#define LAB_RINGBUF(name, pages) BPF_RINGBUF_OUTPUT(name, pages)

#endif
