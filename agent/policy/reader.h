/* SPDX-License-Identifier: BSD-2-Clause */
/* A policy while it is read: the YAML document, the values so far and how faults are reported. */
#ifndef QUENCH_POLICY_READER_H
#define QUENCH_POLICY_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

#include "policy/policy.h"

#define READER_PATH_MAX 160

/* Where a value stands: "classes[0].ecn.kmin"; "" is the top. */
struct path {
	char text[READER_PATH_MAX];
};

enum value_state {
	VALUE_ABSENT, /* not in the file: the default holds, if there is one */
	VALUE_BAD,    /* in the file, and a fault was reported */
	VALUE_GOOD,
};

struct reader {
	yaml_document_t document;
	enum value_state *states; /* by node number */
	const char *file;
	policy_report_fn report;
	void *arg;
	size_t faults;
	struct policy *policy;
};

struct path path_of(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The state of the value at path. */
enum value_state reader_state(struct reader *reader, struct path path);

/* True when the policy's value at path can be relied on: read well, or left to its default. */
bool reader_usable(struct reader *reader, struct path path);

/* The text of the scalar at path as it is in the file; NULL when there is none. */
const char *reader_text(struct reader *reader, struct path path);

/* Report a fault at path; its place is the deepest node on the way there that exists. */
void reader_fault(struct reader *reader, struct path path, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Report a warning, as above. */
void reader_warn(struct reader *reader, struct path path, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The rules that look at more than one value, after all values were read. */
void policy_check(struct reader *reader);

/* What is legal and known to hurt, of a policy without a fault. */
void policy_warn(struct reader *reader);

#endif
