/* SPDX-License-Identifier: BSD-2-Clause */
/* A plan as text or as JSON. */
#ifndef QUENCH_CLI_PLAN_REPORT_H
#define QUENCH_CLI_PLAN_REPORT_H

#include <stdbool.h>

#include "observe/snapshot.h"
#include "reconcile/plan.h"

struct plan_report;

/* A report on standard output: text as it comes, JSON at the end. NULL without memory. */
struct plan_report *plan_report_open(bool json);

/* One port's part. */
void plan_report_port(
	struct plan_report *report, const char *name, const char *role, const struct plan *plan);

/* The end of it, if it is to be seen; NULL is allowed. True when something was in the way. */
bool plan_report_close(struct plan_report *report, bool show);

#endif
