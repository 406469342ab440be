/* SPDX-License-Identifier: BSD-2-Clause */
/* Link types: how a record of a capture becomes a frame. */
#ifndef QUENCH_CAPTURE_LINK_H
#define QUENCH_CAPTURE_LINK_H

#include <stddef.h>

#include "analyze/frame.h"

enum {
	LINK_RECORD_BYTES_MAX = 262144, /* libpcap's own limit for these types */
	LINK_HEADROOM_BYTES = 16,	/* for alignment and for a header put in front */
};

struct link_type {
	int number; /* LINKTYPE_ of https://www.tcpdump.org/linktypes.html */
	const char *name;
	/* room: LINK_HEADROOM_BYTES + LINK_RECORD_BYTES_MAX, aligned to 4 */
	void (*unwrap)(uint8_t *room, const uint8_t *record, struct analyze_frame *frame);
};

/* NULL for a type that is not in the table. */
const struct link_type *link_find(int number);

/* The names of all types, for a message. */
void link_names(char *buf, size_t size);

/*
 * Copy a record into room and let frame point at the frame in it. frame->len and wire_len come in
 * as the record's, and go out as the frame's. A record too short for its own header is an Ethernet
 * frame of no bytes.
 */
void link_unwrap(const struct link_type *type, uint8_t *room, const uint8_t *record,
	struct analyze_frame *frame);

#endif
