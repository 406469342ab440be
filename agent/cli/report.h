/* SPDX-License-Identifier: BSD-2-Clause */
/* What several commands tell: a policy's faults on stderr, text in JSON. */
#ifndef QUENCH_CLI_REPORT_H
#define QUENCH_CLI_REPORT_H

#include <jansson.h>

#include "policy/policy.h"

/* EXIT_OK, EXIT_POLICY with every fault on stderr, or EXIT_FAILED when it cannot be read. */
int cli_load_policy(const char *path, struct policy *policy);

/* Text that may be no UTF-8, such as a file's name, as JSON, which must be: with '?' for what is
 * not. */
json_t *cli_text_json(const char *text);

#endif
