// SPDX-License-Identifier: BSD-2-Clause
// quench analyze: what is in a capture file, or on a mirror port.
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "analyze/analyze.h"
#include "capture/capture.h"
#include "cli/analyze_report.h"
#include "policy/units.h"

enum {
	PROGRESS_AFTER_MS = 2000,
	PROGRESS_EVERY_MS = 500,
	CLOCK_EVERY_FRAMES = 4096, /* a power of two */
};

static const char help[] =
	"Say what is in a capture file (pcap, pcapng, also gzip; \"-\" is the standard input), or "
	"on a "
	"port: who talks to whom, marks, CNPs, pauses, faults, and what to make of it. Listening "
	"on a "
	"port is passive and ends with Ctrl-C.\v"
	"Exit status: 0 done, 1 failed, 2 usage, 3 the policy is invalid. What was read before a "
	"failure is shown.";

struct options {
	const char *file, *port, *policy;
	const char *csv, *frames, *plot;
	uint64_t interval_ns, duration_ns, count, speed_bps;
	bool json, progress;
	bool roce_given, geneve_given;
	struct wire_ports ports;
	uint16_t iwarp_ports[IWARP_PORTS_MAX];
	uint32_t vxlan_count, iwarp_count; /* given so far */
};

enum {
	KEY_CSV = 256,
	KEY_FRAMES,
	KEY_PLOT,
	KEY_INTERVAL,
	KEY_DURATION,
	KEY_COUNT,
	KEY_SPEED,
	KEY_PROGRESS,
	KEY_ROCE_PORT,
	KEY_VXLAN_PORT,
	KEY_GENEVE_PORT,
	KEY_IWARP_PORT
};

static const struct argp_option option_rows[] = {
	{"port", 'i', "PORT", 0, "listen on PORT instead of reading a file", 0},
	{"config", 'c', "FILE", 0,
		"a policy to hold the traffic against: which RoCE is in no class of it, or in a "
		"lossy one; its ports are the defaults of those below",
		0},
	{"json", 'j', NULL, 0, "one JSON document on stdout, nothing else there", 0},
	{"csv", KEY_CSV, "FILE", 0, "write each flow's rate, CE, CNPs and pauses over time", 0},
	{"interval", KEY_INTERVAL, "TIME", 0, "of that time series (default 10ms)", 0},
	{"plot", KEY_PLOT, "DIR", 0, "draw the time series as PNGs, with gnuplot", 0},
	{"frames", KEY_FRAMES, "FILE", 0, "write a line of CSV for each frame", 0},
	{"duration", KEY_DURATION, "TIME", 0, "stop listening after TIME", 0},
	{"count", KEY_COUNT, "N", 0, "stop after N frames", 0},
	{"speed", KEY_SPEED, "RATE", 0,
		"of the link, 100Gbit: then the length of pauses is known (default: the port's "
		"own)",
		0},
	{"roce-port", KEY_ROCE_PORT, "N", 0, "the UDP port of RoCEv2 (default 4791)", 0},
	{"vxlan-port", KEY_VXLAN_PORT, "N", 0,
		"a UDP port of VXLAN, up to 4 times (default 4789 and 8472)", 0},
	{"geneve-port", KEY_GENEVE_PORT, "N", 0, "the UDP port of GENEVE, or off (default 6081)",
		0},
	{"iwarp-port", KEY_IWARP_PORT, "N", 0,
		"a TCP port that is iWARP, up to 4 times, beside connections that begin with MPA",
		0},
	{"progress", KEY_PROGRESS, NULL, 0, "show progress, even where stderr is no terminal", 0},
	{},
};

/* A number of the kind, at least 1, or a usage error. */
static uint64_t number(struct argp_state *state, enum units_kind kind, const char *text)
{
	struct qerr err = {};
	uint64_t value = 0;

	if (units_parse_u64(kind, text, &value, &err))
		argp_error(state, "%s", err.text);
	else if (!value)
		argp_error(state, "\"%s\" is too little", text);
	return value;
}

/* A UDP or TCP port, or a usage error that names the option. */
static uint16_t port_number(struct argp_state *state, const char *option, const char *text)
{
	struct qerr err = {};
	uint64_t value = 0;

	if (units_parse_u64(UNITS_COUNT, text, &value, &err))
		argp_error(state, "--%s: %s; allowed 1 to 65535", option, err.text);
	else if (value < 1 || value > 65535)
		argp_error(state, "--%s: \"%s\" is out of range; allowed 1 to 65535", option, text);
	return value;
}

/* May one more be added to count ports that are there, of at most max, none of them twice? */
static void expect_room(
	struct argp_state *state, const char *option, uint32_t count, uint32_t max, bool twice)
{
	if (twice)
		argp_error(state, "--%s: a port is there twice", option);
	else if (count == max)
		argp_error(state, "--%s: more than %u ports", option, max);
}

static void add_vxlan_port(struct argp_state *state, struct options *o, const char *text)
{
	static const char option[] = "vxlan-port";
	__be16 port = WIRE_HTONS(port_number(state, option, text));

	if (!o->vxlan_count)
		memset(o->ports.vxlan, 0, sizeof(o->ports.vxlan));
	expect_room(state, option, o->vxlan_count, VXLAN_PORTS_MAX,
		wire_is_vxlan_port(&o->ports, port));
	o->ports.vxlan[o->vxlan_count++] = port;
}

static void add_iwarp_port(struct argp_state *state, struct options *o, const char *text)
{
	static const char option[] = "iwarp-port";
	uint16_t port = port_number(state, option, text);
	bool twice = false;

	for (uint32_t i = 0; i < o->iwarp_count; i++)
		twice = twice || o->iwarp_ports[i] == port;
	expect_room(state, option, o->iwarp_count, IWARP_PORTS_MAX, twice);
	o->iwarp_ports[o->iwarp_count++] = port;
}

static error_t read_end(struct argp_state *state, const struct options *o)
{
	if (!o->file == !o->port)
		argp_error(state, "which FILE, or -i PORT?");
	if (o->duration_ns && !o->port)
		argp_error(state, "--duration is for a port");
	return 0;
}

static error_t read_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'i':
		o->port = arg;
		return 0;
	case 'c':
		o->policy = arg;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case KEY_CSV:
		o->csv = arg;
		return 0;
	case KEY_FRAMES:
		o->frames = arg;
		return 0;
	case KEY_PLOT:
		o->plot = arg;
		return 0;
	case KEY_INTERVAL:
		o->interval_ns = number(state, UNITS_TIME, arg);
		if (o->interval_ns > SERIES_INTERVAL_MAX_NS)
			argp_error(state, "\"%s\" is more than an hour", arg);
		return 0;
	case KEY_DURATION:
		o->duration_ns = number(state, UNITS_TIME, arg);
		return 0;
	case KEY_COUNT:
		o->count = number(state, UNITS_COUNT, arg);
		return 0;
	case KEY_SPEED:
		o->speed_bps = number(state, UNITS_RATE, arg);
		return 0;
	case KEY_PROGRESS:
		o->progress = true;
		return 0;
	case KEY_ROCE_PORT:
		o->roce_given = true;
		o->ports.roce = WIRE_HTONS(port_number(state, "roce-port", arg));
		return 0;
	case KEY_VXLAN_PORT:
		add_vxlan_port(state, o, arg);
		return 0;
	case KEY_GENEVE_PORT:
		o->geneve_given = true;
		o->ports.geneve =
			strcmp(arg, "off") ? WIRE_HTONS(port_number(state, "geneve-port", arg)) : 0;
		return 0;
	case KEY_IWARP_PORT:
		add_iwarp_port(state, o, arg);
		return 0;
	case ARGP_KEY_ARG:
		if (o->file)
			argp_error(state, "one FILE at a time");
		o->file = arg;
		return 0;
	case ARGP_KEY_END:
		return read_end(state, o);
	}
	return ARGP_ERR_UNKNOWN;
}

static void read_options(int argc, char **argv, struct options *o)
{
	static char name[] = "quench analyze";
	const struct argp argp = {
		.options = option_rows,
		.parser = read_option,
		.args_doc = "FILE\n-i PORT",
		.doc = help,
	};

	*o = (struct options){
		.interval_ns = 10000000, .count = UINT64_MAX, .ports = WIRE_PORTS_DEFAULT};
	argv[0] = name;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, o);
	o->progress = o->progress || isatty(STDERR_FILENO);
}

/* A run of the command: what is read, what is kept, where it goes. */
struct job {
	const struct options *options;
	struct capture *capture;
	struct analyze *analyze;
	struct analyze_policy policy;
	FILE *csv, *frames;
	struct plot *plot;
	uint64_t start_ms, shown_ms;
	bool complete;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

static uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

/* Progress */

static void show_progress(struct job *job, uint64_t now_ms)
{
	double million = (double)job->analyze->frames / 1e6;
	uint64_t done, all;

	if (!job->options->progress || now_ms - job->start_ms < PROGRESS_AFTER_MS ||
		now_ms - job->shown_ms < PROGRESS_EVERY_MS)
		return;
	job->shown_ms = now_ms;
	if (capture_progress(job->capture, &done, &all) && all)
		fprintf(stderr, "\r%3.0f %%, ", 100.0 * (double)done / (double)all);
	else
		fputc('\r', stderr);
	fprintf(stderr, "%.1f million frames, %.2f million/s ", million,
		million * 1e3 / (double)(now_ms - job->start_ms));
}

static void end_progress(const struct job *job)
{
	if (job->shown_ms)
		fputc('\n', stderr);
}

/* Reading */

static bool is_over(const struct job *job, uint64_t now_ms)
{
	const struct options *o = job->options;

	return stopped || (o->duration_ns && now_ms - job->start_ms >= o->duration_ns / 1000000);
}

static void take(struct job *job, const struct analyze_frame *frame)
{
	struct analyze_seen seen;

	analyze_take(job->analyze, frame, &seen);
	if (job->frames)
		analyze_frames_row(job->frames, frame, &seen);
}

/* Until the file's end, enough frames, the time's end or a signal; -EIO when reading failed
 * half-way. */
static int read_all(struct job *job, struct qerr *err)
{
	struct analyze *a = job->analyze;
	struct analyze_frame frame;

	job->start_ms = clock_ms();
	while (a->frames < job->options->count) {
		enum capture_step step = capture_next(job->capture, &frame, err);

		if (step == CAPTURE_FAILED)
			return -EIO;
		if (step == CAPTURE_END) {
			job->complete = true;
			break;
		}
		if (step == CAPTURE_FRAME)
			take(job, &frame);
		if (step == CAPTURE_FRAME && a->frames % CLOCK_EVERY_FRAMES)
			continue;
		show_progress(job, clock_ms());
		if (is_over(job, clock_ms()))
			break;
	}
	job->complete |= job->options->port != NULL;
	return 0;
}

/* The policy */

/* Ports that no option gives are the policy's. */
static void take_ports(struct options *o, const struct conf *conf)
{
	if (!o->roce_given)
		o->ports.roce = conf->udp_ports.roce;
	if (!o->geneve_given)
		o->ports.geneve = conf->udp_ports.geneve;
	if (!o->vxlan_count)
		memcpy(o->ports.vxlan, conf->udp_ports.vxlan, sizeof(o->ports.vxlan));
	for (int i = 0; !o->iwarp_count && i < IWARP_PORTS_MAX; i++)
		o->iwarp_ports[i] = WIRE_NTOHS(conf->iwarp_ports[i]);
}

static int read_policy(struct options *o, struct analyze_policy *policy)
{
	int status = o->policy ? analyze_policy_load(o->policy, o->port, policy) : EXIT_OK;

	if (o->policy && !status)
		take_ports(o, &policy->conf);
	return status;
}

/* Opening and closing */

static int open_output(const char *path, FILE **out, struct qerr *err)
{
	if (!path)
		return 0;
	*out = fopen(path, "we");
	return *out ? 0 : qerr_set(err, -errno, "%s: %s", path, strerror(errno));
}

static int open_source(struct job *job, struct qerr *err)
{
	const struct options *o = job->options;

	return o->port ? capture_open_port(o->port, &job->capture, err)
		       : capture_open_file(o->file, &job->capture, err);
}

static int open_outputs(struct job *job, struct qerr *err)
{
	const struct options *o = job->options;
	int code = open_output(o->csv, &job->csv, err);

	if (!code)
		code = open_output(o->frames, &job->frames, err);
	if (!code && o->plot)
		code = plot_start(o->plot, &job->plot, err);
	if (job->csv)
		analyze_csv_header(job->csv);
	if (job->frames)
		analyze_frames_header(job->frames);
	return code;
}

static void emit_series(void *arg, const struct series_row *row)
{
	struct job *job = arg;

	if (job->csv)
		analyze_csv_row(job->csv, row);
	if (job->plot)
		analyze_csv_row(plot_series(job->plot), row);
}

static uint64_t speed_of(const struct options *o)
{
	return o->speed_bps || !o->port ? o->speed_bps : capture_speed_bps(o->port);
}

static int start_analysis(struct job *job, struct qerr *err)
{
	struct analyze_config config = {
		.speed_bps = speed_of(job->options),
		.interval_ns = job->csv || job->plot ? job->options->interval_ns : 0,
		.emit = emit_series,
		.emit_arg = job,
		.policy = job->options->policy ? &job->policy : NULL,
		.ports = &job->options->ports,
	};

	memcpy(config.iwarp_ports, job->options->iwarp_ports, sizeof(config.iwarp_ports));
	if (getrandom(&config.secret, sizeof(config.secret), 0) != sizeof(config.secret))
		return qerr_set(err, -EIO, "no random numbers: %s", strerror(errno));
	job->analyze = analyze_new(&config);
	return job->analyze ? 0 : qerr_set(err, -ENOMEM, "out of memory");
}

static int close_output(FILE **out, const char *path, struct qerr *err)
{
	FILE *file = *out;
	bool bad = file && ferror(file);

	*out = NULL;
	if (file && fclose(file))
		bad = true;
	if (bad)
		return qerr_set(err, -EIO, "%s: cannot be written", path);
	return 0;
}

static int print_report(const struct job *job, struct qerr *err)
{
	const struct options *o = job->options;
	const struct analyze_source source = {
		.name = o->port ?: o->file,
		.link = capture_link_name(job->capture),
		.is_port = o->port,
		.complete = job->complete,
		.speed_bps = speed_of(o),
	};
	json_t *doc;
	int code = 0;

	if (o->json) {
		doc = analyze_json(job->analyze, &source);
		code = doc ? 0 : -ENOMEM;
		json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
		putchar('\n');
		json_decref(doc);
	} else {
		code = analyze_print(stdout, job->analyze, &source);
	}
	return code ? qerr_set(err, code, "out of memory") : 0;
}

static int report(struct job *job, struct qerr *err)
{
	const struct options *o = job->options;
	int code;

	analyze_lost(job->analyze, capture_lost(job->capture));
	analyze_finish(job->analyze);
	code = print_report(job, err);
	if (!code)
		code = close_output(&job->csv, o->csv, err);
	if (!code)
		code = close_output(&job->frames, o->frames, err);
	if (!code && job->plot)
		code = plot_finish(job->plot, job->analyze, err);
	return code;
}

static void catch_signals(void)
{
	/* a second one kills */
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* A read that failed half-way is told, but what came before is reported all the same. */
static int run(struct job *job)
{
	struct qerr err = {};
	int status = EXIT_OK;

	if (open_source(job, &err) || open_outputs(job, &err) || start_analysis(job, &err))
		return cli_fail(err.text);
	if (job->options->port)
		catch_signals();
	if (read_all(job, &err))
		status = EXIT_FAILED;
	end_progress(job);
	if (status)
		cli_fail(err.text);
	return report(job, &err) ? cli_fail(err.text) : status;
}

int cli_analyze(int argc, char **argv)
{
	struct options options;
	struct job job = {.options = &options};
	int status;

	read_options(argc, argv, &options);
	status = read_policy(&options, &job.policy);
	if (!status)
		status = run(&job);
	if (job.csv)
		fclose(job.csv);
	if (job.frames)
		fclose(job.frames);
	plot_free(job.plot);
	analyze_free(job.analyze);
	capture_close(job.capture);
	return status;
}
