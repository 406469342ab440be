/* SPDX-License-Identifier: BSD-2-Clause */
/* The rate control's parameters that the policy leaves to a preset. */
#ifndef QUENCH_POLICY_PRESETS_H
#define QUENCH_POLICY_PRESETS_H

#include <stdio.h>

#include "policy/reader.h"

/*
 * Give every dcqcn key that is not in the file its preset's value, and report those in the file
 * that the variant does not have. Comes before all rules that look at these values.
 */
void presets_take(struct reader *reader);

/* Write every preset's values as a Markdown table. */
void presets_describe(FILE *out);

#endif
