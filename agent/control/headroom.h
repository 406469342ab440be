/* SPDX-License-Identifier: BSD-2-Clause */
/* Headroom: what still arrives after a queue has asked for a pause, by quench's and others' sums.
 */
#ifndef QUENCH_HEADROOM_H
#define QUENCH_HEADROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qerr.h"

enum { HEADROOM_PARTS_MAX = 10 };

/* A link whose far end sends lossless frames to us. What a model does not take is ignored. */
struct headroom_link {
	uint64_t speed_bps;	 /* > 0 */
	uint64_t cable_mm;	 /* one way */
	uint32_t mtu_bytes;	 /* of the lossless class, without Ethernet header and tags */
	uint32_t port_mtu_bytes; /* the largest of any class at the port; 0: the model's default */
	uint32_t cell_bytes;	 /* of the switch's buffer memory; 0: the model's default */
	uint64_t reaction_ns;	 /* from the frame that crosses the mark to XOFF on the wire */
	uint64_t response_ns;	 /* the peer's, from XOFF to its last frame; 0: as 802.3 allows */
};

/* One addend; exact, if need be with a fraction. */
struct headroom_part {
	const char *what;
	double bytes;
};

/* The marks of one queue that one neighbour fills. */
struct headroom {
	struct headroom_part parts[HEADROOM_PARTS_MAX];
	size_t parts_count;
	uint64_t bytes;		   /* their sum, rounded as the model rounds */
	uint64_t xon_bytes;	   /* where XON belongs, if the model says it; 0: xon_gap_bytes */
	uint64_t xon_gap_bytes;	   /* how far below XOFF; 0: the model has no XON */
	uint64_t buffer_min_bytes; /* with less nothing is lossless */
	uint64_t buffer_bytes;	   /* with this much the queue does not run dry either */
};

/* The options of struct headroom_link that a model takes; bits. */
enum {
	HEADROOM_PORT_MTU = 1 << 0,
	HEADROOM_CELL = 1 << 1,
	HEADROOM_REACTION = 1 << 2,
	HEADROOM_RESPONSE = 1 << 3,
};

struct headroom_model {
	const char *name;
	const char *help;
	unsigned int takes;
	uint32_t port_mtu_bytes; /* the default; 0: the class's MTU */
	uint32_t cell_bytes;
	int (*compute)(const struct headroom_link *link, struct headroom *out, struct qerr *err);
};

/* The table: quench's own sum comes first, then those of others, each with its source. */
extern const struct headroom_model headroom_models[];
extern const size_t headroom_models_count;

/* The model of that name, or NULL. */
const struct headroom_model *headroom_find(const char *name);

/*
 * Work out *out. Returns 0; -EINVAL with *err saying why when the model has no figures for such a
 * link, with what it has.
 */
int headroom_compute(const struct headroom_model *model, const struct headroom_link *link,
	struct headroom *out, struct qerr *err);

/*
 * Put the marks into a buffer of that many bytes: XOFF so that the headroom fits above it, XON
 * below. *xon_bytes is 0 for a model that has none. Returns 0, or -ERANGE when buffer_bytes is
 * less than h->buffer_min_bytes.
 */
int headroom_marks(
	const struct headroom *h, uint64_t buffer_bytes, uint64_t *xoff_bytes, uint64_t *xon_bytes);

/*
 * How many pause quanta (512 bit times) a port of that speed may take to stop: IEEE 802.3 31B.3.7,
 * as SONiC's tables have it. 0 where nothing is published for the speed.
 */
uint32_t headroom_response_quanta(uint64_t speed_bps);

/* The longest frame of the MTU as our queues count it: with header and two tags, without FCS. */
uint32_t headroom_frame_bytes(uint32_t mtu_bytes);

#endif
