/* SPDX-License-Identifier: BSD-2-Clause */
/* What the machine must offer before anything is touched. */
#ifndef QUENCH_REQUIRE_H
#define QUENCH_REQUIRE_H

#include "qerr.h"

/*
 * Check capabilities, kernel version, BTF and lockdown. Returns 0, or a negative errno with one
 * line in *err that names what is missing and how to get it.
 */
int require_machine(struct qerr *err);

#endif
