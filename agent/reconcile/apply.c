// SPDX-License-Identifier: BSD-2-Clause
// A port's queue tree into the kernel and out of it.
#include "reconcile/apply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "netlink/link.h"
#include "quench/abi.h"
#include "reconcile/tree.h"

#define TEXT_MAX       256
#define DRAIN_PAUSE_NS 1000000

static const struct tc_object our_root = {
	.kind = TC_HTB, .handle = TREE_HANDLE(TREE_ROOT), .parent = TC_H_ROOT};

const struct tc_object *tree_root(const struct tc_object *list, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!tc_is_class(&list[i]) && list[i].parent == TC_H_ROOT)
			return &list[i];
	return NULL;
}

bool tree_root_is_ours(const struct tc_object *root)
{
	return root && root->kind == TC_HTB && root->handle == our_root.handle;
}

/* Each queue of the device has a qdisc of its own there, which one tree cannot stand for. */
static bool root_is_mq(const struct tc_object *root)
{
	return root->kind == TC_OTHER && !strcmp(root->other.kind, "mq");
}

int tree_root_check(const struct tc_object *list, size_t n, bool replace_mq, struct qerr *err)
{
	const struct tc_object *root = tree_root(list, n);
	char name[TEXT_MAX];

	if (tree_root_is_ours(root))
		return qerr_set(err, -EEXIST,
			"the queue tree of an earlier agent is in place (htb qdisc %x:)",
			TREE_ROOT);
	if (!root || (!root->handle && (replace_mq || !root_is_mq(root))))
		return 0;
	if (!root->handle)
		return qerr_set(err, -EBUSY,
			"the device has a queue per CPU (mq); `replace_mq: true` puts one tree in "
			"their "
			"place");
	return qerr_set(err, -EBUSY,
		"somebody else's root qdisc is in place: %s; delete it, or leave this port out",
		tc_name(root, name, sizeof(name)));
}

static int root_check_read(struct rtnl *nl, int ifindex, bool replace_mq, struct qerr *err)
{
	struct tc_object *have;
	size_t n;
	int rc;

	rc = tc_read(nl, ifindex, &have, &n, err);
	if (rc)
		return rc;
	rc = tree_root_check(have, n, replace_mq, err);
	free(have);
	return rc ? link_error(ifindex, err, rc) : 0;
}

/* Send the batch, whose requests stand for the objects from first on, and look at its faults. */
static int batch_finish(struct rtnl *nl, const struct tc_object *first, struct qerr *err)
{
	size_t count = rtnl_batch_count(nl);
	struct rtnl_faults faults;
	char name[TEXT_MAX];
	int rc;

	rtnl_batch_errors(nl, &faults); /* of earlier batches: not about this */
	rc = rtnl_batch_send(nl);
	if (rc)
		return qerr_set(err, rc, "cannot send %zu requests: %s", count, strerror(-rc));
	rtnl_batch_errors(nl, &faults);
	if (faults.count && faults.first.index < count)
		return qerr_set(err, faults.first.code, "cannot create %s: %s",
			tc_name(&first[faults.first.index], name, sizeof(name)), faults.first.text);
	if (faults.count || faults.lost)
		return qerr_set(err, -ENOBUFS, "the kernel's answers were lost");
	return 0;
}

static int create_all(
	struct rtnl *nl, int ifindex, const struct tc_object *list, size_t n, struct qerr *err)
{
	size_t i = 0, first = 0;
	int rc;

	while (i < n) {
		rc = tc_batch(nl, ifindex, &list[i], TC_CREATE, err);
		if (!rc) {
			i++;
			continue;
		}
		if (rc != -ENOSPC)
			return rc;
		rc = batch_finish(nl, &list[first], err);
		if (rc)
			return rc;
		first = i;
	}
	return batch_finish(nl, &list[first], err);
}

int tree_order(const void *a, const void *b)
{
	const struct tc_object *x = *(const struct tc_object *const *)a;
	const struct tc_object *y = *(const struct tc_object *const *)b;

	if (tc_is_class(x) != tc_is_class(y))
		return tc_is_class(x) ? 1 : -1;
	return (x->handle > y->handle) - (x->handle < y->handle);
}

static int compare_one(const struct tc_object *want, const struct tc_object *have, uint32_t tick_ns,
	struct qerr *err)
{
	char wanted[TEXT_MAX], found[TEXT_MAX];

	if (!have)
		return qerr_set(
			err, -EIO, "%s is not there", tc_name(want, wanted, sizeof(wanted)));
	if (tc_equal(want, have, tick_ns))
		return 0;
	return qerr_set(err, -EIO, "read back differently: wanted %s; found %s",
		tc_describe(want, wanted, sizeof(wanted)), tc_describe(have, found, sizeof(found)));
}

int tree_compare(const struct tc_object *want, size_t n, const struct tc_object *have, size_t m,
	uint32_t tick_ns, struct qerr *err)
{
	const struct tc_object **index = calloc(m ? m : 1, sizeof(*index));
	size_t i;
	int rc = 0;

	if (!index)
		return qerr_set(err, -ENOMEM, "no memory to compare a queue tree");
	for (i = 0; i < m; i++)
		index[i] = &have[i];
	qsort(index, m, sizeof(*index), tree_order);
	for (i = 0; i < n && !rc; i++) {
		const struct tc_object *key = &want[i];
		const struct tc_object **found =
			bsearch(&key, index, m, sizeof(*index), tree_order);

		rc = compare_one(key, found ? *found : NULL, tick_ns, err);
	}
	free(index);
	return rc;
}

static int read_and_compare(
	struct rtnl *nl, int ifindex, const struct tc_object *list, size_t n, struct qerr *err)
{
	struct tc_object *have;
	size_t m;
	int rc;

	rc = tc_read(nl, ifindex, &have, &m, err);
	if (rc)
		return rc;
	rc = tree_compare(list, n, have, m, rtnl_tick_ns(nl), err);
	free(have);
	return rc ? link_error(ifindex, err, rc) : 0;
}

int tree_install(struct rtnl *nl, int ifindex, const struct tc_object *list, size_t n,
	bool replace_mq, struct qerr *err)
{
	int rc;

	if (!n || !tree_root_is_ours(&list[0]) || rtnl_batch_count(nl))
		return qerr_set(err, -EINVAL, "no queue tree, or a batch is under way");
	rc = root_check_read(nl, ifindex, replace_mq, err);
	if (rc)
		return rc;
	/* Alone and answered: only what was created here may be deleted on a failure. */
	rc = tc_apply(nl, ifindex, &list[0], TC_CREATE, err);
	if (rc)
		return rc;
	rc = create_all(nl, ifindex, list + 1, n - 1, err);
	if (rc)
		rc = link_error(ifindex, err, rc);
	else
		rc = read_and_compare(nl, ifindex, list, n, err);
	if (rc)
		tc_apply(nl, ifindex, &our_root, TC_DELETE, NULL);
	return rc;
}

/* The object with nothing left that could hold a frame up; false if it never does. */
static bool object_opened(struct tc_object *obj, const void *arg)
{
	(void)arg;
	switch (obj->kind) {
	case TC_HTB_CLASS:
		obj->htb_class.rate_bps = obj->htb_class.ceil_bps = TREE_OPEN_BPS;
		obj->htb_class.burst_bytes = TREE_OPEN_BURST_BYTES;
		obj->htb_class.cburst_bytes = TREE_OPEN_BURST_BYTES;
		return true;
	case TC_TBF:
		obj->tbf.closed = false;
		obj->tbf.rate_bps = TREE_OPEN_BPS;
		obj->tbf.burst_bytes = TREE_OPEN_BURST_BYTES;
		return true;
	default:
		return false;
	}
}

/* What is to become of an object of the tree; false: it stays as it is. */
typedef bool (*object_edit)(struct tc_object *obj, const void *arg);

/* Best effort, in place: what could not be changed shows when the device is read again. */
static void change_all(struct rtnl *nl, int ifindex, const struct tc_object *list, size_t n,
	object_edit edit, const void *arg)
{
	struct rtnl_faults faults;
	size_t i;

	for (i = 0; i < n; i++) {
		struct tc_object obj = list[i];

		if (!edit(&obj, arg))
			continue;
		if (tc_batch(nl, ifindex, &obj, TC_CHANGE, NULL) != -ENOSPC)
			continue;
		rtnl_batch_send(nl);
		tc_batch(nl, ifindex, &obj, TC_CHANGE, NULL);
	}
	rtnl_batch_send(nl);
	rtnl_batch_errors(nl, &faults);
}

static bool is_changeable(struct tc_object *obj, const void *arg)
{
	(void)arg;
	return obj->kind != TC_HTB && obj->kind != TC_OTHER && obj->kind != TC_OTHER_CLASS;
}

int tree_adopt(
	struct rtnl *nl, int ifindex, const struct tc_object *list, size_t n, struct qerr *err)
{
	struct tc_object *have;
	size_t m;
	int rc = tc_read(nl, ifindex, &have, &m, err);

	if (rc)
		return rc;
	if (!tree_root_is_ours(tree_root(have, m)))
		rc = qerr_set(err, -ENOENT, "no queue tree of an earlier agent");
	free(have);
	if (rc)
		return rc;
	change_all(nl, ifindex, list, n, is_changeable, NULL);
	return read_and_compare(nl, ifindex, list, n, err);
}

static bool is_there(const struct tc_object *want, const struct tc_object *have, size_t m)
{
	size_t i;

	for (i = 0; i < m; i++)
		if (have[i].kind == want->kind && have[i].handle == want->handle &&
			have[i].parent == want->parent)
			return true;
	return false;
}

/* One by one, parents first; deleting a qdisc may have left the kernel's default in its place. */
static int create_missing(struct rtnl *nl, int ifindex, const struct tc_object *list, size_t n,
	const struct tc_object *have, size_t m, size_t *missing, struct qerr *err)
{
	size_t i;
	int rc = 0;

	for (i = 0; i < n && !rc; i++) {
		if (is_there(&list[i], have, m))
			continue;
		rc = tc_apply(nl, ifindex, &list[i], TC_CREATE, err);
		if (rc == -EEXIST)
			rc = 0;
		(*missing)++;
	}
	return rc;
}

int tree_mend(struct rtnl *nl, int ifindex, const struct tc_object *list, size_t n, bool change,
	size_t *missing, struct qerr *err)
{
	struct tc_object *have;
	size_t m, count = 0;
	int rc = tc_read(nl, ifindex, &have, &m, err);

	if (rc)
		return rc;
	rc = tree_root_check(have, m, true, err);
	if (rc == -EBUSY)
		link_error(ifindex, err, rc);
	else
		rc = create_missing(nl, ifindex, list, n, have, m, &count, err);
	if (!rc && change)
		change_all(nl, ifindex, list, n, is_changeable, NULL);
	free(have);
	if (missing)
		*missing = count;
	return rc;
}

/* Only what holds frames up on behalf of a live agent: gates and QP classes, not the port. */
static bool object_released(struct tc_object *obj, const void *arg)
{
	const uint64_t *line_rate_bps = arg;

	if (obj->kind == TC_TBF)
		return obj->tbf.closed && object_opened(obj, NULL);
	if (obj->kind != TC_HTB_CLASS || obj->handle >> 16 == TREE_ROOT ||
		(obj->handle & 0xffff) < MINOR_QP)
		return false;
	if (!*line_rate_bps)
		return false;
	obj->htb_class.rate_bps = obj->htb_class.ceil_bps = *line_rate_bps;
	obj->htb_class.burst_bytes = obj->htb_class.cburst_bytes =
		tree_qp_burst(obj->htb_class.burst_bytes, *line_rate_bps);
	return true;
}

/* An opened gate is looked at when its root next runs; a kick makes that now. */
static void kick_if_closed(int ifindex, const struct tc_object *list, size_t n)
{
	bool closed = false;
	int kick;
	size_t i;

	for (i = 0; i < n; i++)
		closed |= list[i].kind == TC_TBF && list[i].tbf.closed;
	if (!closed)
		return;
	kick = link_kick_open(NULL);
	if (kick < 0)
		return;
	link_kick(kick, ifindex, TREE_CLASS(TREE_ROOT, MINOR_SINK));
	close(kick);
}

int tree_release(struct rtnl *nl, int ifindex, uint64_t line_rate_bps, struct qerr *err)
{
	struct tc_object *have;
	size_t n;
	int rc = tc_read(nl, ifindex, &have, &n, err);

	if (rc)
		return rc;
	if (tree_root_is_ours(tree_root(have, n))) {
		change_all(nl, ifindex, have, n, object_released, &line_rate_bps);
		kick_if_closed(ifindex, have, n);
	}
	free(have);
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/*
 * Wait for the tree to run empty; 0 or what it still holds in *left. Each round starts with a
 * kick, for nothing else makes the root look at its gates again.
 */
static int drain(struct rtnl *nl, int ifindex, struct tc_qdisc_stats *left, struct qerr *err)
{
	const struct timespec pause = {.tv_nsec = DRAIN_PAUSE_NS};
	uint64_t end_ns = now_ns() + TREE_DRAIN_MS * 1000000ull;
	int kick = link_kick_open(NULL);
	int rc;

	for (;;) {
		if (kick >= 0)
			link_kick(kick, ifindex, TREE_CLASS(TREE_ROOT, MINOR_SINK));
		rc = tc_stats(nl, ifindex, our_root.handle, left, err);
		if (rc || !left->qlen || now_ns() >= end_ns)
			break;
		nanosleep(&pause, NULL);
	}
	if (kick >= 0)
		close(kick);
	return rc;
}

static int open_and_delete(
	struct rtnl *nl, int ifindex, const struct tc_object *list, size_t n, struct qerr *err)
{
	struct tc_qdisc_stats left;
	int rc;

	change_all(nl, ifindex, list, n, object_opened, NULL);
	rc = drain(nl, ifindex, &left, err);
	if (!rc)
		rc = tc_apply(nl, ifindex, &our_root, TC_DELETE, err);
	if (rc || !left.qlen)
		return rc;
	qerr_set(err, 0, "%u frames of %u bytes did not leave within %d ms and were given up",
		left.qlen, left.backlog_bytes, TREE_DRAIN_MS);
	return link_error(ifindex, err, 0);
}

int tree_remove(struct rtnl *nl, int ifindex, struct qerr *err)
{
	struct tc_object *have;
	size_t n;
	int rc;

	if (rtnl_batch_count(nl))
		return qerr_set(err, -EINVAL, "a batch is under way");
	qerr_set(err, 0, "%s", "");
	rc = tc_read(nl, ifindex, &have, &n, err);
	if (rc)
		return rc;
	if (tree_root_is_ours(tree_root(have, n)))
		rc = open_and_delete(nl, ifindex, have, n, err);
	free(have);
	return rc;
}
