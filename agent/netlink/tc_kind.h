/* SPDX-License-Identifier: BSD-2-Clause */
/* For tc.c alone: what each kind of tc object looks like in a message and in words. */
#ifndef QUENCH_TC_KIND_H
#define QUENCH_TC_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netlink/tc.h"

struct tc_kind_ops {
	const char *name; /* as TCA_KIND says it */
	/* Would the kernel take these values as they are? NULL or the reason why not. */
	const char *(*check)(const struct tc_object *obj);
	/* Append TCA_OPTIONS; false without room. */
	bool (*put)(
		struct nlmsghdr *nlh, size_t size, const struct tc_object *obj, uint32_t tick_ns);
	/* Read TCA_OPTIONS; false when they are not understood. */
	bool (*get)(const struct nlattr *options, struct tc_object *obj, uint32_t tick_ns);
	bool (*equal)(const struct tc_object *a, const struct tc_object *b, uint32_t tick_ns);
	int (*describe)(const struct tc_object *obj, char *buf, size_t size);
};

/* NULL for the kinds that are only read. */
const struct tc_kind_ops *tc_kind_ops(enum tc_kind kind);

#endif
