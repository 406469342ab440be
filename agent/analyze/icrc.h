/* SPDX-License-Identifier: BSD-2-Clause */
/* The invariant CRC of captured frames, at the speed of captures. */
#ifndef QUENCH_ANALYZE_ICRC_H
#define QUENCH_ANALYZE_ICRC_H

#include "analyze/frame.h"
#include "quench/wire.h"

/* The names are those of the CSV column. */
#define ICRC_VERDICTS(X)                                                                           \
	X(NONE, "none") /* the frame is of a kind that carries none */                             \
	X(OK, "ok")                                                                                \
	X(BAD, "bad")                                                                              \
	X(UNVERIFIABLE, "unverifiable") /* the frame ends before its ICRC does */

enum icrc_verdict {
#define X(id, name) ICRC_##id,
	ICRC_VERDICTS(X)
#undef X
		ICRC_VERDICT_COUNT
};

/* Judge a parsed frame of a kind that carries an ICRC (IBTA vol. 1, 7.8.1; annex 17). */
enum icrc_verdict icrc_judge(const struct analyze_frame *frame, const struct wire_frame *f);

#endif
