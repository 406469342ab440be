// SPDX-License-Identifier: BSD-2-Clause
// The policy file taken again by a live agent.
#include "engine/reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/port.h"
#include "engine/state.h"
#include "policy/compile.h"
#include "policy/restart.h"
#include "reconcile/ports.h"

static void add_fault(json_t *faults, const char *text)
{
	json_array_append_new(faults, json_string(text));
}

static void take_note(void *faults, const struct policy_note *note)
{
	if (!note->warning)
		add_fault(faults, note->text);
}

static int read_policy(const struct engine *engine, struct policy *policy, json_t *faults)
{
	struct qerr err = {};
	int code = policy_load(engine->policy_path, policy, take_note, faults, &err);

	if (!code)
		code = ports_find(policy, &err);
	if (code && err.text[0])
		add_fault(faults, err.text);
	return code;
}

/* Every port as the engine's policy has it; its queues last, for only the kernel may refuse. */
static int follow(struct engine *engine, struct qerr *err)
{
	int code = 0;

	for (size_t i = 0; i < engine->ports_count; i++)
		port_follow(engine, i);
	code = engine_replan_conf(engine, err);
	for (size_t i = 0; !code && i < engine->ports_count; i++)
		code = port_apply(engine, &engine->ports[i], err);
	return code;
}

static int change_policy(struct engine *engine, const struct policy *policy, struct qerr *err)
{
	const struct policy *before = engine->policy;
	struct fast_port ports[POLICY_PORTS_MAX];
	struct qerr second = {};
	int code;

	pthread_mutex_lock(&engine->nl_lock);
	engine->policy = policy;
	code = follow(engine, err);
	if (code) {
		engine->policy = before;
		if (follow(engine, &second))
			events_note(&engine->events, "the old policy does not come back: %s",
				second.text);
	}
	pthread_mutex_unlock(&engine->nl_lock);
	engine_fast_ports(engine, ports);
	if (!code)
		code = fast_reload(engine->fast, policy, ports, engine->ports_count, err);
	return code;
}

static const char *try_reload(struct engine *engine, struct policy *policy, json_t *faults)
{
	char what[128], text[256];
	struct qerr err = {};

	if (read_policy(engine, policy, faults))
		return "invalid";
	if (policy_needs_restart(engine->policy, policy, what, sizeof(what))) {
		snprintf(text, sizeof(text), "%s: %s has changed, which needs a restart",
			engine->policy_path, what);
		add_fault(faults, text);
		return "refused";
	}
	if (change_policy(engine, policy, &err)) {
		add_fault(faults, err.text);
		return "failed";
	}
	return "ok";
}

json_t *engine_reload(struct engine *engine)
{
	struct policy *policy = malloc(sizeof(*policy)), *old = engine->reloaded;
	json_t *faults = json_array();
	const char *result = policy ? try_reload(engine, policy, faults) : "failed";

	engine->reload_result = result;
	if (engine->policy == policy) {
		engine->loaded_at = time(NULL);
		engine->reloaded = policy;
		if (!strcmp(result, "ok"))
			free(old); /* else the fast thread may still go by it */
	} else {
		free(policy);
	}
	if (json_array_size(faults))
		events_note(&engine->events, "policy not reloaded: %s",
			json_string_value(json_array_get(faults, 0)));
	else
		events_note(&engine->events, "policy reloaded: %s", result);
	return json_pack("{s:i, s:s, s:o}", "version", 1, "result", result, "faults", faults);
}
