/* SPDX-License-Identifier: BSD-2-Clause */
/* Loading a policy with its faults told on stderr. */
#ifndef QUENCH_CLI_REPORT_H
#define QUENCH_CLI_REPORT_H

#include "policy/policy.h"

/* EXIT_OK, EXIT_POLICY with every fault on stderr, or EXIT_FAILED when it cannot be read. */
int cli_load_policy(const char *path, struct policy *policy);

#endif
