// SPDX-License-Identifier: BSD-2-Clause
// Qdiscs and classes as messages: written, sent, and read back.
#include "netlink/tc.h"

#include <errno.h>
#include <linux/gen_stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netlink/link.h"
#include "netlink/tc_kind.h"

#define NAME_MAX_BYTES 64

bool tc_is_class(const struct tc_object *obj)
{
	return obj->kind == TC_HTB_CLASS || obj->kind == TC_OTHER_CLASS;
}

static const char *kind_name(const struct tc_object *obj)
{
	const struct tc_kind_ops *ops = tc_kind_ops(obj->kind);

	return ops ? ops->name : obj->other.kind;
}

const char *tc_name(const struct tc_object *obj, char *buf, size_t size)
{
	if (tc_is_class(obj))
		snprintf(buf, size, "%s class %x:%x", kind_name(obj), obj->handle >> 16,
			TC_H_MIN(obj->handle));
	else
		snprintf(buf, size, "%s qdisc %x:", kind_name(obj), obj->handle >> 16);
	return buf;
}

const char *tc_place(const struct tc_object *obj, char *buf, size_t size)
{
	if (obj->parent == TC_H_ROOT)
		snprintf(buf, size, "root");
	else
		snprintf(buf, size, "parent %x:%x", obj->parent >> 16, TC_H_MIN(obj->parent));
	return buf;
}

const char *tc_values(const struct tc_object *obj, char *buf, size_t size)
{
	const struct tc_kind_ops *ops = tc_kind_ops(obj->kind);

	*buf = '\0';
	if (ops)
		ops->describe(obj, buf, size);
	return buf;
}

const char *tc_describe(const struct tc_object *obj, char *buf, size_t size)
{
	char name[NAME_MAX_BYTES], place[NAME_MAX_BYTES];
	int n = snprintf(buf, size, "%s %s ", tc_name(obj, name, sizeof(name)),
		tc_place(obj, place, sizeof(place)));

	if (n >= 0 && (size_t)n < size)
		tc_values(obj, buf + n, size - n);
	return buf;
}

bool tc_equal(const struct tc_object *a, const struct tc_object *b, uint32_t tick_ns)
{
	const struct tc_kind_ops *ops = tc_kind_ops(a->kind);

	if (a->kind != b->kind || a->handle != b->handle || a->parent != b->parent)
		return false;
	return ops ? ops->equal(a, b, tick_ns) : !strcmp(a->other.kind, b->other.kind);
}

/* NULL, or why no such object may be asked for. */
static const char *place_check(const struct tc_object *obj)
{
	bool is_class = tc_is_class(obj);

	if (!TC_H_MAJ(obj->handle) || !obj->parent)
		return "it has no handle or no parent";
	if (is_class != !!TC_H_MIN(obj->handle))
		return is_class ? "a class id ends in 1 to ffff" : "a qdisc's handle ends in 0";
	if (is_class && TC_H_MAJ(obj->parent) != TC_H_MAJ(obj->handle))
		return "its parent is in another qdisc";
	if (!is_class && obj->parent != TC_H_ROOT && !TC_H_MIN(obj->parent))
		return "its parent is not a class";
	return NULL;
}

static int object_check(const struct tc_object *obj, enum tc_op op, struct qerr *err)
{
	const struct tc_kind_ops *ops = tc_kind_ops(obj->kind);
	const char *reason = ops ? place_check(obj) : "this kind is only read";
	char name[NAME_MAX_BYTES];

	if (!reason && op != TC_DELETE)
		reason = ops->check(obj);
	if (reason)
		return qerr_set(err, -EINVAL, "%s: %s", tc_name(obj, name, sizeof(name)), reason);
	return 0;
}

/* The start of a message about a tc object. */
static struct nlmsghdr *put_header(
	void *buf, uint16_t type, uint16_t flags, const struct tcmsg *tcm)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	memcpy(mnl_nlmsg_put_extra_header(nlh, sizeof(*tcm)), tcm, sizeof(*tcm));
	return nlh;
}

static const uint16_t op_flags[] = {
	[TC_CREATE] = NLM_F_CREATE | NLM_F_EXCL,
	[TC_CHANGE] = 0,
	[TC_DELETE] = 0,
};

static uint16_t message_type(const struct tc_object *obj, enum tc_op op)
{
	if (tc_is_class(obj))
		return op == TC_DELETE ? RTM_DELTCLASS : RTM_NEWTCLASS;
	return op == TC_DELETE ? RTM_DELQDISC : RTM_NEWQDISC;
}

int tc_put(void *buf, size_t size, int ifindex, const struct tc_object *obj, enum tc_op op,
	uint32_t tick_ns, struct qerr *err)
{
	const struct tc_kind_ops *ops = tc_kind_ops(obj->kind);
	const struct tcmsg tcm = {
		.tcm_ifindex = ifindex, .tcm_handle = obj->handle, .tcm_parent = obj->parent};
	struct nlmsghdr *nlh;
	int rc;

	rc = object_check(obj, op, err);
	if (rc)
		return rc;
	if (size < MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(tcm)))
		return qerr_set(err, -EMSGSIZE, "no room for a tc request");
	nlh = put_header(buf, message_type(obj, op), op_flags[op], &tcm);
	if (!mnl_attr_put_strz_check(nlh, size, TCA_KIND, ops->name) ||
		(op != TC_DELETE && !ops->put(nlh, size, obj, tick_ns)))
		return qerr_set(err, -EMSGSIZE, "no room for a tc request");
	return 0;
}

int tc_apply(
	struct rtnl *nl, int ifindex, const struct tc_object *obj, enum tc_op op, struct qerr *err)
{
	static const char *const verbs[] = {[TC_CREATE] = "cannot create",
		[TC_CHANGE] = "cannot change",
		[TC_DELETE] = "cannot delete"};
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	char name[NAME_MAX_BYTES];
	int rc;

	rc = tc_put(buf, sizeof(buf), ifindex, obj, op, rtnl_tick_ns(nl), err);
	if (!rc)
		rc = rtnl_talk(nl, (void *)buf, NULL, NULL, err);
	if (!rc)
		return 0;
	qerr_prefix(err, rc, "%s %s", verbs[op], tc_name(obj, name, sizeof(name)));
	return link_error(ifindex, err, rc);
}

int tc_batch(
	struct rtnl *nl, int ifindex, const struct tc_object *obj, enum tc_op op, struct qerr *err)
{
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	int rc = tc_put(buf, sizeof(buf), ifindex, obj, op, rtnl_tick_ns(nl), err);

	return rc ? rc : rtnl_batch_add(nl, (void *)buf);
}

/* What is being read, and how much of it there is. */
struct reading {
	int ifindex;
	uint32_t tick_ns;
	struct tc_object *list;
	size_t n, room;
	size_t kept; /* objects of the dump before this one */
};

struct tc_attrs {
	const char *kind;
	const struct nlattr *options;
	const struct nlattr *stats;
};

static int tc_attr(const struct nlattr *attr, void *arg)
{
	struct tc_attrs *attrs = arg;

	switch (mnl_attr_get_type(attr)) {
	case TCA_KIND:
		if (mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			attrs->kind = mnl_attr_get_str(attr);
		break;
	case TCA_OPTIONS:
		attrs->options = attr;
		break;
	case TCA_STATS2:
		attrs->stats = attr;
		break;
	}
	return MNL_CB_OK;
}

/* Qdiscs and classes share names, so the kind depends on which of them it is. */
static enum tc_kind kind_find(const char *name, bool is_class)
{
	enum tc_kind kind, other = is_class ? TC_OTHER_CLASS : TC_OTHER;

	for (kind = TC_HTB; kind < TC_OTHER; kind++) {
		const struct tc_object probe = {.kind = kind};

		if (tc_is_class(&probe) == is_class && !strcmp(tc_kind_ops(kind)->name, name))
			return kind;
	}
	return other;
}

static void object_read(struct tc_object *obj, const struct tcmsg *tcm,
	const struct tc_attrs *attrs, bool is_class, uint32_t tick_ns)
{
	const char *name = attrs->kind ? attrs->kind : "";

	*obj = (struct tc_object){.kind = kind_find(name, is_class),
		.handle = tcm->tcm_handle,
		.parent = tcm->tcm_parent};
	/* The kernel says "root" of a top class, where it wants its qdisc in requests. */
	if (is_class && obj->parent == TC_H_ROOT)
		obj->parent = TC_H_MAJ(obj->handle);
	if (tc_kind_ops(obj->kind) && attrs->options &&
		tc_kind_ops(obj->kind)->get(attrs->options, obj, tick_ns))
		return;
	obj->kind = is_class ? TC_OTHER_CLASS : TC_OTHER;
	memset(&obj->other, 0, sizeof(obj->other));
	strncpy(obj->other.kind, name, sizeof(obj->other.kind) - 1);
}

static int reading_grow(struct reading *r)
{
	size_t room = r->room ? 2 * r->room : 64;
	struct tc_object *list = reallocarray(r->list, room, sizeof(*list));

	if (!list)
		return -ENOMEM;
	r->list = list;
	r->room = room;
	return 0;
}

bool tc_parse(const struct nlmsghdr *nlh, uint32_t tick_ns, int *ifindex, struct tc_object *obj)
{
	const struct tcmsg *tcm = mnl_nlmsg_get_payload(nlh);
	struct tc_attrs attrs = {0};

	if ((nlh->nlmsg_type != RTM_NEWQDISC && nlh->nlmsg_type != RTM_NEWTCLASS) ||
		mnl_nlmsg_get_payload_len(nlh) < sizeof(*tcm) ||
		mnl_attr_parse(nlh, sizeof(*tcm), tc_attr, &attrs) < 0)
		return false;
	*ifindex = tcm->tcm_ifindex;
	object_read(obj, tcm, &attrs, nlh->nlmsg_type == RTM_NEWTCLASS, tick_ns);
	return true;
}

static int reading_message(const struct nlmsghdr *nlh, void *arg)
{
	struct reading *r = arg;
	struct tc_object obj;
	int ifindex;

	if (!tc_parse(nlh, r->tick_ns, &ifindex, &obj) || ifindex != r->ifindex)
		return MNL_CB_OK;
	if (r->n == r->room && reading_grow(r)) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	r->list[r->n++] = obj;
	return MNL_CB_OK;
}

static void reading_restart(void *arg)
{
	struct reading *r = arg;

	r->n = r->kept;
}

static int read_all(struct rtnl *nl, struct reading *r, uint16_t type, struct qerr *err)
{
	const struct tcmsg tcm = {.tcm_ifindex = r->ifindex};
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];

	r->kept = r->n;
	return rtnl_dump(
		nl, put_header(buf, type, 0, &tcm), reading_message, reading_restart, r, err);
}

int tc_read(struct rtnl *nl, int ifindex, struct tc_object **list, size_t *n, struct qerr *err)
{
	struct reading r = {.ifindex = ifindex, .tick_ns = rtnl_tick_ns(nl)};
	int rc;

	*list = NULL;
	*n = 0;
	rc = read_all(nl, &r, RTM_GETQDISC, err);
	if (!rc)
		rc = read_all(nl, &r, RTM_GETTCLASS, err);
	if (rc) {
		free(r.list);
		qerr_prefix(err, rc, "cannot read the queues");
		return link_error(ifindex, err, rc);
	}
	*list = r.list;
	*n = r.n;
	return 0;
}

static void take_bytes(const struct nlattr *attr, void *to, size_t size)
{
	size_t got = mnl_attr_get_payload_len(attr);

	memcpy(to, mnl_attr_get_payload(attr), got < size ? got : size);
}

static int stats_attr(const struct nlattr *attr, void *arg)
{
	struct tc_qdisc_stats *stats = arg;
	struct gnet_stats_basic basic = {0};
	struct gnet_stats_queue queue = {0};

	switch (mnl_attr_get_type(attr)) {
	case TCA_STATS_BASIC:
		take_bytes(attr, &basic, sizeof(basic));
		stats->bytes = basic.bytes;
		if (!stats->packets)
			stats->packets = basic.packets;
		break;
	case TCA_STATS_PKT64: /* all 64 bits, where the kernel has them */
		take_bytes(attr, &stats->packets, sizeof(stats->packets));
		break;
	case TCA_STATS_QUEUE:
		take_bytes(attr, &queue, sizeof(queue));
		stats->backlog_bytes = queue.backlog;
		stats->qlen = queue.qlen;
		stats->drops = queue.drops;
		stats->overlimits = queue.overlimits;
		stats->requeues = queue.requeues;
		break;
	}
	return MNL_CB_OK;
}

static int stats_message(const struct nlmsghdr *nlh, void *arg)
{
	struct tc_attrs attrs = {0};

	if (nlh->nlmsg_type != RTM_NEWQDISC ||
		mnl_nlmsg_get_payload_len(nlh) < sizeof(struct tcmsg))
		return MNL_CB_OK;
	if (mnl_attr_parse(nlh, sizeof(struct tcmsg), tc_attr, &attrs) < 0)
		return MNL_CB_ERROR;
	return attrs.stats ? mnl_attr_parse_nested(attrs.stats, stats_attr, arg) : MNL_CB_OK;
}

int tc_stats(struct rtnl *nl, int ifindex, uint32_t handle, struct tc_qdisc_stats *stats,
	struct qerr *err)
{
	const struct tcmsg tcm = {.tcm_ifindex = ifindex, .tcm_handle = handle};
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	int rc;

	*stats = (struct tc_qdisc_stats){0};
	/* Older kernels tell the answer to the group, and to the asker only on ECHO. */
	rc = rtnl_talk(
		nl, put_header(buf, RTM_GETQDISC, NLM_F_ECHO, &tcm), stats_message, stats, err);
	if (!rc)
		return 0;
	qerr_prefix(err, rc, "cannot read qdisc %x:", handle >> 16);
	return link_error(ifindex, err, rc);
}
