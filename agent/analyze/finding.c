// SPDX-License-Identifier: BSD-2-Clause
// The table of findings, and their texts with the numbers filled in.
#include "analyze/finding.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *code;
	enum severity severity;
	const char *text;
} rows[FINDING_COUNT] = {
#define X(id, code, severity, text) [FINDING_##id] = {code, SEVERITY_##severity, text},
	FINDINGS(X)
#undef X
};

const char *finding_code(enum finding_id id)
{
	return rows[id].code;
}

enum severity finding_severity(enum finding_id id)
{
	return rows[id].severity;
}

const char *severity_name(enum severity severity)
{
	static const char *const names[SEVERITY_COUNT] = {"error", "warning", "info"};

	return names[severity];
}

void evidence_cite(struct evidence *e, uint64_t frame)
{
	if (frame && e->frames_count < FINDING_FRAMES_MAX)
		e->frames[e->frames_count++] = frame;
}

void evidence_note(struct evidence *e, uint64_t frame, uint64_t value)
{
	e->count++;
	if (value > e->value)
		e->value = value;
	evidence_cite(e, frame);
}

void evidence_merge(struct evidence *to, const struct evidence *from)
{
	const struct evidence was = *to;
	uint32_t i = 0, j = 0;

	to->frames_count = 0;
	while (i < was.frames_count || j < from->frames_count) {
		bool first = j == from->frames_count ||
			     (i < was.frames_count && was.frames[i] < from->frames[j]);

		evidence_cite(to, first ? was.frames[i++] : from->frames[j++]);
	}
}

/* A number with a comma at each thousand. */
static void format_count(uint64_t n, char *buf, size_t size)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);
	size_t at = 0;

	for (int i = 0; i < len && at + 2 < size; i++) {
		if (i && (len - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	buf[at] = '\0';
}

/* What stands for the len bytes at field, without their braces: "s:one|many" chooses by count. */
static void format_field(const char *field, size_t len, const struct evidence *e,
	const char *detail, char *buf, size_t size)
{
	const char *many = memchr(field, '|', len);

	buf[0] = '\0';
	if (many && e->count == 1)
		snprintf(buf, size, "%.*s", (int)(many - field - 2), field + 2);
	else if (many)
		snprintf(buf, size, "%.*s", (int)(field + len - many - 1), many + 1);
	else if (*field == 'n')
		format_count(e->count, buf, size);
	else if (*field == 'v')
		format_count(e->value, buf, size);
	else if (*field == 'd')
		snprintf(buf, size, "%s", detail);
	else if (*field == 's' && e->count != 1)
		snprintf(buf, size, "s");
}

void finding_format(
	enum finding_id id, const struct evidence *e, const char *detail, char *buf, size_t size)
{
	const char *at = rows[id].text, *open;
	char field[256];
	size_t used = 0;

	buf[0] = '\0';
	while (used < size && (open = strchr(at, '{'))) {
		size_t len = strcspn(open + 1, "}");

		format_field(open + 1, len, e, detail, field, sizeof(field));
		used += snprintf(buf + used, size - used, "%.*s%s", (int)(open - at), at, field);
		at = open + len + 2;
	}
	if (used < size)
		snprintf(buf + used, size - used, "%s", at);
}
