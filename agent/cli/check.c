// SPDX-License-Identifier: BSD-2-Clause
// quench check: is this policy valid, and is there something in it that is known to hurt?
#include "cli/cli.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/report.h"
#include "policy/policy.h"

static const char help[] =
	"Check policy files. Each fault is one line on stderr, FILE:LINE:COLUMN: FIELD: what is "
	"wrong "
	"and what is allowed. A warning says what is legal but known to hurt.\v"
	"Exit status: 0 valid, with or without warnings, 3 invalid, 1 not readable.";

/* What is found in one file. */
struct findings {
	bool silent; /* do not print */
	json_t *faults, *warnings;
};

static void take_note(void *arg, const struct policy_note *note)
{
	struct findings *findings = arg;

	if (!findings->silent)
		fprintf(stderr, "%s\n", note->text);
	json_array_append_new(note->warning ? findings->warnings : findings->faults,
		json_pack("{s:I, s:I, s:s, s:s}", "line", (json_int_t)note->line, "column",
			(json_int_t)note->column, "field", note->field, "what", note->what));
}

static void print_verdict(const char *file, size_t warnings)
{
	if (warnings)
		printf("%s: valid, %zu warning%s\n", file, warnings, warnings > 1 ? "s" : "");
	else
		printf("%s: valid\n", file);
}

/* Check one file and describe it in *row; the exit status for it alone. */
static int check_file(const char *file, struct policy *policy, bool json, json_t **row)
{
	struct findings findings = {json, json_array(), json_array()};
	struct qerr err = {};
	int code = policy_load(file, policy, take_note, &findings, &err);
	bool unreadable = code && err.text[0];

	if (unreadable)
		cli_fail(err.text);
	else if (!code && !json)
		print_verdict(file, json_array_size(findings.warnings));
	*row = json_pack("{s:o, s:b, s:o, s:o}", "file", cli_text_json(file), "valid", !code,
		"faults", findings.faults, "warnings", findings.warnings);
	if (unreadable)
		json_object_set_new(*row, "error", cli_text_json(err.text));
	return !code ? EXIT_OK : unreadable ? EXIT_FAILED : EXIT_POLICY;
}

static void print_json(json_t *files)
{
	json_t *doc = json_pack("{s:O}", "files", files);

	json_dumpf(doc, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(doc);
}

int cli_check(int argc, char **argv)
{
	struct policy *policy = malloc(sizeof(*policy));
	json_t *files = json_array(), *row;
	struct cli_options options;
	int worst = EXIT_OK;

	if (!policy)
		return cli_fail("out of memory");
	cli_parse(argc, argv, help, CLI_FILES | CLI_JSON, &options);
	for (int i = 0; i < options.files_count; i++) {
		int status = check_file(options.files[i], policy, options.json, &row);

		json_array_append_new(files, row);
		if (status > worst)
			worst = status;
	}
	if (options.json)
		print_json(files);
	json_decref(files);
	free(policy);
	return worst;
}
