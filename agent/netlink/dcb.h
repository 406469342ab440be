/* SPDX-License-Identifier: BSD-2-Clause */
/* What the driver says of data center bridging. Layouts: linux/dcbnl.h. */
#ifndef QUENCH_DCB_H
#define QUENCH_DCB_H

#include <stdint.h>

#include "netlink/rtnl.h"

/*
 * Who exchanges DCB settings with the peer on that interface: *mode is of DCB_CAP_DCBX_*.
 * -EOPNOTSUPP for a driver without DCB.
 */
int dcb_mode(struct rtnl *nl, const char *port, uint8_t *mode, struct qerr *err);

/* The mode in the kernel's answer; -EBADMSG when it has none. */
int dcb_mode_of(const struct nlmsghdr *nlh, uint8_t *mode);

#endif
