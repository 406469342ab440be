/* SPDX-License-Identifier: BSD-2-Clause */
/* What the agent tells of itself. arg is the struct engine. */
#ifndef QUENCH_ENGINE_SHOW_H
#define QUENCH_ENGINE_SHOW_H

#include <jansson.h>
#include <stdio.h>

/* The metrics text; from the HTTP thread. */
void show_metrics(void *arg, FILE *out);

/* The answer to a command of the control socket; NULL for one that is not known. */
json_t *show_answer(void *arg, const char *command);

#endif
