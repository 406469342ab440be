// SPDX-License-Identifier: BSD-2-Clause
// quench run: the agent, in the foreground.
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/report.h"
#include "engine/engine.h"
#include "engine/instance.h"
#include "reconcile/ports.h"

static const char help[] = "Attach to the policy's ports, set up their queues and run until "
			   "SIGTERM, SIGINT or `quench "
			   "release`. Everything is off again afterwards.\v"
			   "Exit status: 0 stopped, 1 failed, 3 the policy is invalid.";

static int run(struct instance *instance, const struct policy *policy, const char *path)
{
	struct qerr err = {};

	if (instance_lock(instance, &err))
		return cli_fail(err.text);
	if (engine_run(instance, policy, path, &err))
		return cli_fail(err.text);
	return EXIT_OK;
}

int cli_run(int argc, char **argv)
{
	struct policy *policy = malloc(sizeof(*policy));
	struct cli_options options;
	struct instance instance;
	struct qerr err = {};
	int status;

	if (!policy)
		return cli_fail("out of memory");
	cli_parse(argc, argv, help, CLI_INSTANCE | CLI_POLICY, &options);
	status = cli_load_policy(options.policy, policy);
	if (status == EXIT_OK && ports_find(policy, &err))
		status = cli_fail(err.text);
	if (status == EXIT_OK && instance_init(&instance, options.instance, &err))
		status = cli_fail(err.text);
	if (status == EXIT_OK)
		status = run(&instance, policy, options.policy);
	free(policy);
	return status;
}
