// SPDX-License-Identifier: BSD-2-Clause
// What is on a port already and hurts: the reason and the remedy.
#include <stdio.h>
#include <string.h>

#include "reconcile/apply.h"
#include "reconcile/desired.h"
#include "reconcile/plan.h"

/* XDP without fragments has one page, less its own room, for a frame: on every common driver. */
#define XDP_MTU_MAX 3506

struct case_of {
	struct plan *plan;
	const struct policy *policy;
	const struct policy_port *port;
	const struct plan_facts *facts;
};

static bool goes_by_pcp(const struct policy_port *port)
{
	return port->trust == TRUST_PCP || port->trust == TRUST_PCP_DSCP;
}

static bool is_veth(const struct plan_facts *facts)
{
	return !strcmp(facts->link.kind, "veth");
}

/* A program of somebody else's decides whether ours, behind it, sees a frame at all. */
static void warn_chain(const struct case_of *c, const struct hook_chain *chain, const char *way)
{
	for (size_t i = 0; i < chain->count && !chain->programs[i].ours; i++)
		plan_add_warning(c->plan, "foreign_tcx",
			"the tcx %s program %u (%s) runs before ours: a frame for which it returns "
			"anything but TCX_NEXT never comes to ours",
			way, chain->programs[i].id, chain->programs[i].name);
}

static void warn_foreign_tcx(const struct case_of *c)
{
	if (!desired_hooks(c->policy, c->port))
		return;
	warn_chain(c, &c->facts->hooks.egress, "egress");
	if (c->port->role == PORT_HOST)
		warn_chain(c, &c->facts->hooks.ingress, "ingress");
}

static void warn_clsact(const struct case_of *c)
{
	for (size_t i = 0; i < c->facts->have_count && policy_port_has_queues(c->port); i++)
		if (c->facts->have[i].kind == TC_OTHER &&
			!strcmp(c->facts->have[i].other.kind, "clsact"))
			plan_add_warning(c->plan, "clsact",
				"a clsact qdisc is there: a filter on its egress that drops or "
				"redirects frames also takes those that open gates and become "
				"CNPs");
}

static void warn_lro(const struct case_of *c)
{
	if (c->facts->nic.lro)
		plan_add_warning(c->plan, "lro",
			"LRO is on: drivers refuse XDP with it, or merge frames before it; run: "
			"ethtool -K %s lro off",
			c->facts->link.name);
	if (c->facts->nic.gro_hw)
		plan_add_warning(c->plan, "gro_hw",
			"the NIC merges frames itself (rx-gro-hw): drivers refuse XDP with it; "
			"run: ethtool -K %s rx-gro-hw off",
			c->facts->link.name);
}

static void warn_udp_gro(const struct case_of *c)
{
	if (c->facts->nic.udp_gro && c->port->role == PORT_GATEWAY)
		plan_add_warning(c->plan, "udp_gro",
			"UDP packets that are forwarded are merged, so several RoCE packets wait, "
			"are marked and are counted as one; run: ethtool -K %s "
			"rx-udp-gro-forwarding off rx-gro-list off",
			c->facts->link.name);
}

static void warn_channels(const struct case_of *c)
{
	const struct plan_nic *nic = &c->facts->nic;

	if (!is_veth(c->facts) && nic->channels > nic->channels_max / 2)
		plan_add_warning(c->plan, "channels",
			"%u of %u channels are in use: drivers that need as many again for XDP "
			"(ena, virtio_net, ixgbe, gve) refuse native mode; run: ethtool -L %s "
			"combined %u",
			nic->channels, nic->channels_max, c->facts->link.name,
			nic->channels_max / 2);
}

static void warn_mtu(const struct case_of *c)
{
	if (!is_veth(c->facts) && c->facts->link.mtu_bytes > XDP_MTU_MAX &&
		c->port->xdp == PORT_XDP_NATIVE)
		plan_add_warning(c->plan, "mtu",
			"the MTU is %u: drivers without fragments in XDP refuse native mode above "
			"%d; `xdp: generic-ok` takes what there is",
			c->facts->link.mtu_bytes, XDP_MTU_MAX);
}

static void warn_tags(const struct case_of *c)
{
	if (c->facts->nic.strips_tags && goes_by_pcp(c->port))
		plan_add_warning(c->plan, "tags_hidden",
			"the NIC takes VLAN tags off before XDP sees them, and `trust` goes by "
			"them first; run: ethtool -K %s rx-vlan-offload off "
			"rx-vlan-stag-hw-parse off",
			c->facts->link.name);
}

static void warn_dcbx(const struct case_of *c)
{
	if (c->facts->nic.firmware_dcbx)
		plan_add_warning(c->plan, "firmware_dcbx",
			"the adapter's firmware exchanges DCB settings by itself and may change "
			"PFC and classes at any time; turn its LLDP agent off");
	if (c->facts->lldpad)
		plan_add_warning(c->plan, "lldpad",
			"lldpad runs here and may change the port's PFC and classes at any time; "
			"stop it, or take DCB away from it for this port: dcbtool sc %s dcb off",
			c->facts->link.name);
}

static void warn_global_pause(const struct case_of *c)
{
	const struct plan_nic *nic = &c->facts->nic;

	if (policy_port_has_queues(c->port) && (nic->pause_rx || nic->pause_tx))
		plan_add_warning(c->plan, "global_pause",
			"pauses of the whole link (802.3x) are on (%s%s%s): they stop every class "
			"at once, CNPs too; run: ethtool -A %s rx off tx off",
			nic->pause_rx ? "rx" : "", nic->pause_rx && nic->pause_tx ? " and " : "",
			nic->pause_tx ? "tx" : "", c->facts->link.name);
}

void plan_warn(struct plan *plan, const struct policy *policy, const struct policy_port *port,
	const struct plan_facts *facts)
{
	static void (*const rules[])(const struct case_of *c) = {
		warn_foreign_tcx,
		warn_clsact,
		warn_lro,
		warn_udp_gro,
		warn_channels,
		warn_mtu,
		warn_tags,
		warn_dcbx,
		warn_global_pause,
	};
	const struct case_of c = {plan, policy, port, facts};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		rules[i](&c);
}
