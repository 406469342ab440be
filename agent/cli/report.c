// SPDX-License-Identifier: BSD-2-Clause
// What several commands tell: a policy's faults on stderr, text in JSON.
#include "cli/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* Warnings are for `quench check`. */
static void print_fault(void *arg, const struct policy_note *note)
{
	(void)arg;
	if (!note->warning)
		fprintf(stderr, "%s\n", note->text);
}

int cli_load_policy(const char *path, struct policy *policy)
{
	struct qerr err = {};

	if (!policy_load(path, policy, print_fault, NULL, &err))
		return EXIT_OK;
	if (!err.text[0])
		return EXIT_POLICY;
	return cli_fail(err.text);
}

json_t *cli_text_json(const char *name)
{
	json_t *text = json_string(name);
	char *copy = text ? NULL : strdup(name);

	for (char *c = copy; c && *c; c++)
		if (*c & 0x80)
			*c = '?';
	text = text ?: json_string(copy ?: "");
	free(copy);
	return text;
}
