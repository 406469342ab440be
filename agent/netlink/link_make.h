/* SPDX-License-Identifier: BSD-2-Clause */
/* Virtual interfaces made, joined and switched on: for networks of our own. */
#ifndef QUENCH_LINK_MAKE_H
#define QUENCH_LINK_MAKE_H

#include "netlink/rtnl.h"

/* Make a pair of veth interfaces. -EEXIST when a name is taken. */
int link_make_veth(struct rtnl *nl, const char *name, const char *peer, struct qerr *err);

/* Make a bridge, without STP. */
int link_make_bridge(struct rtnl *nl, const char *name, struct qerr *err);

/* Switch the interface on, as a port of the bridge with that index unless it is 0. */
int link_switch_on(struct rtnl *nl, int ifindex, int bridge_ifindex, struct qerr *err);

#endif
