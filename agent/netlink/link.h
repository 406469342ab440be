/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel says about a network interface. */
#ifndef QUENCH_LINK_H
#define QUENCH_LINK_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "netlink/rtnl.h"

struct link_info {
	char name[IFNAMSIZ];
	int ifindex;
	uint32_t mtu_bytes;
	uint8_t mac[6]; /* zeros where the address is not an Ethernet one */
	bool ethernet;
	bool up;	      /* IFF_UP: switched on by its owner */
	bool running;	      /* IFF_RUNNING: and has a carrier */
	int master_ifindex;   /* bridge, bond or VRF above it; 0: none */
	int lower_ifindex;    /* what a VLAN or macvlan stands on, a veth's peer; 0: none */
	bool lower_elsewhere; /* that is in another network namespace */
	uint32_t tx_queues;
	uint32_t rx_queues;
	char kind[16]; /* "veth", "bond", ...; empty for plain hardware */
};

/* Fill *info for the interface called name. -ENODEV when this namespace has none. */
int link_get(struct rtnl *nl, const char *name, struct link_info *info, struct qerr *err);

/* The same for the interface with that index, whatever it is called now. */
int link_get_index(struct rtnl *nl, int ifindex, struct link_info *info, struct qerr *err);

/* Every interface of this namespace into *list, for free(). Negative errno and *err else. */
int link_list(struct rtnl *nl, struct link_info **list, size_t *n, struct qerr *err);

/*
 * A socket that becomes readable when any link of this namespace changes (flags, MTU, name, coming,
 * going), or when news were lost; for close(). link_watch_take reads all there is.
 */
int link_watch_open(struct qerr *err);
void link_watch_take(int fd);

/* Put "port eth0: " in front of *err; returns rc. For requests that know only the index. */
int link_error(int ifindex, struct qerr *err, int rc);

/*
 * Make an interface's root qdisc run: a change of a rate or a gate does not do that by itself.
 * One small frame is queued straight into class priority (a class id whose leaf drops it: the
 * tree's sink) and so never leaves. link_kick_open gives a socket for that, for close(), or
 * -errno; it needs CAP_NET_RAW and CAP_NET_ADMIN. link_kick waits for nothing; 0 or -errno.
 */
int link_kick_open(struct qerr *err);
int link_kick(int fd, int ifindex, uint32_t priority);

/*
 * A socket for link_blank, which sends a blank frame with that skb->mark: what it becomes is up to
 * the port's egress hook. As above.
 */
int link_blank_open(uint32_t mark, struct qerr *err);
int link_blank(int fd, int ifindex);

#endif
