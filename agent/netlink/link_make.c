// SPDX-License-Identifier: BSD-2-Clause
// RTM_NEWLINK: veth pairs, bridges, ports of bridges.
#include "netlink/link_make.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/veth.h>
#include <net/if.h>

struct request {
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct nlmsghdr *nlh;
};

static struct ifinfomsg *request_start(struct request *r, uint16_t flags)
{
	r->nlh = mnl_nlmsg_put_header(r->buf);
	r->nlh->nlmsg_type = RTM_NEWLINK;
	r->nlh->nlmsg_flags = flags;
	return mnl_nlmsg_put_extra_header(r->nlh, sizeof(struct ifinfomsg));
}

static bool put_name(struct request *r, const char *name)
{
	return mnl_attr_put_strz_check(r->nlh, sizeof(r->buf), IFLA_IFNAME, name);
}

/* The other end is described by a whole message of its own, less the header. */
static bool put_peer(struct request *r, const char *peer)
{
	struct nlattr *data = mnl_attr_nest_start_check(r->nlh, sizeof(r->buf), IFLA_INFO_DATA);
	struct nlattr *info =
		data ? mnl_attr_nest_start_check(r->nlh, sizeof(r->buf), VETH_INFO_PEER) : NULL;

	if (!info || r->nlh->nlmsg_len + sizeof(struct ifinfomsg) > sizeof(r->buf))
		return false;
	mnl_nlmsg_put_extra_header(r->nlh, sizeof(struct ifinfomsg));
	if (!put_name(r, peer))
		return false;
	mnl_attr_nest_end(r->nlh, info);
	mnl_attr_nest_end(r->nlh, data);
	return true;
}

static bool put_kind(struct request *r, const char *kind, const char *peer)
{
	struct nlattr *info = mnl_attr_nest_start_check(r->nlh, sizeof(r->buf), IFLA_LINKINFO);

	if (!info || !mnl_attr_put_strz_check(r->nlh, sizeof(r->buf), IFLA_INFO_KIND, kind) ||
		(peer && !put_peer(r, peer)))
		return false;
	mnl_attr_nest_end(r->nlh, info);
	return true;
}

static int make(
	struct rtnl *nl, const char *kind, const char *name, const char *peer, struct qerr *err)
{
	struct request r;
	int code;

	request_start(&r, NLM_F_CREATE | NLM_F_EXCL);
	if (!put_name(&r, name) || !put_kind(&r, kind, peer))
		return qerr_set(err, -EMSGSIZE, "the request is too long");
	code = rtnl_talk(nl, r.nlh, NULL, NULL, err);
	return code ? qerr_prefix(err, code, "cannot make %s of kind %s", name, kind) : 0;
}

int link_make_veth(struct rtnl *nl, const char *name, const char *peer, struct qerr *err)
{
	return make(nl, "veth", name, peer, err);
}

int link_make_bridge(struct rtnl *nl, const char *name, struct qerr *err)
{
	return make(nl, "bridge", name, NULL, err);
}

int link_switch_on(struct rtnl *nl, int ifindex, int bridge_ifindex, struct qerr *err)
{
	struct request r;
	struct ifinfomsg *ifi = request_start(&r, 0);
	int code;

	ifi->ifi_index = ifindex;
	ifi->ifi_flags = ifi->ifi_change = IFF_UP;
	if (bridge_ifindex &&
		!mnl_attr_put_u32_check(r.nlh, sizeof(r.buf), IFLA_MASTER, bridge_ifindex))
		return qerr_set(err, -EMSGSIZE, "the request is too long");
	code = rtnl_talk(nl, r.nlh, NULL, NULL, err);
	return code ? qerr_prefix(err, code, "cannot switch on interface %d", ifindex) : 0;
}
