/* SPDX-License-Identifier: BSD-2-Clause */
/* Put a port's queue tree in place, verified; and take it off without losing what it holds. */
#ifndef QUENCH_APPLY_H
#define QUENCH_APPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "netlink/rtnl.h"
#include "netlink/tc.h"

/* The root qdisc among the objects of a device, or NULL. */
const struct tc_object *tree_root(const struct tc_object *list, size_t n);

/* Is it the one of a tree of ours? NULL is not. */
bool tree_root_is_ours(const struct tc_object *root);

/*
 * May the root qdisc among the objects of a device, as read, give way to a tree of ours? -EBUSY and
 * -EEXIST as tree_install says.
 */
int tree_root_check(const struct tc_object *list, size_t n, bool replace_mq, struct qerr *err);

/*
 * The order of two pointers to objects of a device, for qsort() and bsearch(): handles are unique
 * among its qdiscs, and class ids among its classes.
 */
int tree_order(const void *a, const void *b);

/*
 * Create the objects of list (tree_build's) on the device, read everything back and compare it.
 * All or nothing: on any failure our root is deleted again, and the device's default qdisc comes
 * back by itself. Uses the socket's batch, which must be empty.
 *  -EBUSY:  somebody else's root qdisc is in place; nothing was touched. One that the kernel made
 *           by itself (handle 0) is nobody's and is replaced; mq only with replace_mq.
 *  -EEXIST: our own root is in place, left behind by an earlier agent; nothing was touched.
 *  -EIO:    the kernel kept something else than it was given.
 * Else what the kernel said; *err names the port and the object.
 */
int tree_install(struct rtnl *nl, int ifindex, const struct tc_object *list, size_t n,
	bool replace_mq, struct qerr *err);

/*
 * Delete our root qdisc; success when there is none, whatever else is there. Before that all its
 * rates are raised and all its gates opened, in place, and what it holds may leave, for
 * TREE_DRAIN_MS at most. Traffic into its classes should have stopped. Uses the socket's batch.
 * A success with text in *err says that frames had to be given up.
 */
#define TREE_DRAIN_MS 200
int tree_remove(struct rtnl *nl, int ifindex, struct qerr *err);

/*
 * Take over the tree that an earlier agent left on the device: every value is set in place to
 * list's, and all is read back and compared. No queue is emptied and no frame held up. -ENOENT
 * when our root is not there, -EIO when the tree has another shape; the device then has what it
 * had, but for values already set.
 */
int tree_adopt(
	struct rtnl *nl, int ifindex, const struct tc_object *list, size_t n, struct qerr *err);

/*
 * Create those objects of list that are not on the device, or all of them; with change, set the
 * others to list's values in place. *missing (may be NULL) is how many there were to create.
 * -EBUSY when somebody else's root is in the way.
 */
int tree_mend(struct rtnl *nl, int ifindex, const struct tc_object *list, size_t n, bool change,
	size_t *missing, struct qerr *err);

/*
 * Fail open, in place: our gates on the device open, our QP classes at line_rate_bps (0: there are
 * none). Success when our root is not there. Uses the socket's batch.
 */
int tree_release(struct rtnl *nl, int ifindex, uint64_t line_rate_bps, struct qerr *err);

/*
 * Is every object of want among have (tc_read's), with equal values? -EIO, and *err with the
 * first difference, else. Others in have are not looked at.
 */
int tree_compare(const struct tc_object *want, size_t n, const struct tc_object *have, size_t m,
	uint32_t tick_ns, struct qerr *err);

#endif
