// SPDX-License-Identifier: BSD-2-Clause
// What quench headroom shows.
#include "cli/headroom_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "policy/units.h"

/* ---- text ---- */

static void print_times(const char *what, const struct rounds_times *t)
{
	printf("  %-50s %10.1f %10.1f %10.1f\n", what, t->p50_ns / 1e3, t->p99_ns / 1e3,
		t->max_ns / 1e3);
}

static void print_measured(const struct headroom_measured *m)
{
	printf("measured on this machine in %u rounds, by an agent that %s", m->rounds,
		m->realtime.poll ? "does not sleep" : "sleeps between events");
	if (m->realtime.priority)
		printf(", at priority %u", m->realtime.priority);
	printf("\n\n");
	printf("  %-50s %10s %10s %10s\n", "microseconds", "p50", "p99", "max");
	print_times("a peer's XOFF comes in, the gate is closed", &m->times.closed);
	print_times("its XON comes in, the gate is open", &m->times.opened);
	print_times("a frame passes the mark, XOFF is on the wire", &m->times.xoff);
	printf("\nIn the policy: pfc: {reaction: %s}; in that of a neighbour that is quench too, "
	       "on "
	       "such a machine: pfc: {response: %s}\n",
		units_text(UNITS_TIME, m->reaction_ns).text,
		units_text(UNITS_TIME, m->response_ns).text);
}

static void print_mark(const char *name, uint64_t bytes, const char *what)
{
	printf("%-36s %13" PRIu64 " B  %s\n", name, bytes, what);
}

static void print_marks(const struct headroom_asked *asked, const struct headroom_answer *a)
{
	char all[64];

	print_mark("headroom", a->headroom.bytes, "after XOFF this much may still come");
	if (a->xoff_bytes)
		print_mark("XOFF", a->xoff_bytes, "pause the peer at this depth");
	if (a->xon_bytes)
		print_mark("XON", a->xon_bytes, "let it go on at this one");
	snprintf(all, sizeof(all), "of the class, XOFF + headroom for %" PRIu64 " port%s",
		asked->ports, asked->ports > 1 ? "s" : "");
	print_mark("limit", a->limit_bytes, all);
}

static void print_answer(const struct headroom_asked *asked, const struct headroom_answer *a)
{
	const struct headroom *h = &a->headroom;

	printf("%s, %s of cable, MTU %" PRIu64 "; model %s: %s\n\n",
		units_text(UNITS_RATE, asked->speed_bps).text,
		units_text(UNITS_LENGTH, asked->cable_mm).text, asked->mtu_bytes,
		asked->model->name, asked->model->help);
	for (size_t i = 0; i < h->parts_count; i++)
		printf("  %-34s %15.1f B\n", h->parts[i].what, h->parts[i].bytes);
	putchar('\n');
	print_marks(asked, a);
	if (a->limit_bytes < a->ample_bytes)
		printf("\nNothing is lost, but the queue may run dry after a pause; with a limit "
		       "of "
		       "%" PRIu64 "B it would not.\n",
			a->ample_bytes);
	if (asked->model == &headroom_models[0])
		printf("\nIn the policy: limit: %" PRIu64 "B, pfc: {xoff: %" PRIu64
		       "B, xon: %" PRIu64 "B}\n",
			a->limit_bytes, a->xoff_bytes, a->xon_bytes);
}

static void print_text(const struct headroom_report *report)
{
	if (report->measured)
		print_measured(report->measured);
	if (report->measured && report->answer)
		putchar('\n');
	if (report->answer)
		print_answer(report->asked, report->answer);
}

/* ---- JSON ---- */

static json_t *times_json(const struct rounds_times *t)
{
	return json_pack("{s:I, s:I, s:I}", "p50_ns", (json_int_t)t->p50_ns, "p99_ns",
		(json_int_t)t->p99_ns, "max_ns", (json_int_t)t->max_ns);
}

static json_t *measured_json(const struct headroom_measured *m)
{
	return json_pack("{s:i, s:b, s:i, s:o, s:o, s:o, s:I, s:I}", "rounds", (int)m->rounds,
		"polls", m->realtime.poll, "priority", (int)m->realtime.priority, "gate_closed",
		times_json(&m->times.closed), "gate_opened", times_json(&m->times.opened),
		"xoff_sent", times_json(&m->times.xoff), "reaction_ns", (json_int_t)m->reaction_ns,
		"response_ns", (json_int_t)m->response_ns);
}

static json_t *parts_json(const struct headroom *h)
{
	json_t *parts = json_array();

	for (size_t i = 0; i < h->parts_count; i++)
		json_array_append_new(parts, json_pack("{s:s, s:f}", "what", h->parts[i].what,
						     "bytes", h->parts[i].bytes));
	return parts;
}

static json_t *answer_json(const struct headroom_asked *asked, const struct headroom_answer *a)
{
	return json_pack("{s:s, s:I, s:f, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:b}", "model",
		asked->model->name, "speed_bps", (json_int_t)asked->speed_bps, "cable_m",
		(double)asked->cable_mm / 1000, "mtu_bytes", (json_int_t)asked->mtu_bytes, "ports",
		(json_int_t)asked->ports, "parts", parts_json(&a->headroom), "headroom_bytes",
		(json_int_t)a->headroom.bytes, "xoff_bytes", (json_int_t)a->xoff_bytes, "xon_bytes",
		(json_int_t)a->xon_bytes, "limit_bytes", (json_int_t)a->limit_bytes, "may_run_dry",
		a->limit_bytes < a->ample_bytes);
}

static int print_json(const struct headroom_report *report)
{
	json_t *doc = report->answer ? answer_json(report->asked, report->answer) : json_object();
	int code = 0;

	if (report->measured)
		code = json_object_set_new(doc, "measured", measured_json(report->measured));
	if (!code)
		code = json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
	putchar('\n');
	json_decref(doc);
	return code;
}

int headroom_report(const struct headroom_report *report, bool json)
{
	if (json)
		return print_json(report);
	print_text(report);
	return 0;
}
