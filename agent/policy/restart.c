// SPDX-License-Identifier: BSD-2-Clause
// What a live agent cannot take over from a changed policy: the shape of queues and maps, sockets.
#include "policy/restart.h"

#include <string.h>

#include "policy/compile.h"

static bool ports_differ(const struct policy *a, const struct policy *b)
{
	return a->ports_count != b->ports_count;
}

static bool classes_differ(const struct policy *a, const struct policy *b)
{
	return a->classes_count != b->classes_count;
}

static bool pools_differ(const struct policy *a, const struct policy *b)
{
	return a->dcqcn.qp_classes != b->dcqcn.qp_classes;
}

static bool reaction_classes_differ(const struct policy *a, const struct policy *b)
{
	return compile_reaction_class(a) != compile_reaction_class(b);
}

static bool flows_differ(const struct policy *a, const struct policy *b)
{
	return a->flows_max != b->flows_max;
}

static bool listeners_differ(const struct policy *a, const struct policy *b)
{
	return a->observe.port != b->observe.port || strcmp(a->observe.host, b->observe.host);
}

static bool threads_differ(const struct policy *a, const struct policy *b)
{
	return a->realtime.poll != b->realtime.poll || a->realtime.cpus != b->realtime.cpus ||
	       a->realtime.priority != b->realtime.priority;
}

static const struct {
	const char *what;
	bool (*differs)(const struct policy *a, const struct policy *b);
} wholes[] = {
	{"the number of ports", ports_differ},
	{"the number of classes", classes_differ},
	{"dcqcn.qp_classes", pools_differ},
	{"the class whose QPs are limited", reaction_classes_differ},
	{"flows_max", flows_differ},
	{"observe.listen", listeners_differ},
	{"realtime", threads_differ},
};

/* What of a port differs, or NULL. */
static const char *port_differs(const struct policy_port *a, const struct policy_port *b)
{
	if (a->role != b->role)
		return "the role of";
	if (a->xdp != b->xdp)
		return "xdp of";
	if (a->replace_mq != b->replace_mq)
		return "replace_mq of";
	return strcmp(a->name, b->name) ? "the place in the list of" : NULL;
}

const char *policy_needs_restart(
	const struct policy *before, const struct policy *after, char *buf, size_t size)
{
	for (size_t i = 0; i < sizeof(wholes) / sizeof(wholes[0]); i++) {
		if (!wholes[i].differs(before, after))
			continue;
		snprintf(buf, size, "%s", wholes[i].what);
		return buf;
	}
	for (size_t i = 0; i < before->ports_count; i++) {
		const char *what = port_differs(&before->ports[i], &after->ports[i]);

		if (!what)
			continue;
		snprintf(buf, size, "%s port %s", what, after->ports[i].name);
		return buf;
	}
	return NULL;
}
