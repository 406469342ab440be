// SPDX-License-Identifier: BSD-2-Clause
// The rate control in a closed loop: N senders, one bottleneck, packet by packet, against the fixed
// point of the fluid model (tests/oracle/test_fluid.py solves it).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "control/rate_presets.h"

enum {
	SENDERS_MAX = 10,
	PACKET_BYTES = 1000,
	SLOT_NS = 200, /* a packet at 40 Gbit/s */
	DELAY_NS = 4000,
	CNP_INTERVAL_NS = 50000,
	KMIN_BYTES = 5000,
	KMAX_BYTES = 200000,
	QUEUE_MAX = 4096, /* packets */
	MEASURE_AFTER_NS = 300000000,

};
#define PMAX	 0.01
#define END_NS	 3000000000ull
#define LINE_BPS 40000000000ull

struct sender {
	struct rate_ctl control;
	double next_ns;	    /* when it sends its next packet */
	uint64_t marked_ns; /* when a packet of it last caused a CNP */
	uint64_t cnp_ns;    /* when that arrives; UINT64_MAX: it has */
	uint64_t delivered; /* packets, while measuring */
};

struct loop {
	struct rate_params params;
	struct sender sender[SENDERS_MAX];
	unsigned int senders;
	uint8_t queue[QUEUE_MAX]; /* whose packet it is */
	uint32_t head, tail;
	uint64_t seed;
	double queue_sum;
	uint64_t slots;
};

static double random_share(struct loop *l)
{
	l->seed = l->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(l->seed >> 11) / (double)(1ull << 53);
}

static uint32_t depth_bytes(const struct loop *l)
{
	return (l->tail - l->head) * PACKET_BYTES;
}

static void loop_open(struct loop *l, unsigned int senders)
{
	memset(l, 0, sizeof(*l));
	l->params = rate_preset(RATE_PRESET_SIGCOMM15, NULL);
	l->params.line_rate_bps = LINE_BPS;
	l->senders = senders;
	l->seed = senders;
	for (unsigned int i = 0; i < senders; i++) {
		rate_ctl_init(&l->sender[i].control, &l->params);
		l->sender[i].next_ns = random_share(l) * SLOT_NS;
		l->sender[i].cnp_ns = UINT64_MAX;
	}
}

/* What this sender does up to now: obey a CNP, recover, send at its rate. */
static void send_packets(struct loop *l, unsigned int i, uint64_t now)
{
	struct sender *s = &l->sender[i];

	if (s->cnp_ns <= now) {
		rate_ctl_cnp(&s->control, &l->params, s->cnp_ns);
		s->cnp_ns = UINT64_MAX;
	}
	rate_ctl_advance(&s->control, &l->params, now);
	for (; s->next_ns <= (double)now; s->next_ns += PACKET_BYTES * 8e9 / s->control.rate_bps) {
		assert_true(l->tail - l->head < QUEUE_MAX);
		l->queue[l->tail++ % QUEUE_MAX] = i;
		rate_ctl_sent(&s->control, &l->params, PACKET_BYTES, now);
	}
}

static bool is_marked(struct loop *l)
{
	double depth = depth_bytes(l);

	if (depth > KMAX_BYTES)
		return true;
	return random_share(l) < (depth - KMIN_BYTES) / (KMAX_BYTES - KMIN_BYTES) * PMAX;
}

/* A packet leaves, is marked as it does, and reaches a receiver that sends CNPs. */
static void deliver_packet(struct loop *l, uint64_t now, bool measure)
{
	struct sender *s;

	if (l->head == l->tail)
		return;
	s = &l->sender[l->queue[l->head % QUEUE_MAX]];
	s->delivered += measure;
	if (is_marked(l) && (!s->marked_ns || now - s->marked_ns >= CNP_INTERVAL_NS)) {
		s->marked_ns = now;
		s->cnp_ns = now + DELAY_NS;
	}
	l->head++;
}

static void loop_run(struct loop *l)
{
	for (uint64_t now = SLOT_NS; now < END_NS; now += SLOT_NS) {
		bool measure = now >= MEASURE_AFTER_NS;

		for (unsigned int i = 0; i < l->senders; i++)
			send_packets(l, i, now);
		deliver_packet(l, now, measure);
		l->queue_sum += measure ? depth_bytes(l) : 0;
		l->slots += measure;
	}
}

static double jain(const struct loop *l)
{
	double sum = 0, squares = 0;

	for (unsigned int i = 0; i < l->senders; i++) {
		double x = l->sender[i].delivered;

		sum += x;
		squares += x * x;
	}
	return sum * sum / (squares * l->senders);
}

static void senders_share_the_line_as_the_fluid_model_says(void **state)
{
	static const struct {
		unsigned int senders;
		double queue_kb; /* of the fluid model */
	} cases[] = {{2, 20.151}, {4, 41.809}, {8, 93.766}, {10, 122.623}};
	static struct loop l;
	double before_kb = 0;

	(void)state;
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		double queue_kb;

		loop_open(&l, cases[k].senders);
		loop_run(&l);
		queue_kb = l.queue_sum / (double)l.slots / 1000;
		print_message("%u senders: queue %.1f KB (fluid %.1f), Jain %.5f\n",
			cases[k].senders, queue_kb, cases[k].queue_kb, jain(&l));
		for (unsigned int i = 0; i < l.senders; i++) {
			double share = (double)l.sender[i].delivered * l.senders / (double)l.slots;

			if (fabs(share - 1) > 0.03)
				fail_msg("sender %u of %u has %.3f of its share", i, l.senders,
					share);
		}
		assert_true(jain(&l) >= 0.999);
		assert_true(queue_kb > cases[k].queue_kb && queue_kb < 1.4 * cases[k].queue_kb);
		assert_true(queue_kb > before_kb);
		before_kb = queue_kb;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(senders_share_the_line_as_the_fluid_model_says),
	};

	return cmocka_run_group_tests_name("closed_loop", tests, NULL, NULL);
}
