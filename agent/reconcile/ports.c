// SPDX-License-Identifier: BSD-2-Clause
// The interfaces of this machine that a policy's patterns, drivers and addresses mean.
#include "reconcile/ports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netlink/ethtool.h"
#include "netlink/link_upper.h"
#include "policy/ports.h"

static bool any_open(const struct policy *policy)
{
	for (size_t i = 0; i < policy->ports_count; i++)
		if (policy_port_is_open(&policy->ports[i]))
			return true;
	return false;
}

static void describe(const struct link_info *link, struct policy_device *device)
{
	memcpy(device->name, link->name, sizeof(device->name));
	memcpy(device->mac, link->mac, sizeof(device->mac));
	ethtool_driver(link->name, device->driver, sizeof(device->driver));
	device->lowest = link->ethernet && !link_upper_kind(link);
}

/* eth2 before eth10: the same order at every start, whichever way the kernel lists them. */
static int device_order(const void *a, const void *b)
{
	return strverscmp(
		((const struct policy_device *)a)->name, ((const struct policy_device *)b)->name);
}

static int find_among(
	struct policy *policy, const struct link_info *links, size_t n, struct qerr *err)
{
	struct policy_device *devices = calloc(n + 1, sizeof(*devices));
	int code;

	if (!devices)
		return qerr_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		describe(&links[i], &devices[i]);
	qsort(devices, n, sizeof(*devices), device_order);
	code = policy_find_ports(policy, devices, n, err);
	free(devices);
	return code;
}

int ports_find(struct policy *policy, struct qerr *err)
{
	struct link_info *links;
	struct rtnl *nl;
	size_t n;
	int code;

	if (!any_open(policy))
		return 0;
	code = rtnl_open(&nl, err);
	if (code)
		return code;
	code = link_list(nl, &links, &n, err);
	if (!code) {
		code = find_among(policy, links, n, err);
		free(links);
	}
	rtnl_close(nl);
	return code;
}
