// SPDX-License-Identifier: BSD-2-Clause
// BPF programs attached through tc: the root qdisc's classifier, and the clsact hooks.
#include "netlink/tc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <string.h>

#include "netlink/link.h"

static int talk(
	struct rtnl *nl, int ifindex, struct nlmsghdr *nlh, const char *what, struct qerr *err)
{
	int rc = rtnl_talk(nl, nlh, NULL, NULL, err);

	if (!rc)
		return 0;
	qerr_prefix(err, rc, "%s", what);
	return link_error(ifindex, err, rc);
}

static struct nlmsghdr *put_message(void *buf, size_t size, uint16_t type, uint16_t flags,
	const struct tcmsg *tcm, const char *kind)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = flags;
	memcpy(mnl_nlmsg_put_extra_header(nlh, sizeof(*tcm)), tcm, sizeof(*tcm));
	return mnl_attr_put_strz_check(nlh, size, TCA_KIND, kind) ? nlh : NULL;
}

static struct tcmsg filter_place(int ifindex, uint32_t parent, uint16_t prio)
{
	return (struct tcmsg){.tcm_ifindex = ifindex,
		.tcm_handle = TC_FILTER_HANDLE,
		.tcm_parent = parent,
		.tcm_info = TC_H_MAKE((uint32_t)prio << 16, htons(ETH_P_ALL))};
}

static bool put_options(
	struct nlmsghdr *nlh, size_t size, int prog_fd, const char *name, uint32_t classid)
{
	struct nlattr *nest = mnl_attr_nest_start_check(nlh, size, TCA_OPTIONS);

	if (!nest || (classid && !mnl_attr_put_u32_check(nlh, size, TCA_BPF_CLASSID, classid)) ||
		!mnl_attr_put_u32_check(nlh, size, TCA_BPF_FD, (uint32_t)prog_fd) ||
		!mnl_attr_put_strz_check(nlh, size, TCA_BPF_NAME, name) ||
		!mnl_attr_put_u32_check(nlh, size, TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT))
		return false;
	mnl_attr_nest_end(nlh, nest);
	return true;
}

int tc_filter_bpf_add(struct rtnl *nl, int ifindex, uint32_t parent, uint16_t prio, int prog_fd,
	const char *name, uint32_t classid, bool replace, struct qerr *err)
{
	const uint16_t flags = NLM_F_CREATE | (replace ? NLM_F_REPLACE : NLM_F_EXCL);
	const struct tcmsg tcm = filter_place(ifindex, parent, prio);
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct nlmsghdr *nlh;

	if (!parent || !prio || prog_fd < 0)
		return qerr_set(err, -EINVAL, "filter %s: no parent, preference or program", name);
	nlh = put_message(buf, sizeof(buf), RTM_NEWTFILTER, flags, &tcm, "bpf");
	if (!nlh || !put_options(nlh, sizeof(buf), prog_fd, name, classid))
		return qerr_set(err, -EMSGSIZE, "filter %s: its name is too long", name);
	return talk(nl, ifindex, nlh, "cannot attach the BPF filter", err);
}

static int filter_ask(struct rtnl *nl, int ifindex, uint32_t parent, uint16_t prio, uint16_t type,
	const char *what, struct qerr *err)
{
	const struct tcmsg tcm = filter_place(ifindex, parent, prio);
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct nlmsghdr *nlh;

	if (!parent || !prio)
		return qerr_set(err, -EINVAL, "filter: no parent or preference");
	nlh = put_message(buf, sizeof(buf), type, 0, &tcm, "bpf");
	if (!nlh)
		return qerr_set(err, -EMSGSIZE, "no room for a tc request");
	return talk(nl, ifindex, nlh, what, err);
}

int tc_filter_bpf_get(
	struct rtnl *nl, int ifindex, uint32_t parent, uint16_t prio, struct qerr *err)
{
	return filter_ask(
		nl, ifindex, parent, prio, RTM_GETTFILTER, "cannot read the BPF filter", err);
}

int tc_filter_bpf_del(
	struct rtnl *nl, int ifindex, uint32_t parent, uint16_t prio, struct qerr *err)
{
	return filter_ask(
		nl, ifindex, parent, prio, RTM_DELTFILTER, "cannot detach the BPF filter", err);
}

static int clsact_talk(struct rtnl *nl, int ifindex, uint16_t type, uint16_t flags,
	const char *what, struct qerr *err)
{
	const struct tcmsg tcm = {.tcm_ifindex = ifindex,
		.tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0),
		.tcm_parent = TC_H_CLSACT};
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct nlmsghdr *nlh = put_message(buf, sizeof(buf), type, flags, &tcm, "clsact");

	if (!nlh)
		return qerr_set(err, -EMSGSIZE, "no room for a tc request");
	return talk(nl, ifindex, nlh, what, err);
}

int tc_clsact_add(struct rtnl *nl, int ifindex, struct qerr *err)
{
	return clsact_talk(
		nl, ifindex, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, "cannot add clsact", err);
}

int tc_clsact_del(struct rtnl *nl, int ifindex, struct qerr *err)
{
	return clsact_talk(nl, ifindex, RTM_DELQDISC, 0, "cannot delete clsact", err);
}
