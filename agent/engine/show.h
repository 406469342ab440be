/* SPDX-License-Identifier: BSD-2-Clause */
/* What the agent tells of itself. arg is the struct engine. */
#ifndef QUENCH_ENGINE_SHOW_H
#define QUENCH_ENGINE_SHOW_H

#include <stdio.h>

#include "observe/control.h"

/* The metrics text; from the HTTP thread. */
void show_metrics(void *arg, FILE *out);

/* The answer to a command of the control socket (a control_fn). */
bool show_answer(void *arg, const char *command, struct control_answer *answer);

#endif
