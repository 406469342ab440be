// SPDX-License-Identifier: BSD-2-Clause
// quench flows: every RDMA flow of the live agent, shown as they come.
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/answer.h"
#include "engine/instance.h"
#include "observe/control.h"
#include "observe/snapshot.h"

static const char help[] =
	"Show every RDMA flow that the agent sees: who talks to which QP, how the QP at the other "
	"end "
	"was learned, packets, CE marks, CNPs, NAKs, PSN gaps, and the rate if DCQCN limits it; "
	"and "
	"iWARP connections, with what their segments begin with.";

static void print_rate(const json_t *flow)
{
	if (json_is_integer(json_object_get(flow, "rate_bps")))
		printf(" %9.2f\n", number_of(flow, "rate_bps") / 1e6);
	else
		printf(" %9s\n", "-");
}

struct qpn_text {
	char text[12];
};

/* The other end's QPN, if it is known. */
static struct qpn_text peer_of(const json_t *flow)
{
	struct qpn_text peer = {"-"};

	if (json_is_integer(json_object_get(flow, "peer_qpn")))
		snprintf(peer.text, sizeof(peer.text), "0x%06x",
			(unsigned int)number_of(flow, "peer_qpn"));
	return peer;
}

static void print_head(void)
{
	printf("%-28s %-28s %8s %8s %-7s %10s %8s %8s %6s %6s %6s %9s\n", "from", "to", "QPN",
		"peer QPN", "pair", "packets", "CE", "CNP", "NAK", "gaps", "retx", "Mbit/s");
}

static void print_flow(const json_t *flow)
{
	printf("%-28s %-28s 0x%06x %8s %-7s %10" PRId64 " %8" PRId64 " %8" PRId64 " %6" PRId64
	       " %6" PRId64 " %6" PRId64,
		text_of(flow, "src"), text_of(flow, "dst"),
		(unsigned int)number_of(flow, "dst_qpn"), peer_of(flow).text,
		text_of(flow, "pair_source"), (int64_t)number_of(flow, "packets"),
		(int64_t)number_of(flow, "ce"), (int64_t)number_of(flow, "cnp"),
		(int64_t)number_of(flow, "nak"), (int64_t)number_of(flow, "psn_gaps"),
		(int64_t)number_of(flow, "retransmissions"));
	print_rate(flow);
}

static void print_iwarp(const json_t *way)
{
	const char *opcode, *between = ": ";
	json_t *segments;

	printf("iWARP %s port %d > %s port %d, %" PRId64 " frames, %" PRId64 " bytes",
		text_of(way, "src"), (int)number_of(way, "src_port"), text_of(way, "dst"),
		(int)number_of(way, "dst_port"), (int64_t)number_of(way, "packets"),
		(int64_t)number_of(way, "bytes"));
	json_object_foreach (json_object_get(way, "segments"), opcode, segments) {
		printf("%s%s %" PRId64, between, opcode, (int64_t)json_integer_value(segments));
		between = ", ";
	}
	printf("\n");
}

/* An entry is a line that starts with '{', the document's own first line apart. */
static void show_line(void *arg, const char *line)
{
	bool *begun = arg;
	json_t *entry;

	if (!*begun)
		print_head();
	if (*begun && *line == '{') {
		entry = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL); /* a comma may follow */
		if (json_object_get(entry, "dst_qpn"))
			print_flow(entry);
		else
			print_iwarp(entry);
		json_decref(entry);
	}
	*begun = true;
}

static void pass_line(void *arg, const char *line)
{
	(void)arg;
	fputs(line, stdout);
}

int cli_flows(int argc, char **argv)
{
	struct cli_options options;
	struct instance instance;
	struct qerr err = {};
	bool begun = false;
	int code;

	cli_parse(argc, argv, help, CLI_INSTANCE | CLI_JSON, &options);
	if (instance_init(&instance, options.instance, &err))
		return cli_fail(err.text);
	code = control_ask_lines(instance.socket_path, "flows", SNAPSHOT_FLOWS_LAST,
		options.json ? pass_line : show_line, &begun, &err);
	return code ? cli_fail(err.text) : EXIT_OK;
}
