// SPDX-License-Identifier: BSD-2-Clause
// The policy that `quench analyze` holds the traffic against.
#include <fnmatch.h>
#include <stdlib.h>

#include "cli/analyze_report.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "policy/compile.h"

static uint32_t trust_at(const struct policy *policy, const char *port)
{
	for (size_t i = 0; port && i < policy->ports_count; i++)
		if (!fnmatch(policy->ports[i].name, port, 0))
			return compile_port_flags(policy, &policy->ports[i]);
	return PORT_TRUST_DSCP | PORT_TRUST_PCP;
}

int analyze_policy_load(const char *path, const char *port, struct analyze_policy *out)
{
	struct policy *policy = malloc(sizeof(*policy));
	int status = policy ? cli_load_policy(path, policy) : cli_fail("out of memory");

	*out = (struct analyze_policy){};
	if (!status) {
		compile_conf(policy, &out->conf);
		out->port.flags = trust_at(policy, port);
	}
	for (size_t c = 0; !status && c < policy->classes_count; c++)
		out->lossy |= (policy->classes[c].kind == CLASS_LOSSY) << c;
	free(policy);
	return status;
}
