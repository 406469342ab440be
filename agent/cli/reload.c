// SPDX-License-Identifier: BSD-2-Clause
// quench reload: have the live agent take its policy file again.
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "engine/instance.h"
#include "observe/control.h"

static const char help[] =
	"Have the agent take its policy file again, in place: no frame is dropped, QPs keep their "
	"rates, pauses and counters go on. With a file that cannot be followed the old policy "
	"stays "
	"in force.\v"
	"Exit status: 0 reloaded, 1 refused (it needs a restart) or failed, 3 the policy is "
	"invalid. "
	"SIGHUP to the agent does the same.";

static int exit_of(const char *result)
{
	if (!strcmp(result, "ok"))
		return EXIT_OK;
	return strcmp(result, "invalid") ? EXIT_FAILED : EXIT_POLICY;
}

int cli_reload(int argc, char **argv)
{
	struct cli_options options;
	struct instance instance;
	struct qerr err = {};
	const json_t *fault;
	json_t *doc;
	int status;
	size_t i;

	cli_parse(argc, argv, help, CLI_INSTANCE | CLI_JSON, &options);
	if (instance_init(&instance, options.instance, &err) ||
		control_ask(instance.socket_path, "reload", &doc, &err))
		return cli_fail(err.text);
	status = exit_of(json_string_value(json_object_get(doc, "result")));
	if (options.json) {
		json_dumpf(doc, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_array_foreach (json_object_get(doc, "faults"), i, fault)
		fprintf(stderr, "%s\n", json_string_value(fault));
	json_decref(doc);
	return status;
}
