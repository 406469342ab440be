/* SPDX-License-Identifier: BSD-2-Clause */
/* A frame as a capture hands it to the analysis: bytes, a number and a time. */
#ifndef QUENCH_ANALYZE_FRAME_H
#define QUENCH_ANALYZE_FRAME_H

#include <stdint.h>

/* What the bytes start with. */
enum analyze_link {
	FRAME_ETHERNET,
	FRAME_INFINIBAND, /* the local route header */
	FRAME_FOREIGN,	  /* a record of another kind between the others: counted, not read */
	FRAME_LINK_COUNT
};

#define FRAME_TIME_MAX_NS (1ull << 62) /* the year 2116 */

struct analyze_frame {
	uint64_t number;     /* in the capture, from 1: what findings cite */
	uint64_t time_ns;    /* since the epoch, up to FRAME_TIME_MAX_NS; need not be in order */
	const uint8_t *data; /* Ethernet: 2 bytes past a multiple of 4; InfiniBand: a multiple */
	uint32_t len;	     /* bytes at data */
	uint32_t wire_len;   /* bytes on the wire; more than len when the capture cut the frame */
	enum analyze_link link;
};

#endif
