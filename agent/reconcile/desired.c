// SPDX-License-Identifier: BSD-2-Clause
// From a port's policy to the queues it should have.
#include "reconcile/desired.h"

#include <string.h>

#include "policy/compile.h"

#define SPEED_MIN_BPS 1000000

bool desired_hooks(const struct policy *policy, const struct policy_port *port)
{
	return policy_port_has_queues(port) &&
	       (compile_makes_cnps(policy) || compile_pauses(policy));
}

uint64_t desired_speed_bps(const struct policy_port *port, uint64_t driver_bps)
{
	uint64_t speed_bps = port->speed_bps;

	if (!speed_bps)
		speed_bps = driver_bps ? driver_bps : port->rate_bps;
	return speed_bps > SPEED_MIN_BPS ? speed_bps : SPEED_MIN_BPS;
}

static struct tree_class class_of(const struct policy_class *from)
{
	return (struct tree_class){
		.limit_bytes = from->limit_bytes,
		.share_percent = from->share.percent,
		.strict = from->share.kind == SHARE_STRICT,
	};
}

void desired_spec(struct tree_spec *spec, const struct policy *policy,
	const struct policy_port *port, uint32_t mtu_bytes)
{
	struct rate_params rate;

	memset(spec, 0, sizeof(*spec));
	spec->rate_bps = port->rate_bps;
	spec->mtu_bytes = mtu_bytes;
	spec->classes_count = policy->classes_count;
	for (size_t c = 0; c < policy->classes_count; c++)
		spec->classes[c] = class_of(&policy->classes[c]);
	spec->slots = compile_slots(policy);
	if (!(compile_port_flags(policy, port) & PORT_REACTION) || !policy->classes_count)
		return;
	compile_dcqcn(policy, port, &rate);
	spec->qp_count = policy->dcqcn.qp_classes;
	spec->qp_class = compile_reaction_class(policy);
	spec->line_rate_bps = rate.line_rate_bps;
}
