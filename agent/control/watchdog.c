// SPDX-License-Identifier: BSD-2-Clause
// The pause storm watchdog: a window of evidence, and a time of quiet.
#include "control/watchdog.h"

/* Unpaused for more than this share of the detection time: no storm. */
#define UNPAUSED_SHARE 100

static bool goes_back(const struct watchdog_sample *from, const struct watchdog_sample *to)
{
	return to->now_ns < from->now_ns || to->sent_bytes < from->sent_bytes ||
	       to->paused_ns < from->paused_ns || to->xoffs < from->xoffs;
}

/* Nothing that left between two looks means that the queue was not empty between them either. */
static bool is_stuck(
	const struct watchdog_sample *from, const struct watchdog_sample *to, uint64_t detect_ns)
{
	uint64_t time_ns = to->now_ns - from->now_ns;
	uint64_t paused_ns = to->paused_ns - from->paused_ns;

	return from->backlog_bytes && to->backlog_bytes && to->sent_bytes == from->sent_bytes &&
	       paused_ns + detect_ns / UNPAUSED_SHARE >= time_ns;
}

static bool is_quiet(const struct watchdog_sample *from, const struct watchdog_sample *to)
{
	return to->xoffs == from->xoffs && to->until_ns <= to->now_ns;
}

static enum watchdog_change change_to(
	struct watchdog *w, const struct watchdog_sample *sample, bool storm)
{
	w->since = *sample;
	w->storm = storm;
	w->forced = false;
	return storm ? WATCHDOG_STORM : WATCHDOG_RESTORE;
}

static enum watchdog_change look_for_storm(struct watchdog *w, const struct policy_watchdog *policy,
	const struct watchdog_sample *sample)
{
	if (!policy->detect_ns || !is_stuck(&w->since, sample, policy->detect_ns))
		w->since = *sample;
	else if (sample->now_ns - w->since.now_ns >= policy->detect_ns)
		return change_to(w, sample, true);
	return WATCHDOG_NONE;
}

static enum watchdog_change look_for_quiet(struct watchdog *w, const struct policy_watchdog *policy,
	const struct watchdog_sample *sample)
{
	if (!policy->detect_ns || w->forced)
		return change_to(w, sample, false);
	if (!is_quiet(&w->since, sample))
		w->since = *sample;
	else if (sample->now_ns - w->since.now_ns >= policy->restore_ns)
		return change_to(w, sample, false);
	return WATCHDOG_NONE;
}

enum watchdog_change watchdog_look(struct watchdog *w, const struct policy_watchdog *policy,
	const struct watchdog_sample *sample)
{
	enum watchdog_change change = WATCHDOG_NONE;

	if (goes_back(&w->since, sample))
		w->since = *sample;
	if (policy->big_red_switch) {
		if (!w->storm) {
			change = change_to(w, sample, true);
			w->forced = true;
		}
		return change;
	}
	return w->storm ? look_for_quiet(w, policy, sample) : look_for_storm(w, policy, sample);
}

enum watchdog_mitigation watchdog_mitigation(
	const struct watchdog *w, const struct policy_watchdog *policy)
{
	static const enum watchdog_mitigation by_action[] = {
		[WATCHDOG_DROP] = MITIGATE_DROP,
		[WATCHDOG_FORWARD] = MITIGATE_FORWARD,
		[WATCHDOG_ALERT] = MITIGATE_NONE,
	};

	if (policy->big_red_switch)
		return MITIGATE_DROP;
	return w->storm ? by_action[policy->action] : MITIGATE_NONE;
}
