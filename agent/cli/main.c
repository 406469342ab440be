// SPDX-License-Identifier: BSD-2-Clause
// quench: the command line. A subcommand is a row of the table.
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{"run", cli_run, "the agent, in the foreground"},
	{"check", cli_check, "is this policy valid?"},
	{"plan", cli_plan, "what would change on this machine, and what is in the way"},
	{"status", cli_status, "what the agent's ports are and do"},
	{"flows", cli_flows, "every RDMA flow: packets, marks, CNPs, rate"},
	{"events", cli_events, "what happened to ports and agent lately"},
	{"analyze", cli_analyze, "what is in a capture file, or on a mirror port"},
	{"headroom", cli_headroom, "what a lossless queue must hold after XOFF, and its marks"},
	{"reload", cli_reload, "take the policy file again, in place"},
	{"release", cli_release, "stop the agent, take everything off, restore"},
	{"guardian", cli_guardian, NULL}, /* the agent starts it */
};

static void print_help(FILE *out)
{
	fprintf(out, "usage: quench COMMAND [OPTION...]\n\n"
		     "Lossless Ethernet for RDMA on Linux: ECN marking, CNPs and DCQCN per queue "
		     "pair.\n\n");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (commands[i].help)
			fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
	fprintf(out, "\n`quench COMMAND --help` tells more.\n");
}

/* However the command ends: what could not be written was not said. */
static void check_stdout(void)
{
	int code = fflush(stdout) ? errno : 0;

	if (!code && !ferror(stdout))
		return;
	fprintf(stderr, "quench: the standard output cannot be written%s%s\n", code ? ": " : "",
		code ? strerror(code) : "");
	_exit(EXIT_FAILED);
}

int main(int argc, char **argv)
{
	atexit(check_stdout);
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("quench %s\n", QUENCH_VERSION);
		return EXIT_OK;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "quench: no command \"%s\"; `quench help` lists them\n", argv[1]);
	return EXIT_USAGE;
}
