// SPDX-License-Identifier: BSD-2-Clause
// A plan as text or as JSON.
#include "cli/plan_report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACTIONS = PLAN_BLOCKED + 1 };

static const struct {
	char sign;
	const char *name;
} actions[ACTIONS] = {
	[PLAN_CREATE] = {'+', "create"},
	[PLAN_CHANGE] = {'~', "change"},
	[PLAN_DELETE] = {'-', "delete"},
	[PLAN_BLOCKED] = {'!', "blocked"},
};

struct plan_report {
	json_t *ports; /* NULL: text */
	size_t counts[ACTIONS], warnings;
	bool incomplete;
};

struct plan_report *plan_report_open(bool json)
{
	struct plan_report *report = calloc(1, sizeof(*report));

	if (report && json)
		report->ports = json_array();
	return report;
}

/* ---- text ---- */

static void print_step(const struct plan_step *step, size_t alike)
{
	bool values = *step->from || *step->to;

	printf("  %c %s", actions[step->action].sign, step->name);
	if (alike)
		printf(" and %zu more", alike);
	else if (*step->place)
		printf(" %s", step->place);
	printf("%s%s%s%s\n", values && *step->name ? ", " : "", step->from,
		*step->from && *step->to ? " -> " : "", step->to);
}

/* Leaves are many and mostly one like the other. */
static bool is_alike(const struct plan_step *a, const struct plan_step *b)
{
	return a->leaf && b->leaf && a->action == b->action && !strcmp(a->kind, b->kind) &&
	       !strcmp(a->from, b->from) && !strcmp(a->to, b->to);
}

static bool was_seen(const struct plan *plan, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (is_alike(&plan->steps[j], &plan->steps[i]))
			return true;
	return false;
}

static void print_steps(const struct plan *plan)
{
	for (size_t i = 0; i < plan->steps_count; i++) {
		size_t alike = 0;

		if (plan->steps[i].leaf && was_seen(plan, i))
			continue;
		for (size_t j = i + 1; plan->steps[i].leaf && j < plan->steps_count; j++)
			alike += is_alike(&plan->steps[i], &plan->steps[j]);
		print_step(&plan->steps[i], alike);
	}
}

static void print_port(const char *name, const char *role, const struct plan *plan)
{
	printf("%s (%s)%s\n", name, role, plan->steps_count ? "" : ": nothing to do");
	print_steps(plan);
	for (size_t i = 0; i < plan->warnings_count; i++)
		printf("  warning: %s\n", plan->warnings[i].text);
}

static void print_sum(const struct plan_report *report)
{
	const size_t *counts = report->counts;

	printf("\n%zu to create, %zu to change, %zu to delete", counts[PLAN_CREATE],
		counts[PLAN_CHANGE], counts[PLAN_DELETE]);
	if (report->warnings)
		printf(", %zu warning%s", report->warnings, report->warnings > 1 ? "s" : "");
	if (counts[PLAN_BLOCKED])
		printf("; cannot be applied, %zu in the way", counts[PLAN_BLOCKED]);
	putchar('\n');
}

/* ---- JSON ---- */

static json_t *step_json(const struct plan_step *step)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "action", actions[step->action].name,
		"kind", step->kind, "object", step->name, "place", step->place, "from", step->from,
		"to", step->to);
}

static json_t *port_json(const char *name, const char *role, const struct plan *plan)
{
	json_t *steps = json_array(), *warnings = json_array();

	for (size_t i = 0; i < plan->steps_count; i++)
		json_array_append_new(steps, step_json(&plan->steps[i]));
	for (size_t i = 0; i < plan->warnings_count; i++)
		json_array_append_new(
			warnings, json_pack("{s:s, s:s}", "code", plan->warnings[i].code, "text",
					  plan->warnings[i].text));
	return json_pack("{s:s, s:s, s:o, s:o}", "name", name, "role", role, "steps", steps,
		"warnings", warnings);
}

static void print_json(const struct plan_report *report)
{
	json_t *doc = json_pack(
		"{s:b, s:O}", "possible", !report->counts[PLAN_BLOCKED], "ports", report->ports);

	for (int i = 0; i < ACTIONS; i++)
		json_object_set_new(
			doc, actions[i].name, json_integer((json_int_t)report->counts[i]));
	json_dumpf(doc, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(doc);
}

void plan_report_port(
	struct plan_report *report, const char *name, const char *role, const struct plan *plan)
{
	for (int i = 0; i < ACTIONS; i++)
		report->counts[i] += plan_count(plan, (enum plan_action)i);
	report->warnings += plan->warnings_count;
	report->incomplete |= plan->code != 0;
	if (report->ports)
		json_array_append_new(report->ports, port_json(name, role, plan));
	else
		print_port(name, role, plan);
}

bool plan_report_close(struct plan_report *report, bool show)
{
	bool blocked;

	if (!report)
		return false;
	blocked = report->counts[PLAN_BLOCKED] || report->incomplete;
	if (show && report->ports)
		print_json(report);
	else if (show)
		print_sum(report);
	if (report->incomplete)
		fprintf(stderr, "quench: out of memory: the plan is not complete\n");
	json_decref(report->ports);
	free(report);
	return blocked;
}
