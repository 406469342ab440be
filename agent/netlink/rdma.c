// SPDX-License-Identifier: BSD-2-Clause
// NETLINK_RDMA read: devices, their QPs and CM ids, joined by the QPN.
#include "netlink/rdma.h"

#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* As the attributes RES_TYPE and RES_STATE have them: enum ib_qp_type and ib_qp_state. */
enum { QP_RC = 2, QP_UC = 3 };
enum { QP_RTR = 2, QP_RTS = 3, QP_SQD = 4 };

/* A CM id that has a QP. */
struct cm_id {
	uint32_t qpn;
	__be32 src[4], dst[4]; /* zeros: none */
};

/* What one dump fills. It grows, and starts again when the kernel does. */
struct list {
	void *items;
	size_t item_bytes, count, room;
	const struct rdma_device *device; /* whose it is */
};

static void *list_add(struct list *list)
{
	size_t room = 2 * list->room + 16;
	void *item;

	if (list->count == list->room) {
		void *more = realloc(list->items, room * list->item_bytes);

		if (!more) {
			errno = ENOMEM;
			return NULL;
		}
		list->items = more;
		list->room = room;
	}
	item = (char *)list->items + list->count++ * list->item_bytes;
	return memset(item, 0, list->item_bytes);
}

static void list_restart(void *arg)
{
	struct list *list = arg;

	list->count = 0;
}

static bool is_answer(const struct nlmsghdr *nlh, int op)
{
	return nlh->nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, op);
}

static void take_u32(const struct nlattr *attr, uint32_t *value)
{
	if (mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
		*value = mnl_attr_get_u32(attr);
}

static void take_u8(const struct nlattr *attr, uint8_t *value)
{
	if (mnl_attr_validate(attr, MNL_TYPE_U8) >= 0)
		*value = mnl_attr_get_u8(attr);
}

/* Devices */

static int device_attr(const struct nlattr *attr, void *arg)
{
	struct rdma_device *device = arg;

	if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_DEV_INDEX)
		take_u32(attr, &device->index);
	if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_DEV_NAME &&
		mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
		strncpy(device->name, mnl_attr_get_str(attr), sizeof(device->name) - 1);
	return MNL_CB_OK;
}

static int device_message(const struct nlmsghdr *nlh, void *arg)
{
	struct rdma_device *device;

	if (!is_answer(nlh, RDMA_NLDEV_CMD_GET))
		return MNL_CB_OK;
	device = list_add(arg);
	return device ? mnl_attr_parse(nlh, 0, device_attr, device) : MNL_CB_ERROR;
}

/* The kernel names a port's interface only to those who see it. */
static int port_attr(const struct nlattr *attr, void *arg)
{
	bool *here = arg;

	*here |= mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_NDEV_INDEX;
	return MNL_CB_OK;
}

static int port_message(const struct nlmsghdr *nlh, void *arg)
{
	return is_answer(nlh, RDMA_NLDEV_CMD_PORT_GET) ? mnl_attr_parse(nlh, 0, port_attr, arg)
						       : MNL_CB_OK;
}

static void port_restart(void *arg)
{
	bool *here = arg;

	*here = false;
}

/* QPs */

struct qp_entry {
	uint32_t qpn, peer_qpn;
	uint8_t type, state;
};

static int qp_attr(const struct nlattr *attr, void *arg)
{
	struct qp_entry *entry = arg;

	switch (mnl_attr_get_type(attr)) {
	case RDMA_NLDEV_ATTR_RES_LQPN:
		take_u32(attr, &entry->qpn);
		break;
	case RDMA_NLDEV_ATTR_RES_RQPN:
		take_u32(attr, &entry->peer_qpn);
		break;
	case RDMA_NLDEV_ATTR_RES_TYPE:
		take_u8(attr, &entry->type);
		break;
	case RDMA_NLDEV_ATTR_RES_STATE:
		take_u8(attr, &entry->state);
		break;
	}
	return MNL_CB_OK;
}

static bool is_connected(const struct qp_entry *entry)
{
	return (entry->type == QP_RC || entry->type == QP_UC) &&
	       (entry->state == QP_RTR || entry->state == QP_RTS || entry->state == QP_SQD) &&
	       entry->qpn > QPN_CM && entry->qpn <= BTH_QPN_MASK && entry->peer_qpn > QPN_CM &&
	       entry->peer_qpn <= BTH_QPN_MASK;
}

static int qp_entry(const struct nlattr *attr, void *arg)
{
	struct qp_entry entry = {};
	struct list *list = arg;
	struct local_qp *qp;

	if (mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_QP_ENTRY)
		return MNL_CB_OK;
	if (mnl_attr_parse_nested(attr, qp_attr, &entry) < 0)
		return MNL_CB_ERROR;
	if (!is_connected(&entry))
		return MNL_CB_OK;
	qp = list_add(list);
	if (!qp)
		return MNL_CB_ERROR;
	qp->device = list->device->index;
	qp->self.qpn = entry.qpn;
	qp->peer.qpn = entry.peer_qpn;
	return MNL_CB_OK;
}

/* CM ids */

static void take_address(const struct nlattr *attr, __be32 addr[4])
{
	size_t bytes = mnl_attr_get_payload_len(attr);
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	sa_family_t family;

	if (bytes < sizeof(v4))
		return;
	memcpy(&family, mnl_attr_get_payload(attr), sizeof(family));
	if (family == AF_INET) {
		memcpy(&v4, mnl_attr_get_payload(attr), sizeof(v4));
		if (v4.sin_addr.s_addr)
			wire_map_ipv4(addr, v4.sin_addr.s_addr);
	} else if (family == AF_INET6 && bytes >= sizeof(v6)) {
		memcpy(&v6, mnl_attr_get_payload(attr), sizeof(v6));
		memcpy(addr, &v6.sin6_addr, sizeof(v6.sin6_addr));
	}
}

static int cm_id_attr(const struct nlattr *attr, void *arg)
{
	struct cm_id *id = arg;

	switch (mnl_attr_get_type(attr)) {
	case RDMA_NLDEV_ATTR_RES_LQPN:
		take_u32(attr, &id->qpn);
		break;
	case RDMA_NLDEV_ATTR_RES_SRC_ADDR:
		take_address(attr, id->src);
		break;
	case RDMA_NLDEV_ATTR_RES_DST_ADDR:
		take_address(attr, id->dst);
		break;
	}
	return MNL_CB_OK;
}

static bool is_specified(const __be32 addr[4])
{
	return addr[0] || addr[1] || addr[2] || addr[3];
}

static int cm_id_entry(const struct nlattr *attr, void *arg)
{
	struct cm_id id = {}, *kept;

	if (mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY)
		return MNL_CB_OK;
	if (mnl_attr_parse_nested(attr, cm_id_attr, &id) < 0)
		return MNL_CB_ERROR;
	if (!id.qpn || !is_specified(id.src) || !is_specified(id.dst))
		return MNL_CB_OK;
	kept = list_add(arg);
	if (!kept)
		return MNL_CB_ERROR;
	*kept = id;
	return MNL_CB_OK;
}

/* Dumps */

/* A message of a resource holds a table, and that holds the entries. */
static int qp_table(const struct nlattr *attr, void *arg)
{
	return mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_RES_QP
		       ? mnl_attr_parse_nested(attr, qp_entry, arg)
		       : MNL_CB_OK;
}

static int qp_message(const struct nlmsghdr *nlh, void *arg)
{
	return is_answer(nlh, RDMA_NLDEV_CMD_RES_QP_GET) ? mnl_attr_parse(nlh, 0, qp_table, arg)
							 : MNL_CB_OK;
}

static int cm_id_table(const struct nlattr *attr, void *arg)
{
	return mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_RES_CM_ID
		       ? mnl_attr_parse_nested(attr, cm_id_entry, arg)
		       : MNL_CB_OK;
}

static int cm_id_message(const struct nlmsghdr *nlh, void *arg)
{
	return is_answer(nlh, RDMA_NLDEV_CMD_RES_CM_ID_GET)
		       ? mnl_attr_parse(nlh, 0, cm_id_table, arg)
		       : MNL_CB_OK;
}

/* Dump what op gives; of one device, or of all where that is NULL. */
static int dump(struct rtnl *nl, int op, const struct rdma_device *device, mnl_cb_t cb,
	void (*restart)(void *arg), void *arg, struct qerr *err)
{
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	int rc;

	nlh->nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, op);
	if (device)
		mnl_attr_put_u32(nlh, RDMA_NLDEV_ATTR_DEV_INDEX, device->index);
	rc = rtnl_dump(nl, nlh, cb, restart, arg, err);
	return rc && device ? qerr_prefix(err, rc, "RDMA device %s", device->name) : rc;
}

static int compare_ids(const void *a, const void *b)
{
	const struct cm_id *x = a, *y = b;

	return (x->qpn > y->qpn) - (x->qpn < y->qpn);
}

static bool is_of(const struct local_qp *qp, const struct cm_id *id)
{
	return !memcmp(qp->self.addr, id->src, sizeof(id->src)) &&
	       !memcmp(qp->peer.addr, id->dst, sizeof(id->dst));
}

static void tell(struct local_qp *qp, const struct cm_id *id)
{
	if (qp->addresses != LOCAL_UNKNOWN) {
		if (!is_of(qp, id))
			qp->addresses = LOCAL_AMBIGUOUS;
		return;
	}
	memcpy(qp->self.addr, id->src, sizeof(qp->self.addr));
	memcpy(qp->peer.addr, id->dst, sizeof(qp->peer.addr));
	qp->addresses = LOCAL_TOLD;
}

/* Give the QPs of a device the addresses of its CM ids; both in the order of their QPNs. */
static void join(struct local_qp *qps, size_t qps_count, const struct cm_id *ids, size_t ids_count)
{
	size_t at = 0;

	for (size_t i = 0; i < qps_count; i++) {
		while (at < ids_count && ids[at].qpn < qps[i].self.qpn)
			at++;
		for (size_t k = at; k < ids_count && ids[k].qpn == qps[i].self.qpn; k++)
			tell(&qps[i], &ids[k]);
	}
}

static int append(struct list *all, const struct list *more)
{
	for (size_t i = 0; i < more->count; i++) {
		struct local_qp *qp = list_add(all);

		if (!qp)
			return -ENOMEM;
		*qp = ((const struct local_qp *)more->items)[i];
	}
	return 0;
}

static int read_qps(
	struct rtnl *nl, const struct rdma_device *device, struct list *all, struct qerr *err)
{
	struct list qps = {.item_bytes = sizeof(struct local_qp), .device = device};
	struct list ids = {.item_bytes = sizeof(struct cm_id), .device = device};
	int rc = dump(nl, RDMA_NLDEV_CMD_RES_QP_GET, device, qp_message, list_restart, &qps, err);

	if (!rc && qps.count)
		rc = dump(nl, RDMA_NLDEV_CMD_RES_CM_ID_GET, device, cm_id_message, list_restart,
			&ids, err);
	if (!rc) {
		local_sort(qps.items, qps.count);
		if (ids.count)
			qsort(ids.items, ids.count, ids.item_bytes, compare_ids);
		join(qps.items, qps.count, ids.items, ids.count);
		if (append(all, &qps))
			rc = qerr_set(err, -ENOMEM, "out of memory");
	}
	free(qps.items);
	free(ids.items);
	return rc;
}

static int read_device(
	struct rtnl *nl, struct rdma_device *device, struct list *qps, struct qerr *err)
{
	int rc = dump(nl, RDMA_NLDEV_CMD_PORT_GET, device, port_message, port_restart,
		&device->here, err);

	return rc || !device->here ? rc : read_qps(nl, device, qps, err);
}

int rdma_open(struct rtnl **nl, struct qerr *err)
{
	*nl = NULL;
	if (access(RDMA_CLASS, F_OK)) /* the socket alone would load the RDMA core */
		return qerr_set(err, -EPROTONOSUPPORT, "there is no RDMA here");
	return rtnl_open_protocol(nl, NETLINK_RDMA, err);
}

int rdma_read(struct rtnl *nl, struct rdma_state *state, struct qerr *err)
{
	struct list devices = {.item_bytes = sizeof(struct rdma_device)};
	struct list qps = {.item_bytes = sizeof(struct local_qp)};
	int rc = dump(nl, RDMA_NLDEV_CMD_GET, NULL, device_message, list_restart, &devices, err);

	*state = (struct rdma_state){0};
	for (size_t i = 0; !rc && i < devices.count; i++)
		rc = read_device(nl, (struct rdma_device *)devices.items + i, &qps, err);
	if (rc) {
		free(devices.items);
		free(qps.items);
		return qerr_prefix(err, rc, "cannot read the RDMA devices");
	}
	local_sort(qps.items, qps.count);
	*state = (struct rdma_state){devices.items, devices.count, qps.items, qps.count};
	return 0;
}

void rdma_free(struct rdma_state *state)
{
	free(state->devices);
	free(state->qps);
	*state = (struct rdma_state){0};
}
