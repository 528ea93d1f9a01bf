/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a consumer finds out from the last ten bytes of metadata: a format that it was told of, or a foreign packet and why.
 *
 *	struct meta_generic *generic = NULL;
 *	u64 full_id = 0;
 *	u32 outcome = recognise(meta, data, &full_id, &generic);
 *
 * Every packet has one outcome and is counted once, so decoded and foreign together are all that came. Whatever the
 * outcome, the packet goes on: metadata is advice.
 */
#ifndef LAB_COMMON_RECOGNISE_H
#define LAB_COMMON_RECOGNISE_H

#include "common/meta.h"

/* Outcomes: below META_SLOTS decoded, by the format's slot; from there on foreign. */
#define FOREIGN_NONE	(META_SLOTS + 0)	/* no metadata at all */
#define FOREIGN_MAGIC	(META_SLOTS + 1)	/* somebody's bytes: no magic at their end, or no room for one */
#define FOREIGN_FORMAT	(META_SLOTS + 2)	/* of this kind, but of a format not known here: the generic fields hold */
#define FOREIGN_CUT	(META_SLOTS + 3)	/* fewer bytes than the format has: nothing holds */
#define OUTCOMES	(META_SLOTS + 4)

struct known_format {
	u32 slot;	/* to count it by, below META_SLOTS */
	u32 bytes;	/* of the whole structure */
};

/* The formats that this consumer was told of, by full id. In Python: format.full_id. */
LAB_HASH(known_formats, u64, struct known_format, 64);

/* Packets by outcome. */
LAB_PERCPU_ARRAY(outcomes, u64, OUTCOMES);

static __always_inline u32 counted(u32 outcome)
{
	u64 *packets = outcomes.lookup(&outcome);

	if (packets)
		(*packets)++;
	return outcome;
}

/*
 * The outcome for metadata between these two ends (data_meta and data of an xdp_md or __sk_buff), counted. *generic is
 * NULL where nothing of it holds; *full_id is set where there is a magic.
 */
static __always_inline u32 recognise(void *meta, void *data, u64 *full_id, struct meta_generic **generic)
{
	struct meta_id *id = meta_end(meta, data, sizeof(*id), sizeof(*id));
	struct known_format *format;

	if (!id)
		return counted(meta < data ? FOREIGN_MAGIC : FOREIGN_NONE);
	if (!meta_is_ours(id))
		return counted(FOREIGN_MAGIC);
	*full_id = meta_full_id(id);
	format = known_formats.lookup(full_id);
	if (format && data - meta < format->bytes)
		return counted(FOREIGN_CUT);
	*generic = meta_end(meta, data, sizeof(**generic), sizeof(**generic));
	if (!*generic)
		return counted(FOREIGN_CUT);
	return counted(format && format->slot < META_SLOTS ? format->slot : FOREIGN_FORMAT);
}

#endif
