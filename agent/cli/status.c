// SPDX-License-Identifier: BSD-2-Clause
// quench status, events: ask the live agent, show the answer.
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "cli/answer.h"
#include "engine/instance.h"
#include "observe/control.h"

static const char status_help[] = "Show the agent's ports: role, XDP mode as the kernel reports "
				  "it, bytes queued, marks and CNPs.";
static const char events_help[] =
	"Show what happened lately: ports that went and came back, queues that were mended.";

static json_int_t total_occupancy(const json_t *port)
{
	json_t *bytes;
	const char *cls;
	json_int_t sum = 0;

	json_object_foreach (json_object_get(port, "occupancy_bytes"), cls, bytes)
		sum += json_integer_value(bytes);
	return sum;
}

/* A word for a state that lasts. */
static const char *now(const json_t *pfc, const char *key)
{
	return json_is_true(json_object_get(pfc, key)) ? "yes" : "-";
}

static bool has_news(const json_t *pfc)
{
	return number_of(pfc, "xoff_received") || number_of(pfc, "xoff_sent");
}

/* Who pauses whom, where anybody does. */
static void print_pauses(const json_t *ports)
{
	const json_t *port, *pfc;
	bool titled = false;
	size_t i, c;

	json_array_foreach (ports, i, port)
		json_array_foreach (json_object_get(port, "pfc"), c, pfc) {
			if (!has_news(pfc))
				continue;
			if (!titled)
				printf("\n%-15s %8s %10s %10s %6s %6s %10s %10s %6s\n", "pauses",
					"priority", "XOFF in", "paused s", "now", "storm",
					"XOFF out", "pausing s", "now");
			titled = true;
			printf("%-15s %8" PRId64 " %10" PRId64 " %10.3f %6s %6s %10" PRId64
			       " %10.3f %6s\n",
				text_of(port, "name"), (int64_t)number_of(pfc, "priority"),
				(int64_t)number_of(pfc, "xoff_received"),
				json_number_value(json_object_get(pfc, "paused_seconds")),
				now(pfc, "paused"), now(pfc, "storm"),
				(int64_t)number_of(pfc, "xoff_sent"),
				json_number_value(json_object_get(pfc, "pausing_seconds")),
				now(pfc, "pausing"));
		}
}

static void print_warnings(const json_t *doc)
{
	json_t *port, *warning;
	size_t i, j;

	json_array_foreach (json_object_get(doc, "ports"), i, port)
		json_array_foreach (json_object_get(port, "warnings"), j, warning)
			printf("\n%s: %s\n", text_of(port, "name"), text_of(warning, "text"));
}

static void print_status(const json_t *doc)
{
	json_t *port;
	size_t i;

	printf("instance %s, policy %s\n\n", text_of(doc, "instance"),
		text_of(json_object_get(doc, "policy"), "path"));
	printf("%-15s %-8s %-8s %10s %10s %10s %10s %10s %10s\n", "port", "role", "xdp", "queued B",
		"dropped", "CE marked", "CNP out", "CNP in", "limited");
	json_array_foreach (json_object_get(doc, "ports"), i, port)
		printf("%-15s %-8s %-8s %10" PRId64 " %10" PRId64 " %10" PRId64 " %10" PRId64
		       " %10" PRId64 " %10" PRId64 "\n",
			text_of(port, "name"), text_of(port, "role"), text_of(port, "xdp_mode"),
			(int64_t)total_occupancy(port), (int64_t)number_of(port, "dropped"),
			(int64_t)number_of(port, "ce_marked"), (int64_t)number_of(port, "cnp_sent"),
			(int64_t)number_of(port, "cnp_received"),
			(int64_t)number_of(port, "qps_limited"));
	print_pauses(json_object_get(doc, "ports"));
	print_warnings(doc);
}

static void print_events(const json_t *doc)
{
	json_t *event;
	size_t i;

	if (!json_array_size(json_object_get(doc, "events")))
		printf("nothing yet\n");
	json_array_foreach (json_object_get(doc, "events"), i, event) {
		time_t seconds = number_of(event, "time_ms") / 1000;
		char text[32];

		strftime(text, sizeof(text), "%F %T", localtime(&seconds));
		printf("%s.%03d  %s\n", text, (int)(number_of(event, "time_ms") % 1000),
			text_of(event, "text"));
	}
}

static int show(int argc, char **argv, const char *help, const char *command,
	void (*print)(const json_t *doc))
{
	struct cli_options options;
	struct instance instance;
	struct qerr err = {};
	json_t *doc;

	cli_parse(argc, argv, help, CLI_INSTANCE | CLI_JSON, &options);
	if (instance_init(&instance, options.instance, &err) ||
		control_ask(instance.socket_path, command, &doc, &err))
		return cli_fail(err.text);
	if (options.json) {
		json_dumpf(doc, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		print(doc);
	}
	json_decref(doc);
	return EXIT_OK;
}

int cli_status(int argc, char **argv)
{
	return show(argc, argv, status_help, "status", print_status);
}

int cli_events(int argc, char **argv)
{
	return show(argc, argv, events_help, "events", print_events);
}
