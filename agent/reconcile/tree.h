/* SPDX-License-Identifier: BSD-2-Clause */
/* A port's queue tree (see quench/abi.h) as a list of tc objects. Pure. */
#ifndef QUENCH_TREE_H
#define QUENCH_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netlink/tc.h"
#include "qerr.h"
#include "quench/abi.h"

/* Rate and burst of what must not hold anything up: open gates, ingress leaves. */
#define TREE_OPEN_BPS	      10000000000000ull
#define TREE_OPEN_BURST_BYTES (4u << 20)

/* The preference of the filter on the root, which steers and marks. */
#define TREE_FILTER_PREFERENCE 1

#define TREE_RATE_MIN_BPS 8000ull
#define TREE_RATE_MAX_BPS 1000000000000ull

struct tree_class {
	uint32_t limit_bytes;	/* of each leaf of the class */
	uint32_t share_percent; /* of the port; 0: a like part of what the others' leave */
	bool strict;		/* asked before the others for what nobody else uses */
};

struct tree_spec {
	uint64_t rate_bps;  /* of the port: TREE_RATE_MIN_BPS..TREE_RATE_MAX_BPS */
	uint32_t mtu_bytes; /* of the port: 68..65535 */
	size_t classes_count;
	struct tree_class classes[CLASSES_MAX];
	uint32_t slots;		/* ports + 1: leaves 0..slots-1 in every class; 1..SLOTS_MAX */
	uint32_t qp_count;	/* QP classes; 0: none; at most QP_CLASSES_MAX */
	uint32_t qp_class;	/* the class that has them */
	uint64_t line_rate_bps; /* what a QP class starts at, when there are any */
};

/* Can the tree be built? -EINVAL and *err else. The functions below rely on it. */
int tree_spec_check(const struct tree_spec *spec, struct qerr *err);

/* The longest frame on the wire without its FCS: the MTU, an Ethernet header and two VLAN tags. */
uint32_t tree_longest_frame(const struct tree_spec *spec);

/*
 * All objects of the tree, parents before children and the default class first, so that the list
 * can be created in its order on a live device. *list is the caller's to free(). -EINVAL as
 * tree_spec_check, -ENOMEM.
 */
int tree_build(const struct tree_spec *spec, struct tc_object **list, size_t *n, struct qerr *err);

/* The gate of a class, open or closed: TC_CHANGE it and then link_kick the port. */
struct tc_object tree_gate(const struct tree_spec *spec, uint32_t cls, bool closed);

/* The burst of a QP class at this rate, floor_bytes at least. */
uint32_t tree_qp_burst(uint32_t floor_bytes, uint64_t rate_bps);

/* QP class k at a rate (>= 8 bit/s): TC_CHANGE it. */
struct tc_object tree_qp_class(const struct tree_spec *spec, uint32_t k, uint64_t rate_bps);

#endif
