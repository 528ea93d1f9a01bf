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

/* Devices to redirect to, by index. */
#define LAB_DEVMAP(name, entries) BPF_DEVMAP(name, entries)

#endif
