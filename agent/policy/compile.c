// SPDX-License-Identifier: BSD-2-Clause
// From the policy to what the kernel side is told.
#include "policy/compile.h"

#include <string.h>

uint32_t compile_slots(const struct policy *policy)
{
	return (uint32_t)policy->ports_count + 1;
}

static void compile_class(
	const struct policy *policy, const struct policy_class *from, struct class_conf *to)
{
	to->priority = from->priority;
	to->limit_bytes = from->limit_bytes;
	to->unicast_only = from->kind != CLASS_LOSSY && !policy->pfc.multicast;
	to->ecn = from->ecn.present;
	if (!from->ecn.present)
		return;
	to->kmin_bytes = from->ecn.kmin_bytes;
	to->kmax_bytes = from->ecn.kmax_bytes;
	to->slope =
		(uint64_t)(from->ecn.pmax * COMPILE_SLOPE_ONE / (to->kmax_bytes - to->kmin_bytes));
}

static void compile_protocols(const struct policy_protocols *from, struct conf *conf)
{
	conf->udp_ports = (struct wire_ports)WIRE_PORTS_DEFAULT;
	conf->udp_ports.roce = WIRE_HTONS(from->roce_port);
	conf->udp_ports.geneve = WIRE_HTONS(from->geneve_port);
	if (from->vxlan_ports.given)
		memset(conf->udp_ports.vxlan, 0, sizeof(conf->udp_ports.vxlan));
	for (uint32_t i = 0; i < from->vxlan_ports.count; i++)
		conf->udp_ports.vxlan[i] = WIRE_HTONS(from->vxlan_ports.port[i]);
	for (uint32_t i = 0; i < from->iwarp_ports.count; i++)
		conf->iwarp_ports[i] = WIRE_HTONS(from->iwarp_ports.port[i]);
}

/* How long a frame may wait in a queue at kmax, at the slowest gateway port. */
static uint64_t slowest_queue_ns(const struct policy *policy)
{
	uint64_t slowest_ns = 0;

	for (size_t p = 0; p < policy->ports_count; p++)
		for (size_t c = 0; c < policy->classes_count; c++) {
			uint64_t rate_bps = policy->ports[p].rate_bps, bits, wait_ns;

			if (policy->ports[p].role != PORT_GATEWAY || !rate_bps)
				continue;
			bits = 8ull * policy->classes[c].ecn.kmax_bytes;
			wait_ns = (uint64_t)(bits * 1e9 / rate_bps);
			slowest_ns = wait_ns > slowest_ns ? wait_ns : slowest_ns;
		}
	return slowest_ns;
}

void compile_conf(const struct policy *policy, struct conf *conf)
{
	memset(conf, 0, sizeof(*conf));
	conf->cnp_interval_ns = policy->cnp.interval_ns;
	if (policy->cnp.generate == CNP_AT_MARK)
		conf->cnp_echo_ns = policy->cnp.interval_ns + slowest_queue_ns(policy);
	conf->slots = compile_slots(policy);
	conf->cnp_tos = policy->cnp.dscp << 2;
	conf->cnp_pcp = policy->cnp.priority;
	conf->pfc_budget_per_s = policy->pfc.budget_per_s;
	conf->polls = policy->realtime.poll;
	compile_protocols(&policy->protocols, conf);
	memset(conf->dscp_class, CLASS_NONE, sizeof(conf->dscp_class));
	memset(conf->pcp_class, CLASS_NONE, sizeof(conf->pcp_class));
	for (size_t c = 0; c < policy->classes_count; c++) {
		const struct policy_class *cls = &policy->classes[c];

		compile_class(policy, cls, &conf->classes[c]);
		for (int dscp = 0; dscp < 64; dscp++)
			if (cls->dscp_mask >> dscp & 1)
				conf->dscp_class[dscp] = c;
		for (int pcp = 0; pcp < 8; pcp++)
			if (cls->pcp_mask >> pcp & 1)
				conf->pcp_class[pcp] = c;
	}
}

static uint32_t trust_flags(enum port_trust trust)
{
	static const uint32_t flags[] = {
		[TRUST_DSCP_PCP] = PORT_TRUST_DSCP | PORT_TRUST_PCP,
		[TRUST_PCP_DSCP] = PORT_TRUST_DSCP | PORT_TRUST_PCP | PORT_PCP_FIRST,
		[TRUST_DSCP] = PORT_TRUST_DSCP,
		[TRUST_PCP] = PORT_TRUST_PCP,
	};

	return flags[trust];
}

/* A port that makes CNPs of what it sends out, marked just now or before. */
static bool port_notifies(const struct policy *policy, const struct policy_port *port)
{
	return policy->cnp.generate == CNP_AT_MARK ||
	       (policy->cnp.generate == CNP_ON_CE && port->notify);
}

static uint32_t role_flags(const struct policy *policy, const struct policy_port *port)
{
	bool notify = policy->cnp.generate != CNP_OFF;

	if (port->role == PORT_HOST)
		return PORT_ENDS_PAUSE | PORT_REACTION | (notify ? PORT_NOTIFY_INGRESS : 0);
	if (port->role == PORT_GATEWAY)
		return PORT_ENDS_PAUSE | PORT_MARKS | (compile_pauses(policy) ? PORT_PAUSES : 0) |
		       (port_notifies(policy, port) ? PORT_NOTIFY_EGRESS : 0);
	return 0;
}

uint32_t compile_port_flags(const struct policy *policy, const struct policy_port *port)
{
	return role_flags(policy, port) | trust_flags(port->trust);
}

bool compile_makes_cnps(const struct policy *policy)
{
	for (size_t i = 0; i < policy->ports_count; i++)
		if (compile_port_flags(policy, &policy->ports[i]) &
			(PORT_NOTIFY_INGRESS | PORT_NOTIFY_EGRESS))
			return true;
	return false;
}

uint8_t compile_reaction_class(const struct policy *policy)
{
	size_t best = 0;

	for (size_t c = policy->classes_count; c-- > 0;)
		if (policy->classes[c].kind == CLASS_LOSSLESS)
			best = c;
	for (size_t c = policy->classes_count; c-- > 0;)
		if (policy->classes[c].kind == CLASS_LOSSLESS && policy->classes[c].ecn.present)
			best = c;
	return best;
}

void compile_dcqcn(
	const struct policy *policy, const struct policy_port *port, struct rate_params *params)
{
	*params = policy->dcqcn.rate;
	if (!params->line_rate_bps)
		params->line_rate_bps = port->rate_bps;
	if (params->first_cnp_bps > params->line_rate_bps)
		params->first_cnp_bps = params->line_rate_bps;
	rate_params_scale(params, policy->dcqcn.reference_bps);
}
