// SPDX-License-Identifier: BSD-2-Clause
// quench release: stop the agent, or clean up after a dead one.
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "engine/engine.h"
#include "engine/instance.h"
#include "observe/control.h"

enum { RELEASE_SECONDS = 10 };

static const char help[] = "Stop the agent and take everything off: queues, programs, pinned maps. "
			   "If the agent is dead, "
			   "clean up after it. Run it in the agent's network namespace.";

/* Ask the live agent, then wait until it is gone; -EBUSY if it does not go. */
static int ask_agent(struct instance *instance, struct qerr *err)
{
	struct timespec pause = {.tv_nsec = 20000000};
	json_t *doc;

	if (control_ask(instance->socket_path, "release", &doc, err))
		return -ENOENT;
	json_decref(doc);
	for (int i = 0; i < RELEASE_SECONDS * 50; i++) {
		if (!instance_lock(instance, err))
			return 0;
		nanosleep(&pause, NULL);
	}
	return qerr_set(err, -EBUSY, "the agent did not stop within %d s", RELEASE_SECONDS);
}

int cli_release(int argc, char **argv)
{
	struct cli_options options;
	struct instance instance;
	struct qerr err = {};
	bool found = false;
	int code;

	cli_parse(argc, argv, help, CLI_INSTANCE, &options);
	if (instance_init(&instance, options.instance, &err))
		return cli_fail(err.text);
	code = ask_agent(&instance, &err);
	if (code == -EBUSY)
		return cli_fail(err.text);
	if (code && instance_lock(&instance, &err))
		return cli_fail(err.text);
	if (engine_clean(&instance, &found, &err)) {
		instance_unlock(&instance);
		return cli_fail(err.text);
	}
	instance_forget(&instance);
	if (code && !found)
		printf("nothing to release: no agent of instance %s\n", instance.name);
	return EXIT_OK;
}
