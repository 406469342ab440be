// SPDX-License-Identifier: BSD-2-Clause
// RTM_GETLINK read into a struct, and the frame that makes a port's root qdisc run.
#include "netlink/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int link_kind_attr(const struct nlattr *attr, void *arg)
{
	struct link_info *info = arg;

	if (mnl_attr_get_type(attr) == IFLA_INFO_KIND &&
		mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
		strncpy(info->kind, mnl_attr_get_str(attr), sizeof(info->kind) - 1);
	return MNL_CB_OK;
}

static void take_u32(const struct nlattr *attr, uint32_t *value)
{
	if (mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
		*value = mnl_attr_get_u32(attr);
}

static void take_mac(const struct nlattr *attr, struct link_info *info)
{
	if (info->ethernet && mnl_attr_get_payload_len(attr) == sizeof(info->mac))
		memcpy(info->mac, mnl_attr_get_payload(attr), sizeof(info->mac));
}

static int link_attr(const struct nlattr *attr, void *arg)
{
	struct link_info *info = arg;
	uint32_t master = 0, lower = 0;

	switch (mnl_attr_get_type(attr)) {
	case IFLA_IFNAME:
		if (mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			strncpy(info->name, mnl_attr_get_str(attr), sizeof(info->name) - 1);
		break;
	case IFLA_MTU:
		take_u32(attr, &info->mtu_bytes);
		break;
	case IFLA_ADDRESS:
		take_mac(attr, info);
		break;
	case IFLA_MASTER:
		take_u32(attr, &master);
		info->master_ifindex = (int)master;
		break;
	case IFLA_LINK:
		take_u32(attr, &lower);
		info->lower_ifindex = (int)lower;
		break;
	case IFLA_LINK_NETNSID:
		info->lower_elsewhere = true;
		break;
	case IFLA_NUM_TX_QUEUES:
		take_u32(attr, &info->tx_queues);
		break;
	case IFLA_NUM_RX_QUEUES:
		take_u32(attr, &info->rx_queues);
		break;
	case IFLA_LINKINFO:
		mnl_attr_parse_nested(attr, link_kind_attr, info);
		break;
	}
	return MNL_CB_OK;
}

static bool is_link(const struct nlmsghdr *nlh)
{
	return nlh->nlmsg_type == RTM_NEWLINK &&
	       mnl_nlmsg_get_payload_len(nlh) >= sizeof(struct ifinfomsg);
}

static int link_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
	struct link_info *info = arg;

	if (!is_link(nlh))
		return MNL_CB_OK;
	info->ifindex = ifi->ifi_index;
	info->ethernet = ifi->ifi_type == ARPHRD_ETHER;
	info->up = ifi->ifi_flags & IFF_UP;
	info->running = ifi->ifi_flags & IFF_RUNNING;
	return mnl_attr_parse(nlh, sizeof(*ifi), link_attr, info);
}

static int link_ask(
	struct rtnl *nl, const char *name, int ifindex, struct link_info *info, struct qerr *err)
{
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *ifi;

	*info = (struct link_info){0};
	nlh->nlmsg_type = RTM_GETLINK;
	ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	ifi->ifi_index = ifindex;
	if ((name && !mnl_attr_put_strz_check(nlh, sizeof(buf), IFLA_IFNAME, name)) ||
		!mnl_attr_put_u32_check(nlh, sizeof(buf), IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS))
		return qerr_set(err, -EMSGSIZE, "the request is too long");
	return rtnl_talk(nl, nlh, link_message, info, err);
}

int link_get(struct rtnl *nl, const char *name, struct link_info *info, struct qerr *err)
{
	int rc;

	if (!*name || strlen(name) >= IFNAMSIZ)
		return qerr_set(err, -EINVAL, "port '%s': a name has 1 to %d characters", name,
			IFNAMSIZ - 1);
	rc = link_ask(nl, name, 0, info, err);
	if (rc == -ENODEV)
		return qerr_set(err, rc, "port %s: no such interface", name);
	if (rc)
		return qerr_prefix(err, rc, "port %s: cannot read the interface", name);
	if (!info->ifindex)
		return qerr_set(err, -EPROTO, "port %s: the kernel did not describe it", name);
	return 0;
}

int link_get_index(struct rtnl *nl, int ifindex, struct link_info *info, struct qerr *err)
{
	int rc = link_ask(nl, NULL, ifindex, info, err);

	if (rc)
		return qerr_prefix(err, rc, "interface %d", ifindex);
	return info->ifindex == ifindex
		       ? 0
		       : qerr_set(err, -EPROTO, "interface %d: no answer", ifindex);
}

struct listing {
	struct link_info *list;
	size_t n, room;
};

static int listing_message(const struct nlmsghdr *nlh, void *arg)
{
	struct listing *l = arg;
	struct link_info *more;

	if (!is_link(nlh))
		return MNL_CB_OK;
	if (l->n == l->room) {
		more = realloc(l->list, (2 * l->room + 16) * sizeof(*more));
		if (!more) {
			errno = ENOMEM;
			return MNL_CB_ERROR;
		}
		l->list = more;
		l->room = 2 * l->room + 16;
	}
	l->list[l->n] = (struct link_info){0};
	return link_message(nlh, &l->list[l->n++]);
}

static void listing_restart(void *arg)
{
	struct listing *l = arg;

	l->n = 0;
}

int link_list(struct rtnl *nl, struct link_info **list, size_t *n, struct qerr *err)
{
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct listing l = {0};
	int rc;

	nlh->nlmsg_type = RTM_GETLINK;
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	*list = NULL;
	*n = 0;
	if (!mnl_attr_put_u32_check(nlh, sizeof(buf), IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS))
		return qerr_set(err, -EMSGSIZE, "the request is too long");
	rc = rtnl_dump(nl, nlh, listing_message, listing_restart, &l, err);
	if (rc) {
		free(l.list);
		return qerr_prefix(err, rc, "cannot read the interfaces");
	}
	*list = l.list;
	*n = l.n;
	return 0;
}

int link_error(int ifindex, struct qerr *err, int rc)
{
	char name[IF_NAMESIZE];

	if (if_indextoname(ifindex, name))
		return qerr_prefix(err, rc, "port %s", name);
	return qerr_prefix(err, rc, "port with index %d", ifindex);
}

int link_kick_open(struct qerr *err)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: receives nothing */

	if (fd < 0)
		return qerr_set(err, -errno, "cannot open a packet socket: %s", strerror(errno));
	return fd;
}

int link_kick(int fd, int ifindex, uint32_t priority)
{
	const struct ethhdr frame[4] = {{.h_proto = htons(ETH_P_802_EX1)}};
	const struct sockaddr_ll to = {
		.sll_family = AF_PACKET, .sll_ifindex = ifindex, .sll_halen = ETH_ALEN};

	if (setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)))
		return -errno;
	if (sendto(fd, frame, sizeof(frame), MSG_DONTWAIT, (const struct sockaddr *)&to,
		    sizeof(to)) < 0 &&
		errno != ENOBUFS) /* the sink dropped it, as it should */
		return -errno;
	return 0;
}

int link_blank_open(uint32_t mark, struct qerr *err)
{
	int fd = link_kick_open(err), code;

	if (fd < 0 || !setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)))
		return fd;
	code = qerr_set(err, -errno, "cannot mark frames: %s", strerror(errno));
	close(fd);
	return code;
}

int link_blank(int fd, int ifindex)
{
	const struct {
		struct ethhdr eth;
		uint8_t zero[ETH_ZLEN - ETH_HLEN];
	} frame = {.eth.h_proto = htons(ETH_P_802_EX1)};
	const struct sockaddr_ll to = {
		.sll_family = AF_PACKET, .sll_ifindex = ifindex, .sll_halen = ETH_ALEN};

	return sendto(fd, &frame, sizeof(frame), MSG_DONTWAIT, (const struct sockaddr *)&to,
		       sizeof(to)) < 0
		       ? -errno
		       : 0;
}

int link_watch_open(struct qerr *err)
{
	const struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), code;

	if (fd >= 0 && !bind(fd, (const struct sockaddr *)&addr, sizeof(addr)))
		return fd;
	code = qerr_set(err, -errno, "cannot watch links: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return code;
}

/* ENOBUFS is one more piece of news: what it was does not matter. */
void link_watch_take(int fd)
{
	char buf[8192];

	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC) > 0 || errno == ENOBUFS)
		errno = 0;
}
