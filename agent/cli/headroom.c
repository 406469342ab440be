// SPDX-License-Identifier: BSD-2-Clause
// quench headroom: what a queue must still hold after XOFF, and where the marks belong.
#include "cli/cli.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/headroom.h"
#include "policy/text.h"
#include "policy/units.h"

static const char help[] =
	"Work out the headroom of a lossless queue: what still arrives after it has sent XOFF, and "
	"with that the XOFF and XON marks. Each part of the sum is shown.\v"
	"Without --limit the buffer is the smallest that neither overflows nor runs dry between "
	"two pauses. --reaction is the time from the frame that crosses the mark to XOFF on the "
	"wire, --response that from XOFF to the peer's last frame: for a peer whose PFC is "
	"hardware it follows from the speed.\n\n"
	"Exit status: 0 done, 1 the marks do not fit into --limit, 2 usage.\n\n"
	"Models:";

#define DEFAULT_REACTION_NS 500000

struct options {
	uint64_t speed_bps, cable_mm, mtu_bytes, port_mtu_bytes, cell_bytes;
	uint64_t reaction_ns, response_ns, limit_bytes, ports;
	const struct headroom_model *model;
	unsigned int given; /* bit n: number_rows[n] was */
	bool json;
};

enum {
	KEY_SPEED = 's',
	KEY_CABLE = 'c',
	KEY_MTU = 'm',
	KEY_PORT_MTU = 256,
	KEY_CELL,
	KEY_REACTION,
	KEY_RESPONSE,
	KEY_LIMIT,
	KEY_PORTS,
	KEY_MODEL,
};

static const struct argp_option option_rows[] = {
	{"speed", KEY_SPEED, "RATE", 0, "of the link: 100G, 200Mbit", 0},
	{"cable", KEY_CABLE, "LENGTH", 0, "of the link: 40m, 2km", 0},
	{"mtu", KEY_MTU, "BYTES", 0, "the largest packet of the lossless class", 0},
	{"port-mtu", KEY_PORT_MTU, "BYTES", 0,
		"the largest of any class at the port (default: as the model says)", 0},
	{"reaction", KEY_REACTION, "TIME", 0, "quench's own (default 500us)", 0},
	{"response", KEY_RESPONSE, "TIME", 0, "the peer's (default: what 802.3 allows at RATE)", 0},
	{"limit", KEY_LIMIT, "SIZE", 0, "what the class may hold: put the marks into that", 0},
	{"ports", KEY_PORTS, "N", 0, "ports that fill it, each with its own queue (default 1)", 0},
	{"cell", KEY_CELL, "BYTES", 0, "of the switch's memory (default: as the model says)", 0},
	{"model", KEY_MODEL, "NAME", 0, "whose sum (default quench), see below", 0},
	{"json", 'j', NULL, 0, "one JSON document on stdout, nothing else there", 0},
	{},
};

#define AT(member) offsetof(struct options, member)

/* The options that are numbers, and which models take them. */
static const struct number_row {
	int key;
	enum units_kind kind;
	uint64_t min, max;
	size_t at;
	unsigned int takes; /* HEADROOM_*; 0: every model */
	bool required;
} number_rows[] = {
	{KEY_SPEED, UNITS_RATE, 1000000, 1600000000000, AT(speed_bps), 0, true},
	{KEY_CABLE, UNITS_LENGTH, 0, 100000000, AT(cable_mm), 0, true},
	{KEY_MTU, UNITS_COUNT, 64, 65535, AT(mtu_bytes), 0, true},
	{KEY_PORT_MTU, UNITS_COUNT, 64, 65535, AT(port_mtu_bytes), HEADROOM_PORT_MTU, false},
	{KEY_CELL, UNITS_COUNT, 32, 1024, AT(cell_bytes), HEADROOM_CELL, false},
	{KEY_REACTION, UNITS_TIME, 1, 1000000000, AT(reaction_ns), HEADROOM_REACTION, false},
	{KEY_RESPONSE, UNITS_TIME, 1, 1000000000, AT(response_ns), HEADROOM_RESPONSE, false},
	{KEY_LIMIT, UNITS_SIZE, 2000, 1 << 30, AT(limit_bytes), 0, false},
	{KEY_PORTS, UNITS_COUNT, 1, 62, AT(ports), 0, false},
};

enum { NUMBERS = sizeof(number_rows) / sizeof(number_rows[0]) };

static const char *option_name(int key)
{
	size_t i = 0;

	while (option_rows[i].key != key)
		i++;
	return option_rows[i].name;
}

/* Link speeds are written 100G as often as 100Gbit. */
static void spell_rate(const char *text, char *buf, size_t size)
{
	size_t len = strlen(text);
	bool is_short = len && strchr("kMGT", text[len - 1]);

	snprintf(buf, size, "%s%s", text, is_short ? "bit" : "");
}

static void read_number(struct argp_state *state, size_t row, const char *text)
{
	const struct number_row *r = &number_rows[row];
	struct options *o = state->input;
	uint64_t value = 0;
	struct qerr err = {};
	char whole[64];

	spell_rate(text, whole, sizeof(whole));
	if (!units_parse_u64(r->kind, r->kind == UNITS_RATE ? whole : text, &value, &err) &&
		(value < r->min || value > r->max))
		qerr_set(&err, 0, "%s is out of range", text_quote(text).text);
	if (err.text[0])
		argp_error(state, "--%s: %s; allowed %s to %s", option_name(r->key), err.text,
			units_text(r->kind, r->min).text, units_text(r->kind, r->max).text);
	memcpy((char *)o + r->at, &value, sizeof(value));
	o->given |= 1u << row;
}

static void read_model(struct argp_state *state, const char *text)
{
	struct options *o = state->input;
	char names[128] = "";

	o->model = headroom_find(text);
	for (size_t i = 0; i < headroom_models_count; i++)
		text_join(names, sizeof(names), headroom_models[i].name,
			headroom_models_count - 1 - i);
	if (!o->model)
		argp_error(state, "--model: %s is none of the models; allowed %s",
			text_quote(text).text, names);
}

static void check_options(struct argp_state *state, const struct options *o)
{
	for (size_t i = 0; i < NUMBERS; i++) {
		const struct number_row *row = &number_rows[i];
		bool given = o->given & 1u << i;

		if (row->required && !given)
			argp_error(state, "--%s is missing", option_name(row->key));
		if (row->takes && given && !(row->takes & o->model->takes))
			argp_error(state, "--%s: the model %s does not take it",
				option_name(row->key), o->model->name);
	}
	if (o->port_mtu_bytes && o->port_mtu_bytes < o->mtu_bytes)
		argp_error(state,
			"--port-mtu: %" PRIu64 " is less than --mtu; allowed %" PRIu64 " to 65535",
			o->port_mtu_bytes, o->mtu_bytes);
}

static error_t read_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	for (size_t i = 0; i < NUMBERS; i++)
		if (number_rows[i].key == key) {
			read_number(state, i, arg);
			return 0;
		}
	switch (key) {
	case KEY_MODEL:
		read_model(state, arg);
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument %s", text_quote(arg).text);
		return 0;
	case ARGP_KEY_END:
		check_options(state, o);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* The models stand behind the rest of the help. */
static char *filter_help(int key, const char *text, void *input)
{
	char *out = NULL;
	size_t size;
	FILE *file;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	file = open_memstream(&out, &size);
	if (!file)
		return (char *)text;
	fputs(text, file);
	for (size_t i = 0; i < headroom_models_count; i++)
		fprintf(file, "\n  %-12s %s", headroom_models[i].name, headroom_models[i].help);
	fclose(file);
	return out;
}

static void read_options(int argc, char **argv, struct options *o)
{
	static char name[] = "quench headroom";
	const struct argp argp = {
		.options = option_rows,
		.parser = read_option,
		.args_doc = "--speed RATE --cable LENGTH --mtu BYTES",
		.doc = help,
		.help_filter = filter_help,
	};

	*o = (struct options){
		.reaction_ns = DEFAULT_REACTION_NS, .ports = 1, .model = &headroom_models[0]};
	argv[0] = name;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, o);
}

/* What was asked, and the answer. */
struct answer {
	const struct options *options;
	struct headroom headroom;
	uint64_t limit_bytes; /* of the class, for all ports */
	uint64_t xoff_bytes, xon_bytes;
	bool runs_dry; /* the limit is too tight for that */
};

static int work_out(struct answer *a, struct qerr *err)
{
	const struct options *o = a->options;
	const struct headroom_link link = {
		.speed_bps = o->speed_bps,
		.cable_mm = o->cable_mm,
		.mtu_bytes = o->mtu_bytes,
		.port_mtu_bytes = o->port_mtu_bytes,
		.cell_bytes = o->cell_bytes,
		.reaction_ns = o->reaction_ns,
		.response_ns = o->response_ns,
	};
	const struct headroom *h = &a->headroom;
	int code = headroom_compute(o->model, &link, &a->headroom, err);

	if (code)
		return qerr_prefix(err, code, "--model %s", o->model->name);
	a->limit_bytes = o->limit_bytes ? o->limit_bytes : h->buffer_bytes * o->ports;
	a->runs_dry = a->limit_bytes / o->ports < h->buffer_bytes;
	code = headroom_marks(h, a->limit_bytes / o->ports, &a->xoff_bytes, &a->xon_bytes);
	if (code)
		return qerr_set(err, code,
			"--limit: %s is too little for %" PRIu64 " port%s with %" PRIu64
			"B of headroom each; allowed %" PRIu64 "B or more",
			units_text(UNITS_SIZE, a->limit_bytes).text, o->ports,
			o->ports > 1 ? "s" : "", h->bytes, h->buffer_min_bytes * o->ports);
	return 0;
}

static void print_mark(const char *name, uint64_t bytes, const char *what)
{
	printf("%-36s %13" PRIu64 " B  %s\n", name, bytes, what);
}

static void print_marks(const struct answer *a)
{
	const struct options *o = a->options;
	char all[64];

	print_mark("headroom", a->headroom.bytes, "after XOFF this much may still come");
	if (a->xoff_bytes)
		print_mark("XOFF", a->xoff_bytes, "pause the peer at this depth");
	if (a->xon_bytes)
		print_mark("XON", a->xon_bytes, "let it go on at this one");
	snprintf(all, sizeof(all), "of the class, XOFF + headroom for %" PRIu64 " port%s", o->ports,
		o->ports > 1 ? "s" : "");
	print_mark("limit", a->limit_bytes, all);
}

static void print_text(const struct answer *a)
{
	const struct options *o = a->options;
	const struct headroom *h = &a->headroom;

	printf("%s, %s of cable, MTU %" PRIu64 "; model %s: %s\n\n",
		units_text(UNITS_RATE, o->speed_bps).text,
		units_text(UNITS_LENGTH, o->cable_mm).text, o->mtu_bytes, o->model->name,
		o->model->help);
	for (size_t i = 0; i < h->parts_count; i++)
		printf("  %-34s %15.1f B\n", h->parts[i].what, h->parts[i].bytes);
	putchar('\n');
	print_marks(a);
	if (a->runs_dry)
		printf("\nNothing is lost, but the queue may run dry after a pause; with a limit "
		       "of "
		       "%" PRIu64 "B it would not.\n",
			h->buffer_bytes * o->ports);
	if (o->model == &headroom_models[0])
		printf("\nIn the policy: limit: %" PRIu64 "B, pfc: {xoff: %" PRIu64
		       "B, xon: %" PRIu64 "B}\n",
			a->limit_bytes, a->xoff_bytes, a->xon_bytes);
}

static json_t *parts_json(const struct headroom *h)
{
	json_t *parts = json_array();

	for (size_t i = 0; i < h->parts_count; i++)
		json_array_append_new(parts, json_pack("{s:s, s:f}", "what", h->parts[i].what,
						     "bytes", h->parts[i].bytes));
	return parts;
}

static int print_json(const struct answer *a)
{
	const struct options *o = a->options;
	json_t *doc = json_pack("{s:s, s:I, s:f, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:b}", "model",
		o->model->name, "speed_bps", (json_int_t)o->speed_bps, "cable_m",
		(double)o->cable_mm / 1000, "mtu_bytes", (json_int_t)o->mtu_bytes, "ports",
		(json_int_t)o->ports, "parts", parts_json(&a->headroom), "headroom_bytes",
		(json_int_t)a->headroom.bytes, "xoff_bytes", (json_int_t)a->xoff_bytes, "xon_bytes",
		(json_int_t)a->xon_bytes, "limit_bytes", (json_int_t)a->limit_bytes, "may_run_dry",
		a->runs_dry);
	int code = doc ? json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : -1;

	putchar('\n');
	json_decref(doc);
	return code;
}

int cli_headroom(int argc, char **argv)
{
	struct options options;
	struct answer answer = {.options = &options};
	struct qerr err = {};
	int code = 0;

	read_options(argc, argv, &options);
	if (work_out(&answer, &err))
		return cli_fail(err.text);
	if (options.json)
		code = print_json(&answer);
	else
		print_text(&answer);
	if (code || fflush(stdout))
		return cli_fail("the answer cannot be written");
	return EXIT_OK;
}
