// SPDX-License-Identifier: BSD-2-Clause
// quench guardian: started by the agent itself, never by hand.
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/guardian.h"
#include "engine/instance.h"

static const char help[] =
	"Started by `quench run`: opens all gates and releases all QP classes when the agent dies. "
	"Takes three descriptors of the agent's.";

static int descriptor(const char *text)
{
	char *end;
	long fd;

	errno = 0;
	fd = strtol(text, &end, 10);
	return errno || *end || end == text || fd < 0 || fd > 1 << 20 ? -1 : (int)fd;
}

int cli_guardian(int argc, char **argv)
{
	struct cli_options options;
	struct instance instance;
	struct qerr err = {};
	int fds[GUARDIAN_FDS];

	cli_parse(argc, argv, help, CLI_INSTANCE | CLI_FILES, &options);
	if (options.files_count != GUARDIAN_FDS)
		return cli_fail("guardian: it is started by `quench run`");
	for (int i = 0; i < GUARDIAN_FDS; i++) {
		fds[i] = descriptor(options.files[i]);
		if (fds[i] < 0)
			return cli_fail("guardian: it is started by `quench run`");
	}
	if (instance_init(&instance, options.instance, &err) ||
		guardian_watch(&instance, fds, &err))
		return cli_fail(err.text);
	return EXIT_OK;
}
