/* SPDX-License-Identifier: BSD-2-Clause */
/* The subcommands: one file each, one row each in main.c. */
#ifndef QUENCH_CLI_H
#define QUENCH_CLI_H

#include <argp.h>
#include <stdbool.h>

#define QUENCH_VERSION "0.1"

#define DEFAULT_POLICY	 "/etc/quench/policy.yaml"
#define DEFAULT_INSTANCE "default"

/* Exit codes that scripts rely on. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_POLICY = 3 };

/* Options that several commands share. */
struct cli_options {
	const char *instance;
	const char *policy;
	bool json;
	int files_count;
	char **files; /* what is left of the command line */
};

enum { CLI_INSTANCE = 1, CLI_POLICY = 2, CLI_JSON = 4, CLI_FILES = 8 };

/*
 * Read a subcommand's command line: argv[0] is the command's name, takes says which CLI_* options
 * it has. Prints help or the fault itself and ends the process then (0 or EXIT_USAGE).
 */
void cli_parse(
	int argc, char **argv, const char *help, unsigned int takes, struct cli_options *options);

/* "quench: text" to stderr; returns EXIT_FAILED. */
int cli_fail(const char *text);

int cli_run(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_status(int argc, char **argv);
int cli_flows(int argc, char **argv);
int cli_events(int argc, char **argv);
int cli_reload(int argc, char **argv);
int cli_release(int argc, char **argv);
int cli_analyze(int argc, char **argv);
int cli_headroom(int argc, char **argv);
int cli_guardian(int argc, char **argv);

#endif
