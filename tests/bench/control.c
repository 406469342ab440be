// SPDX-License-Identifier: BSD-2-Clause
// What DCQCN costs by itself: ns for each CNP, timer increase and byte-counter increase, with any
// number of QPs limited. Pure code: no kernel is asked. The QPs take their turns in a random order,
// so that each event finds its QP's state where the caches left it. As JSON on standard output.
#include <error.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "control/reaction.h"

enum {
	EVENTS_MIN = 1000000, /* of each kind that are timed */
	QPS_MAX = 10000000,
	CHANGES_MAX = 512,    /* rates in a tick, as the agent sends them */
	TICKS_EACH_ROUND = 2, /* each with one increase of every QP */
	CNPS_EACH_TICK = 20,  /* of every QP, where the two come together */
	CNP_INTERVAL_NS = 50000,
};

/* The paper's, as in the policy's defaults, at 100 Gbit/s. */
static const struct rate_params params = {
	.line_rate_bps = 100000000000,
	.min_rate_bps = 2000000,
	.g = 1.0 / 256,
	.initial_alpha = 1,
	.increase_timer_ns = 55000,
	.alpha_timer_ns = 55000,
	.byte_counter_bytes = 10000000,
	.fast_recovery = 5,
	.additive_bps = 40000000,
};
static const double step = 0.01;

struct bench {
	struct reaction *reaction;
	uint32_t qps;
	uint32_t *order; /* all QPs, shuffled */
	uint64_t now_ns; /* DCQCN's clock */
	struct rate_change changes[CHANGES_MAX];
};

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* Fisher and Yates; the same order in every run. */
static void shuffle(uint32_t *order, uint32_t n)
{
	uint64_t random = 88172645463325252ull; /* xorshift64 */

	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t other, kept = order[i - 1];

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		other = random % i;
		order[i - 1] = order[other];
		order[other] = kept;
	}
}

/* A CNP for every QP, and then the cuts that are due at once. */
static void all_cnps(struct bench *b)
{
	for (uint32_t i = 0; i < b->qps; i++)
		reaction_cnp(b->reaction, b->order[i], 0, b->now_ns);
	reaction_cuts(b->reaction, b->changes, CHANGES_MAX);
}

/* Ticks one timer period apart: in each of them every limited QP has one increase. */
static void all_timers(struct bench *b)
{
	for (int i = 0; i < TICKS_EACH_ROUND; i++) {
		b->now_ns += params.increase_timer_ns;
		reaction_tick(b->reaction, b->now_ns, b->changes, CHANGES_MAX);
	}
}

/* A tick in which every QP has had a CNP each interval: what an overloaded port comes to. */
static void all_paced(struct bench *b)
{
	for (int i = 0; i < CNPS_EACH_TICK; i++) {
		b->now_ns += CNP_INTERVAL_NS;
		for (uint32_t k = 0; k < b->qps; k++)
			reaction_cnp(b->reaction, b->order[k], 0, b->now_ns);
	}
	reaction_cuts(b->reaction, b->changes, CHANGES_MAX);
	reaction_tick(b->reaction, b->now_ns, b->changes, CHANGES_MAX);
}

/* Every QP has sent what makes one increase. */
static void all_bytes(struct bench *b)
{
	for (uint32_t i = 0; i < b->qps; i++)
		reaction_sent(b->reaction, b->order[i], 0, params.byte_counter_bytes, b->now_ns);
}

/* The kinds of events, in the order that a round has them. Each round begins with a cut: every QP
 * stays limited. */
static const struct kind {
	const char *name;
	void (*run)(struct bench *b);
	unsigned int events_each_qp;
} kinds[] = {
	{"cnp_ns", all_cnps, 1},
	{"timer_ns", all_timers, TICKS_EACH_ROUND},
	{"byte_ns", all_bytes, 1},
	{"paced_ns", all_paced, CNPS_EACH_TICK},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void run_round(struct bench *b, uint64_t took_ns[KINDS])
{
	for (int i = 0; i < KINDS; i++) {
		uint64_t started_ns = clock_ns();

		kinds[i].run(b);
		took_ns[i] += clock_ns() - started_ns;
		if (reaction_limited(b->reaction) != b->qps)
			error(1, 0, "%u of %u QPs are limited", reaction_limited(b->reaction),
				b->qps);
	}
}

static void bench_open(struct bench *b, uint32_t qps)
{
	*b = (struct bench){
		.reaction = reaction_new(qps, &params, step),
		.qps = qps,
		.order = calloc(qps, sizeof(*b->order)),
		.now_ns = 1000000000,
	};
	if (!b->reaction || !b->order)
		error(1, 0, "out of memory");
	shuffle(b->order, qps);
}

static uint32_t read_qps(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || *text == '-' || !value || value > QPS_MAX)
		error(2, 0, "'%s' is no number of QPs from 1 to %d", text, QPS_MAX);
	return value;
}

int main(int argc, char **argv)
{
	uint64_t took_ns[KINDS] = {};
	uint32_t rounds;
	struct bench b;

	if (argc != 2)
		error(2, 0, "usage: control QPS");
	bench_open(&b, read_qps(argv[1]));
	rounds = (EVENTS_MIN + b.qps - 1) / b.qps;
	run_round(&b, (uint64_t[KINDS]){}); /* memory is there from here on */
	for (uint32_t i = 0; i < rounds; i++)
		run_round(&b, took_ns);
	for (int i = 0; i < KINDS; i++)
		printf("%s\"%s\": %.2f", i ? ", " : "{", kinds[i].name,
			(double)took_ns[i] / rounds / b.qps / kinds[i].events_each_qp);
	printf(", \"bytes\": %.1f}\n", (double)reaction_bytes(b.qps) / b.qps);
	reaction_free(b.reaction);
	free(b.order);
	return 0;
}
