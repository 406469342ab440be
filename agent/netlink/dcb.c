// SPDX-License-Identifier: BSD-2-Clause
// What the driver says of data center bridging.
#include "netlink/dcb.h"

#include <errno.h>
#include <linux/dcbnl.h>
#include <string.h>

static int mode_attr(const struct nlattr *attr, void *arg)
{
	const struct nlattr **found = arg;

	if (mnl_attr_get_type(attr) == DCB_ATTR_DCBX &&
		mnl_attr_get_payload_len(attr) >= sizeof(uint8_t))
		*found = attr;
	return MNL_CB_OK;
}

int dcb_mode_of(const struct nlmsghdr *nlh, uint8_t *mode)
{
	const struct nlattr *found = NULL;

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(struct dcbmsg) ||
		mnl_attr_parse(nlh, sizeof(struct dcbmsg), mode_attr, &found) < 0 || !found)
		return -EBADMSG;
	*mode = mnl_attr_get_u8(found);
	return 0;
}

struct answer {
	int code;
	uint8_t mode;
};

static int take_answer(const struct nlmsghdr *nlh, void *arg)
{
	struct answer *answer = arg;

	if (nlh->nlmsg_type == RTM_GETDCB)
		answer->code = dcb_mode_of(nlh, &answer->mode);
	return MNL_CB_OK;
}

int dcb_mode(struct rtnl *nl, const char *port, uint8_t *mode, struct qerr *err)
{
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct answer answer = {.code = -EBADMSG};
	struct dcbmsg *dcb;
	int code;

	nlh->nlmsg_type = RTM_GETDCB;
	dcb = mnl_nlmsg_put_extra_header(nlh, sizeof(*dcb));
	dcb->cmd = DCB_CMD_GDCBX;
	mnl_attr_put_strz(nlh, DCB_ATTR_IFNAME, port);
	code = rtnl_talk(nl, nlh, take_answer, &answer, err);
	if (!code && answer.code)
		code = qerr_set(err, answer.code, "an answer without a DCBX mode");
	*mode = answer.mode;
	return code ? qerr_prefix(err, code, "port %s", port) : 0;
}
