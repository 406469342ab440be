/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of an agent's JSON answer, for people to read. */
#ifndef QUENCH_CLI_ANSWER_H
#define QUENCH_CLI_ANSWER_H

#include <jansson.h>

/* The text under the key, "-" where there is none. */
static inline const char *text_of(const json_t *doc, const char *key)
{
	const char *text = json_string_value(json_object_get(doc, key));

	return text ? text : "-";
}

/* The whole number under the key, 0 where there is none. */
static inline json_int_t number_of(const json_t *doc, const char *key)
{
	return json_integer_value(json_object_get(doc, key));
}

#endif
