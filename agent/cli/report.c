// SPDX-License-Identifier: BSD-2-Clause
// Loading a policy with its faults told on stderr.
#include "cli/report.h"

#include <stdio.h>

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
