/* SPDX-License-Identifier: BSD-2-Clause */
/* iWARP: which TCP connections speak it, and what their segments hold. */
#ifndef QUENCH_ANALYZE_IWARP_H
#define QUENCH_ANALYZE_IWARP_H

#include "analyze/analyze.h"

/* Does the TCP segment belong to a connection that speaks iWARP, by its start or by its ports? */
bool iwarp_is(const struct analyze *a, const struct wire_frame *f);

/* Take in a segment of such a connection. False: there is no room for the connection. */
bool iwarp_take(struct analyze *a, const struct analyze_frame *frame, const struct wire_frame *f);

/* The name of an RDMAP opcode, below RDMAP_OPCODE_COUNT. */
const char *iwarp_opcode_name(uint32_t opcode);

#endif
