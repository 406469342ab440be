// SPDX-License-Identifier: BSD-2-Clause
// quench check: is this policy valid?
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/report.h"
#include "policy/policy.h"

static const char help[] = "Check policy files. Each fault is one line on stderr, "
			   "FILE:LINE:COLUMN: FIELD: what is wrong "
			   "and what is allowed.\vExit status: 0 valid, 3 invalid, 1 not readable.";

int cli_check(int argc, char **argv)
{
	struct policy *policy = malloc(sizeof(*policy));
	struct cli_options options;
	int worst = EXIT_OK;

	if (!policy)
		return cli_fail("out of memory");
	cli_parse(argc, argv, help, CLI_FILES, &options);
	for (int i = 0; i < options.files_count; i++) {
		int status = cli_load_policy(options.files[i], policy);

		if (status == EXIT_OK)
			printf("%s: valid\n", options.files[i]);
		if (status > worst)
			worst = status;
	}
	free(policy);
	return worst;
}
