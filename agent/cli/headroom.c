// SPDX-License-Identifier: BSD-2-Clause
// quench headroom: what a queue must still hold after XOFF, and where the marks belong.
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/headroom_report.h"
#include "measure/rounds.h"
#include "policy/text.h"
#include "policy/units.h"

static const char help[] =
	"Work out the headroom of a lossless queue: what still arrives after it has sent XOFF, and "
	"with that the XOFF and XON marks. Each part of the sum is shown.\v"
	"Without --limit the buffer is the smallest that neither overflows nor runs dry between "
	"two pauses. --reaction is the time from the frame that crosses the mark to XOFF on the "
	"wire, --response that from XOFF to the peer's last frame: for a peer whose PFC is "
	"hardware it follows from the speed. --measure finds the first on this machine, with an "
	"agent and links in namespaces of its own: run it beside the load that you expect. Its "
	"slowest time is the reaction, unless --reaction is given.\n\n"
	"Exit status: 0 done, 1 failed, or the marks do not fit into --limit, 2 usage.\n\n"
	"Models:";

#define DEFAULT_REACTION_NS 500000
#define DEFAULT_ROUNDS	    1000

struct options {
	struct headroom_asked asked;
	uint64_t rounds, priority;
	unsigned int given; /* bit n: number_rows[n] was */
	bool measure, polls, json;
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
	KEY_MEASURE,
	KEY_ROUNDS,
	KEY_POLL,
	KEY_PRIORITY,
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
	{"measure", KEY_MEASURE, NULL, 0, "measure how fast quench is on this machine", 0},
	{"rounds", KEY_ROUNDS, "N", 0, "measure N times (default 1000)", 0},
	{"poll", KEY_POLL, NULL, 0, "measure an agent that does not sleep (realtime.poll)", 0},
	{"priority", KEY_PRIORITY, "N", 0, "measure one with that priority (realtime.priority)", 0},
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
	{KEY_SPEED, UNITS_RATE, 1000000, 1600000000000, AT(asked.speed_bps), 0, true},
	{KEY_CABLE, UNITS_LENGTH, 0, 100000000, AT(asked.cable_mm), 0, true},
	{KEY_MTU, UNITS_COUNT, 64, 65535, AT(asked.mtu_bytes), 0, true},
	{KEY_PORT_MTU, UNITS_COUNT, 64, 65535, AT(asked.port_mtu_bytes), HEADROOM_PORT_MTU, false},
	{KEY_CELL, UNITS_COUNT, 32, 1024, AT(asked.cell_bytes), HEADROOM_CELL, false},
	{KEY_REACTION, UNITS_TIME, 1, 1000000000, AT(asked.reaction_ns), HEADROOM_REACTION, false},
	{KEY_RESPONSE, UNITS_TIME, 1, 1000000000, AT(asked.response_ns), HEADROOM_RESPONSE, false},
	{KEY_LIMIT, UNITS_SIZE, 2000, 1 << 30, AT(asked.limit_bytes), 0, false},
	{KEY_PORTS, UNITS_COUNT, 1, 62, AT(asked.ports), 0, false},
	{KEY_ROUNDS, UNITS_COUNT, 10, ROUNDS_MAX, AT(rounds), 0, false},
	{KEY_PRIORITY, UNITS_COUNT, 1, 99, AT(priority), 0, false},
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

	o->asked.model = headroom_find(text);
	for (size_t i = 0; i < headroom_models_count; i++)
		text_join(names, sizeof(names), headroom_models[i].name,
			headroom_models_count - 1 - i);
	if (!o->asked.model)
		argp_error(state, "--model: %s is none of the models; allowed %s",
			text_quote(text).text, names);
}

static bool is_given(const struct options *o, int key)
{
	for (size_t i = 0; i < NUMBERS; i++)
		if (number_rows[i].key == key)
			return o->given >> i & 1;
	return false;
}

/* Is there a link to work something out for? With --measure alone there is none. */
static bool wants_sum(const struct options *o)
{
	return !o->measure || is_given(o, KEY_SPEED) || is_given(o, KEY_CABLE) ||
	       is_given(o, KEY_MTU);
}

static void check_measure(struct argp_state *state, const struct options *o)
{
	if (!o->measure && (o->polls || is_given(o, KEY_ROUNDS) || is_given(o, KEY_PRIORITY)))
		argp_error(state, "--rounds, --poll and --priority: only with --measure");
	if (o->measure && !(o->asked.model->takes & HEADROOM_REACTION))
		argp_error(state, "--measure: the model %s does not take it", o->asked.model->name);
}

static void check_options(struct argp_state *state, const struct options *o)
{
	const struct headroom_asked *asked = &o->asked;

	for (size_t i = 0; i < NUMBERS; i++) {
		const struct number_row *row = &number_rows[i];
		bool given = o->given & 1u << i;

		if (row->required && !given && wants_sum(o))
			argp_error(state, "--%s is missing", option_name(row->key));
		if (row->takes && given && !(row->takes & asked->model->takes))
			argp_error(state, "--%s: the model %s does not take it",
				option_name(row->key), asked->model->name);
	}
	if (asked->port_mtu_bytes && asked->port_mtu_bytes < asked->mtu_bytes)
		argp_error(state,
			"--port-mtu: %" PRIu64 " is less than --mtu; allowed %" PRIu64 " to 65535",
			asked->port_mtu_bytes, asked->mtu_bytes);
	check_measure(state, o);
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
	case KEY_MEASURE:
		o->measure = true;
		return 0;
	case KEY_POLL:
		o->polls = true;
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
		.args_doc = "--speed RATE --cable LENGTH --mtu BYTES\n--measure",
		.doc = help,
		.help_filter = filter_help,
	};

	*o = (struct options){
		.asked = {.reaction_ns = DEFAULT_REACTION_NS,
			.ports = 1,
			.model = &headroom_models[0]},
		.rounds = DEFAULT_ROUNDS,
	};
	argv[0] = name;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, o);
}

static int work_out(const struct headroom_asked *asked, struct headroom_answer *a, struct qerr *err)
{
	const struct headroom_link link = {
		.speed_bps = asked->speed_bps,
		.cable_mm = asked->cable_mm,
		.mtu_bytes = asked->mtu_bytes,
		.port_mtu_bytes = asked->port_mtu_bytes,
		.cell_bytes = asked->cell_bytes,
		.reaction_ns = asked->reaction_ns,
		.response_ns = asked->response_ns,
	};
	const struct headroom *h = &a->headroom;
	int code = headroom_compute(asked->model, &link, &a->headroom, err);

	if (code)
		return qerr_prefix(err, code, "--model %s", asked->model->name);
	a->ample_bytes = h->buffer_bytes * asked->ports;
	a->limit_bytes = asked->limit_bytes ? asked->limit_bytes : a->ample_bytes;
	code = headroom_marks(h, a->limit_bytes / asked->ports, &a->xoff_bytes, &a->xon_bytes);
	if (code)
		return qerr_set(err, code,
			"--limit: %s is too little for %" PRIu64 " port%s with %" PRIu64
			"B of headroom each; allowed %" PRIu64 "B or more",
			units_text(UNITS_SIZE, a->limit_bytes).text, asked->ports,
			asked->ports > 1 ? "s" : "", h->bytes, h->buffer_min_bytes * asked->ports);
	return 0;
}

/* Whole microseconds, as one writes them into a policy. */
static uint64_t round_up_us(uint64_t ns)
{
	return (ns + 999) / 1000 * 1000;
}

static int measure(struct options *o, struct headroom_measured *m, struct qerr *err)
{
	int code;

	m->realtime = (struct policy_realtime){.poll = o->polls, .priority = (uint32_t)o->priority};
	code = rounds_run((uint32_t)o->rounds, &m->realtime, &m->times, err);

	m->rounds = (uint32_t)o->rounds;
	m->reaction_ns = round_up_us(m->times.xoff.max_ns);
	m->response_ns = round_up_us(m->times.closed.max_ns);
	if (!is_given(o, KEY_REACTION))
		o->asked.reaction_ns = m->reaction_ns;
	return code ? qerr_prefix(err, code, "--measure") : 0;
}

int cli_headroom(int argc, char **argv)
{
	struct headroom_report report = {};
	struct headroom_measured measured;
	struct headroom_answer answer;
	struct options options;
	struct qerr err = {};

	read_options(argc, argv, &options);
	report.asked = &options.asked;
	if (options.measure) {
		if (measure(&options, &measured, &err))
			return cli_fail(err.text);
		report.measured = &measured;
	}
	if (wants_sum(&options)) {
		if (work_out(&options.asked, &answer, &err))
			return cli_fail(err.text);
		report.answer = &answer;
	}
	if (headroom_report(&report, options.json) || fflush(stdout))
		return cli_fail("the answer cannot be written");
	return EXIT_OK;
}
