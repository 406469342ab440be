/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel's RDMA stack says of this machine's QPs, over its own netlink protocol. */
#ifndef QUENCH_RDMA_H
#define QUENCH_RDMA_H

#include "control/local.h"
#include "netlink/rtnl.h"

#define RDMA_CLASS	"/sys/class/infiniband"
#define RDMA_DEVICE_MAX 64 /* IB_DEVICE_NAME_MAX */

struct rdma_device {
	uint32_t index;
	bool here; /* one of its ports is an interface of this network namespace */
	char name[RDMA_DEVICE_MAX];
};

struct rdma_state {
	struct rdma_device *devices;
	size_t devices_count;
	struct local_qp *qps; /* in the order of local_sort */
	size_t qps_count;
};

/*
 * A socket for rdma_read; rtnl_close frees it. As long as it is open the RDMA core cannot be
 * unloaded. -EPROTONOSUPPORT: there is no RDMA here; none is loaded by asking.
 */
int rdma_open(struct rtnl **nl, struct qerr *err);

/*
 * Every connected QP (RC and UC, ready to receive at least) of the devices in this network
 * namespace, into *state, for rdma_free. Addresses are those of the CM id that names the QP; they
 * are unknown without one, and ambiguous where ids differ. The kernel shows what belongs to
 * processes of the caller's pid namespace. Negative errno and *err else, and then *state is empty.
 * Layout: linux/rdma/rdma_netlink.h, drivers/infiniband/core/nldev.c.
 */
int rdma_read(struct rtnl *nl, struct rdma_state *state, struct qerr *err);
void rdma_free(struct rdma_state *state);

/*
 * The addresses of that device's QPs, its GIDs of all ports, added to *list (for free()) of *count.
 * class is RDMA_CLASS. A device that is gone has none. -ENOMEM.
 */
int rdma_addresses(const char *class, const struct rdma_device *device, struct local_address **list,
	size_t *count);

#endif
