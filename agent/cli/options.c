// SPDX-License-Identifier: BSD-2-Clause
// The options that subcommands share, read by argp.
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One row an option; a command sees the rows whose bit it takes. */
static const struct {
	unsigned int bit;
	struct argp_option option;
} rows[] = {
	{CLI_POLICY, {"config", 'c', "FILE", 0, "the policy (default " DEFAULT_POLICY ")", 0}},
	{CLI_INSTANCE, {"instance", 'i', "NAME", 0,
			       "which agent, if there are several (default \"default\")", 0}},
	{CLI_JSON, {"json", 'j', NULL, 0, "one JSON document on stdout, nothing else there", 0}},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

struct parsing {
	struct cli_options *options;
	unsigned int takes;
};

static error_t read_option(int key, char *arg, struct argp_state *state)
{
	struct parsing *parsing = state->input;
	struct cli_options *options = parsing->options;

	switch (key) {
	case 'c':
		options->policy = arg;
		return 0;
	case 'i':
		options->instance = arg;
		return 0;
	case 'j':
		options->json = true;
		return 0;
	case ARGP_KEY_ARGS:
		if (!(parsing->takes & CLI_FILES))
			argp_error(state, "unexpected argument \"%s\"", state->argv[state->next]);
		options->files = state->argv + state->next;
		options->files_count = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (parsing->takes & CLI_FILES)
			argp_error(state, "which FILE?");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

void cli_parse(
	int argc, char **argv, const char *help, unsigned int takes, struct cli_options *options)
{
	struct parsing parsing = {.options = options, .takes = takes};
	struct argp_option shown[ROWS + 1] = {};
	struct argp argp = {.options = shown, .parser = read_option, .doc = help};
	char name[64];
	size_t n = 0;

	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].bit & takes)
			shown[n++] = rows[i].option;
	if (takes & CLI_FILES)
		argp.args_doc = "FILE...";
	*options = (struct cli_options){.instance = DEFAULT_INSTANCE, .policy = DEFAULT_POLICY};
	snprintf(name, sizeof(name), "quench %s", argv[0]);
	argv[0] = name;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &parsing);
}

int cli_fail(const char *text)
{
	fprintf(stderr, "quench: %s\n", text);
	return EXIT_FAILED;
}
