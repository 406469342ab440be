/* SPDX-License-Identifier: BSD-2-Clause */
/* The pause storm watchdog of one (port, priority). Pure: what it judges by is an argument. */
#ifndef QUENCH_WATCHDOG_H
#define QUENCH_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

/* What one look at the priority found. The counts never go back, or everything starts afresh. */
struct watchdog_sample {
	uint64_t now_ns;
	uint64_t backlog_bytes; /* waiting, now */
	uint64_t sent_bytes;	/* so far */
	uint64_t paused_ns;	/* so far, with a pause that is still on */
	uint64_t xoffs;		/* XOFF frames of the peer so far, obeyed or not; XON is none */
	uint64_t until_ns;	/* how far the peer's last word reaches; in the past: go on */
};

/* All zero before the first look. */
struct watchdog {
	struct watchdog_sample
		since; /* the window's first look, or the last XOFF seen in a storm */
	bool storm;
	bool forced; /* by the big red switch alone */
};

enum watchdog_change { WATCHDOG_NONE, WATCHDOG_STORM, WATCHDOG_RESTORE };

/* What is done to the priority. Unless NONE its pauses are ignored, and it pauses nobody. */
enum watchdog_mitigation { MITIGATE_NONE, MITIGATE_FORWARD, MITIGATE_DROP };

/*
 * Judge by one more look. A storm is when for detect_ns the queue was never empty, nothing left it,
 * and it was paused for 99 % of that time; however late a look comes, it judges by what was counted
 * in between. A storm is over when no XOFF has come, and none was in force, for restore_ns: that
 * does not depend on whether pauses are obeyed meanwhile. The big red switch is a storm while it is
 * on. Without a watchdog (detect_ns 0) a storm is over at once.
 */
enum watchdog_change watchdog_look(struct watchdog *w, const struct policy_watchdog *policy,
	const struct watchdog_sample *sample);

enum watchdog_mitigation watchdog_mitigation(
	const struct watchdog *w, const struct policy_watchdog *policy);

#endif
