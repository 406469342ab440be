// SPDX-License-Identifier: BSD-2-Clause
// What a port is found to be: its queues, its programs, what its NIC does by itself.
#include "reconcile/look.h"

#include <errno.h>
#include <linux/dcbnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netlink/dcb.h"
#include "netlink/ethtool.h"
#include "reconcile/apply.h"
#include "reconcile/tree.h"

/* The abstract socket that lldpad serves its tools on; one in each network namespace. */
#define LLDPAD_SOCKET "@/com/intel/lldpad"

static bool has_feature(const char *port, const char *feature)
{
	bool on;

	return !ethtool_feature(port, feature, &on) && on;
}

/* Features go by the kernel's names for them. */
static void look_at_nic(struct rtnl *nl, const char *port, struct plan_nic *nic)
{
	uint8_t dcbx;

	nic->lro = has_feature(port, "rx-lro");
	nic->gro_hw = has_feature(port, "rx-gro-hw");
	nic->udp_gro =
		has_feature(port, "rx-udp-gro-forwarding") || has_feature(port, "rx-gro-list");
	nic->strips_tags =
		has_feature(port, "rx-vlan-hw-parse") || has_feature(port, "rx-vlan-stag-hw-parse");
	ethtool_pause(port, &nic->pause_rx, &nic->pause_tx);
	ethtool_channels(port, &nic->channels, &nic->channels_max);
	nic->firmware_dcbx = !dcb_mode(nl, port, &dcbx, NULL) && dcbx & DCB_CAP_DCBX_LLD_MANAGED;
}

static bool lldpad_runs(void)
{
	FILE *sockets = fopen("/proc/net/unix", "re");
	bool found = false;
	char line[512];

	while (sockets && !found && fgets(line, sizeof(line), sockets))
		found = strstr(line, LLDPAD_SOCKET);
	if (sockets)
		fclose(sockets);
	return found;
}

static bool has_filter(struct rtnl *nl, int ifindex)
{
	return !tc_filter_bpf_get(
		nl, ifindex, TREE_HANDLE(TREE_ROOT), TREE_FILTER_PREFERENCE, NULL);
}

int look_at(struct rtnl *nl, const struct link_info *link, const char *pin_dir,
	struct plan_facts *facts, struct qerr *err)
{
	int code;

	*facts = (struct plan_facts){.link = *link, .tick_ns = rtnl_tick_ns(nl)};
	code = tc_read(nl, link->ifindex, &facts->have, &facts->have_count, err);
	if (!code)
		code = hooks_read(pin_dir, link->ifindex, &facts->hooks, err);
	if (code) {
		look_free(facts);
		return code;
	}
	if (tree_root_is_ours(tree_root(facts->have, facts->have_count)))
		facts->filter = has_filter(nl, link->ifindex);
	look_at_nic(nl, link->name, &facts->nic);
	facts->lldpad = lldpad_runs();
	return 0;
}

void look_free(struct plan_facts *facts)
{
	free(facts->have);
	*facts = (struct plan_facts){};
}
