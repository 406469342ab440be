/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices that stand on others (VLAN, bond, bridge and their like), and what is at the bottom. */
#ifndef QUENCH_LINK_UPPER_H
#define QUENCH_LINK_UPPER_H

#include "netlink/link.h"

/* Its kind for messages, "bridge"; NULL for a device that stands on no other, such as hardware or a
 * veth. */
const char *link_upper_kind(const struct link_info *link);

/*
 * Write the names of the devices at the bottom under upper into buf ("eth0, eth1"), of the n in
 * list: through a VLAN on a bond, the bond's. Every name once; how many more there are when they do
 * not fit; "" when none is in the list. Returns 0 or -ENOMEM.
 */
int link_upper_bottoms(const struct link_info *list, size_t n, const struct link_info *upper,
	char *buf, size_t size);

/*
 * Queues belong where frames wait. On a device that stands on others none does, and what the
 * devices under it have waiting is out of its sight: -EOPNOTSUPP for one, which *err calls name,
 * with what to take instead. 0 for others.
 */
int link_upper_refuse(
	struct rtnl *nl, const struct link_info *link, const char *name, struct qerr *err);

#endif
