/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rcpeer: an RC queue-pair endpoint in user space that speaks real RoCEv2 on the wire, so that the
 * lab has RDMA traffic without RDMA hardware. This file: the command line.
 */
#include <argp.h>
#include <math.h>

#include "rcpeer_listen.h"
#include "rcpeer_send.h"
#include "rcpeer_icrc.h"
#include "rcpeer_noise.h"

enum option_kind { OPT_TEXT, OPT_COUNT, OPT_REAL, OPT_FLAG };

/* One option: help, defaults and validation come from this row. */
struct option_row {
	int key;
	const char *name, *arg, *doc;
	enum option_kind kind;
	size_t offset;
	double min, max;
	const char *preset; /* the default, as text; NULL when the option must be given */
};

enum { OPTION_ROWS_MAX = 24, KEY_LONG = 0x100 };

#define SEND(field)   offsetof(struct send_options, field)
#define LISTEN(field) offsetof(struct listen_options, field)
#define NOISE(field)  offsetof(struct noise_options, field)
#define SINK(field)   offsetof(struct sink_options, field)
#define QPN_MAX	      0xfff000

static const struct option_row send_options[] = {
	{'d', "device", "IFACE", "Interface to send from", OPT_TEXT, SEND(ifname), 0, 0, NULL},
	{'c', "connect", "SERVER", "IPv4 or IPv6 address of the responder", OPT_TEXT, SEND(server),
		0, 0, NULL},
	{'q', "qps", "N", "Queue pairs", OPT_COUNT, SEND(qps), 1, 1024, "1"},
	{'t', "duration", "SECONDS", "How long to send", OPT_REAL, SEND(duration_s), 0.001, 1e6,
		"10"},
	{'m', "message", "BYTES", "Size of each message", OPT_COUNT, SEND(message_bytes), 1,
		1 << 30, "65536"},
	{KEY_LONG, "mtu", "BYTES", "Path MTU, payload of a frame: 256, 512, 1024, 2048 or 4096",
		OPT_COUNT, SEND(mtu_bytes), 256, 4096, "1024"},
	{'w', "window", "FRAMES", "Frames in flight per QP", OPT_COUNT, SEND(window_frames), 1,
		65536, "256"},
	{KEY_LONG, "dscp", "DSCP", "DSCP of all frames; they are ECT(0)", OPT_COUNT, SEND(dscp), 0,
		63, "26"},
	{KEY_LONG, "start-at", "EPOCH",
		"Connect at once, send from this time on, in seconds since 1970", OPT_REAL,
		SEND(start_at_s), 0, 1e11, "0"},
	{KEY_LONG, "offer", "MBIT", "Payload offered per QP in Mbit/s; 0 is back to back", OPT_REAL,
		SEND(offer_mbit), 0, 1e6, "0"},
	{KEY_LONG, "pause-every", "MS",
		"Each QP now and then begins no message for a while: first at different times, "
		"then this long after its last pause; 0 is never",
		OPT_REAL, SEND(pause_every_ms), 0, 1e6, "0"},
	{KEY_LONG, "pause-for", "MS", "Length of each pause", OPT_REAL, SEND(pause_for_ms), 0, 1e6,
		"0"},
	{KEY_LONG, "qpn-base", "N", "QPN of the first QP; 0 derives 0x01HH00 from the address",
		OPT_COUNT, SEND(qpn_base), 0, QPN_MAX, "0"},
	{'p', "port", "PORT", "RDMA-CM port of the responder", OPT_COUNT, SEND(service_port), 1,
		65535, "18515"},
	{KEY_LONG, "timeout", "MS",
		"Retransmission timeout, doubled up to 1000 ms; IBTA's local ACK timeout 15 is 134",
		OPT_COUNT, SEND(timeout_ms), 1, 1000, "134"},
	{KEY_LONG, "sndbuf", "BYTES",
		"Socket buffer per QP: the kernel doubles it, a frame takes about 2304 of it, "
		"8960 with 4096 bytes of payload; bounds what waits in the egress queue",
		OPT_COUNT, SEND(sndbuf_bytes), 4096, 1 << 26, "131072"},
	{KEY_LONG, "connect-timeout", "SECONDS", "Give up connecting after this", OPT_REAL,
		SEND(connect_timeout_s), 0.1, 1e6, "10"},
	{KEY_LONG, "drain", "SECONDS", "Wait this long for outstanding acknowledgements", OPT_REAL,
		SEND(drain_s), 0, 1e6, "5"},
	{KEY_LONG, "progress", NULL, "A line each second on standard error", OPT_FLAG,
		SEND(progress), 0, 0, ""},
	{0},
};

static const struct option_row listen_options[] = {
	{'d', "device", "IFACE", "Interface to receive on", OPT_TEXT, LISTEN(ifname), 0, 0, NULL},
	{'t', "duration", "SECONDS", "Stop after this; 0 waits for SIGTERM or SIGINT", OPT_REAL,
		LISTEN(duration_s), 0, 1e6, "0"},
	{KEY_LONG, "qpn-base", "N", "QPN of the first flow; 0 derives 0x02HH00 from the address",
		OPT_COUNT, LISTEN(qpn_base), 0, QPN_MAX, "0"},
	{'p', "port", "PORT", "RDMA-CM port to answer on", OPT_COUNT, LISTEN(service_port), 1,
		65535, "18515"},
	{KEY_LONG, "dscp", "DSCP", "DSCP of ACKs and CM answers; they are ECT(0)", OPT_COUNT,
		LISTEN(dscp), 0, 63, "26"},
	{KEY_LONG, "hold-acks", "MS",
		"Hold each ACK and NAK back for so long, as a longer path would", OPT_REAL,
		LISTEN(hold_acks_ms), 0, 10000, "0"},
	{KEY_LONG, "progress", NULL, "A line each second on standard error", OPT_FLAG,
		LISTEN(progress), 0, 0, ""},
	{0},
};

static const struct option_row icrc_options[] = {{0}};

static const struct option_row noise_options[] = {
	{'c', "connect", "SERVER", "IPv4 or IPv6 address of the sink", OPT_TEXT, NOISE(server), 0,
		0, NULL},
	{KEY_LONG, "udp", "MBIT", "UDP payload to send, in Mbit/s; 0 is none", OPT_REAL,
		NOISE(udp_mbit), 0, 1e6, "0"},
	{KEY_LONG, "tcp", NULL, "Send on a TCP connection, as fast as it goes", OPT_FLAG,
		NOISE(tcp), 0, 0, ""},
	{KEY_LONG, "datagram", "BYTES", "UDP payload of each datagram", OPT_COUNT,
		NOISE(datagram_bytes), 16, 65000, "1400"},
	{'t', "duration", "SECONDS", "How long to send", OPT_REAL, NOISE(duration_s), 0.001, 1e6,
		"10"},
	{'p', "port", "PORT", "Port of the sink, UDP and TCP", OPT_COUNT, NOISE(port), 1, 65535,
		"5001"},
	{KEY_LONG, "dscp", "DSCP", "DSCP of all packets", OPT_COUNT, NOISE(dscp), 0, 63, "0"},
	{0},
};

static const struct option_row sink_options[] = {
	{'p', "port", "PORT", "Port to take UDP and TCP on", OPT_COUNT, SINK(port), 1, 65535,
		"5001"},
	{'t', "duration", "SECONDS", "Stop after this; 0 waits for SIGTERM or SIGINT", OPT_REAL,
		SINK(duration_s), 0, 1e6, "0"},
	{0},
};

struct command {
	const char *name, *doc;
	const struct option_row *rows;
	int (*run)(void *options);
};

struct parse_state {
	const struct command *command;
	char *values; /* the command's options struct */
	bool given[OPTION_ROWS_MAX];
};

/* A number between min and max, and nothing behind it. Counts may be hexadecimal. */
static const char *read_number(const struct option_row *row, const char *text, double *value)
{
	static char complaint[160];
	char *end;

	errno = 0;
	*value = row->kind == OPT_COUNT ? (double)strtoll(text, &end, 0) : strtod(text, &end);
	if (end == text || *end || errno || !isfinite(*value) || *value < row->min ||
		*value > row->max) {
		snprintf(complaint, sizeof(complaint), "--%s: '%s' is not a number from %g to %g",
			row->name, text, row->min, row->max);
		return complaint;
	}
	return NULL;
}

/* Store text as the row's value; returns what is wrong with it, or NULL. */
static const char *store_option(const struct option_row *row, char *values, const char *text)
{
	const char *complaint;
	double number;

	switch (row->kind) {
	case OPT_TEXT:
		*(const char **)(values + row->offset) = text;
		return NULL;
	case OPT_FLAG:
		*(bool *)(values + row->offset) = text == NULL;
		return NULL;
	case OPT_COUNT:
	case OPT_REAL:
		break;
	}
	complaint = read_number(row, text, &number);
	if (complaint)
		return complaint;
	if (row->kind == OPT_COUNT)
		*(__u64 *)(values + row->offset) = number;
	else
		*(double *)(values + row->offset) = number;
	return NULL;
}

/* argp's keys: a row without a letter has its place in the table. */
static int option_key(const struct option_row *rows, int i)
{
	return rows[i].key == KEY_LONG ? KEY_LONG + i : rows[i].key;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct parse_state *p = state->input;
	const struct option_row *rows = p->command->rows;
	const char *complaint;
	int i;

	if (key == ARGP_KEY_ARG)
		argp_error(state, "'%s': unexpected argument", arg);
	for (i = 0; rows[i].name; i++) {
		if (key == ARGP_KEY_END && !rows[i].preset && !p->given[i])
			argp_error(state, "--%s is missing", rows[i].name);
		if (key != option_key(rows, i))
			continue;
		complaint = store_option(&rows[i], p->values, arg);
		if (complaint)
			argp_error(state, "%s", complaint);
		p->given[i] = true;
		return 0;
	}
	return key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
}

/* The help of a row, its default behind it. */
static char *option_help(const struct option_row *row)
{
	bool shows = row->preset && *row->preset;
	char *text;

	if (asprintf(&text, shows ? "%s (default %s)" : "%s", row->doc, row->preset) < 0)
		err(1, "memory");
	return text;
}

static void parse_command_line(
	const struct command *command, char *program, int argc, char **argv, void *values)
{
	struct argp_option options[OPTION_ROWS_MAX] = {0};
	struct parse_state state = {.command = command, .values = values};
	struct argp argp = {.options = options, .parser = parse_option, .doc = command->doc};
	const struct option_row *rows = command->rows;
	int i;

	for (i = 0; rows[i].name; i++) {
		assert(i < OPTION_ROWS_MAX - 1);
		options[i] = (struct argp_option){
			.name = rows[i].name,
			.key = option_key(rows, i),
			.arg = rows[i].arg,
			.doc = option_help(&rows[i]),
		};
		if (rows[i].preset)
			store_option(&rows[i], values, rows[i].preset);
	}
	argv[0] = program;
	argp_parse(&argp, argc, argv, 0, NULL, &state);
	for (i = 0; rows[i].name; i++)
		free((char *)options[i].doc);
}

static int usage_error(const char *complaint)
{
	warnx("%s", complaint);
	return 2;
}

static const char not_an_address[] = "--connect: not an IPv4 or IPv6 address";

static int run_send(void *options)
{
	struct send_options *opt = options;

	if (!address_parse(opt->server, &opt->server_address))
		return usage_error(not_an_address);
	if (opt->mtu_bytes & (opt->mtu_bytes - 1))
		return usage_error("--mtu: not 256, 512, 1024, 2048 or 4096");
	if (!opt->pause_every_ms != !opt->pause_for_ms)
		return usage_error("--pause-every and --pause-for need each other");
	return send_run(opt);
}

static int run_listen(void *options)
{
	return listen_run(options);
}

static int run_icrc(void *options)
{
	(void)options;
	return icrc_run();
}

static int run_noise(void *options)
{
	struct noise_options *opt = options;

	if (!address_parse(opt->server, &opt->server_address))
		return usage_error(not_an_address);
	if (!opt->udp_mbit && !opt->tcp)
		return usage_error("neither --udp nor --tcp: nothing to send");
	return noise_run(opt);
}

static int run_sink(void *options)
{
	return sink_run(options);
}

static const struct command commands[] = {
	{"send", "Connect QPs to a responder, write messages, report as JSON on standard output.",
		send_options, run_send},
	{"listen", "Accept connections and messages, report as JSON on standard output.",
		listen_options, run_listen},
	{"icrc",
		"Read frames as lines of hex on standard input; print for each its kind, opcode, "
		"the "
		"ICRC it should have in wire order, and whether it has it.",
		icrc_options, run_icrc},
	{"noise", "Send plain UDP and TCP to a sink, report as JSON on standard output.",
		noise_options, run_noise},
	{"sink", "Take plain UDP and TCP, report as JSON on standard output.", sink_options,
		run_sink},
};

static void print_commands(FILE *to)
{
	size_t i;

	fputs("Usage: rcpeer COMMAND [OPTION...]\n"
	      "An RC queue-pair endpoint that speaks RoCEv2 in user space.\n\n",
		to);
	for (i = 0; i < ROWS(commands); i++)
		fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].doc);
	fputs("\n`rcpeer COMMAND --help` explains the options.\n", to);
}

int main(int argc, char **argv)
{
	union {
		struct send_options send;
		struct listen_options listen;
		struct noise_options noise;
		struct sink_options sink;
	} options = {0};
	char program[64];
	size_t i;

	argp_err_exit_status = 2;
	for (i = 0; argc > 1 && i < ROWS(commands); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		snprintf(program, sizeof(program), "rcpeer %s", commands[i].name);
		parse_command_line(&commands[i], program, argc - 1, argv + 1, &options);
		return commands[i].run(&options);
	}
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-?"))) {
		print_commands(stdout);
		return 0;
	}
	print_commands(stderr);
	return 2;
}
