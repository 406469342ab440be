// SPDX-License-Identifier: BSD-2-Clause
// How long XOFF holds: from the first one to its XON, or to when the last renewal runs out.
#include "analyze/pause.h"

#define QUANTUM_1G_PS 512000u

static uint64_t since(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Up to now the row was paused, if at all, until its last renewal ran out. */
static void settle(struct pause_row *row, uint64_t now_ns, bool speed_known)
{
	uint64_t until_ns = earlier(now_ns, row->until_ns);
	uint64_t held_ns;

	if (!row->holds)
		return;
	if (speed_known)
		row->paused_ns += since(row->last_ns, until_ns);
	/* without a speed only what a renewal or XON proves */
	held_ns = since(
		row->begin_ns, now_ns <= row->until_ns || speed_known ? until_ns : row->last_ns);
	if (held_ns > row->longest_ns)
		row->longest_ns = held_ns;
}

static void xon(struct pause_row *row, uint64_t now_ns, bool speed_known)
{
	row->xon++;
	settle(row, now_ns, speed_known);
	row->holds = 0;
	row->storm = 0;
}

/* Returns how long XOFF has held if that has just become a storm, else 0. */
static uint64_t xoff(struct pause_row *row, uint64_t now_ns, uint64_t pause_ns, bool speed_known)
{
	uint64_t held_ns;

	row->xoff++;
	settle(row, now_ns, speed_known);
	if (!row->holds || now_ns > row->until_ns) {
		row->begin_ns = now_ns;
		row->storm = 0;
	}
	row->holds = 1;
	row->last_ns = now_ns;
	row->until_ns = now_ns + pause_ns;
	held_ns = since(row->begin_ns, now_ns);
	if (row->storm || held_ns < PAUSE_STORM_NS)
		return 0;
	row->storm = 1;
	return held_ns;
}

static void take_row(struct pause_row *row, uint16_t quanta, uint64_t now_ns, uint64_t quantum_ps,
	struct pause_effect *effect)
{
	uint64_t pause_ns = quanta * (quantum_ps ? quantum_ps : QUANTUM_1G_PS) / 1000;
	uint64_t held_ns;

	if (!quanta) {
		xon(row, now_ns, quantum_ps);
		return;
	}
	effect->xoffs++;
	held_ns = xoff(row, now_ns, pause_ns, quantum_ps);
	if (held_ns)
		effect->storms++;
	if (held_ns > effect->held_ns)
		effect->held_ns = held_ns;
}

struct pause_effect pause_take(struct pauser *p, const struct wire_mac_control *m, bool pfc,
	uint64_t now_ns, uint64_t quantum_ps)
{
	uint16_t classes = WIRE_NTOHS(m->classes);
	struct pause_effect effect = {};

	if (!pfc) {
		p->link_frames++;
		take_row(&p->row[PAUSE_LINK], classes, now_ns, quantum_ps, &effect);
		return effect;
	}
	p->pfc_frames++;
	for (int i = 0; i < PAUSE_PRIORITIES; i++)
		if (classes >> i & 1)
			take_row(&p->row[i], WIRE_NTOHS(m->time[i]), now_ns, quantum_ps, &effect);
	return effect;
}

void pause_finish(struct pauser *p, uint64_t now_ns, uint64_t quantum_ps)
{
	for (int i = 0; i < PAUSE_ROWS; i++)
		settle(&p->row[i], now_ns, quantum_ps);
}
