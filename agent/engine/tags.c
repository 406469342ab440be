// SPDX-License-Identifier: BSD-2-Clause
// NICs that take VLAN tags out of frames before XDP sees them.
#include "engine/tags.h"

#include "netlink/ethtool.h"
#include "observe/warnings.h"

/* The features that take off tags, 802.1Q's and 802.1ad's, by the kernel's names. */
static const char *const strips[] = {"rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"};

static bool goes_by_pcp(const struct engine_port *port)
{
	return port->policy->trust == TRUST_PCP || port->policy->trust == TRUST_PCP_DSCP;
}

/* Where nothing can be asked, nothing is known to be hidden. */
static bool hides_tags(const struct engine_port *port)
{
	bool on;

	for (size_t i = 0; i < sizeof(strips) / sizeof(strips[0]); i++)
		if (!ethtool_feature(port->link.name, strips[i], &on) && on)
			return true;
	return false;
}

void tags_check(struct engine *engine, struct engine_port *port)
{
	const char *name = port->link.name;
	bool hidden = goes_by_pcp(port) && !port->gone && hides_tags(port);
	char text[WARNING_TEXT_MAX];

	warning_tags_hidden(name, text);
	if (hidden && !port->tags_hidden)
		events_note(&engine->events, "port %s: %s", name, text);
	if (!hidden && port->tags_hidden && !port->gone)
		events_note(
			&engine->events, "port %s: the NIC leaves VLAN tags in frames now", name);
	port->tags_hidden = hidden;
}
