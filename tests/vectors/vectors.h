/* SPDX-License-Identifier: BSD-2-Clause */
/* The vector files of this directory, read for the tests that judge a parser or an ICRC by them. */
#ifndef QUENCH_TESTS_VECTORS_H
#define QUENCH_TESTS_VECTORS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/wire_cm.h"
#include "vectors/promises.h"

#define ICRC_VECTORS   "tests/vectors/icrc.txt"
#define CM_VECTORS     "tests/vectors/cm.txt"
#define FRAME_VECTORS  "tests/vectors/frames.txt"
#define FORMAT_VECTORS "tests/vectors/formats.txt"

enum {
	FIELDS_MAX = 8,
	ROWS_MAX = 512,
	ALIGN_BYTES =
		2, /* frames start here, so that what follows the Ethernet header is aligned */
};

struct row {
	char *line;
	char *field[FIELDS_MAX]; /* the first is the name; the last, the frame in hex */
	__u8 *frame;
	size_t len;
};

struct rows {
	struct row row[ROWS_MAX];
	size_t count;
};

static struct rows icrc_rows, cm_rows, frame_rows, format_rows;
static struct rows *const all_rows[] = {&icrc_rows, &cm_rows, &frame_rows, &format_rows};

static const char *const kind_names[WIRE_KIND_COUNT] = {
#define X(id, name) [WIRE_##id] = name,
	WIRE_KINDS(X)
#undef X
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A buffer of exactly len bytes for a frame, so that ASan sees every read past its end. */
static inline __u8 *frame_alloc(size_t len)
{
	__u8 *buffer = malloc(ALIGN_BYTES + len);

	assert_non_null(buffer);
	return buffer + ALIGN_BYTES;
}

static inline void frame_free(__u8 *frame)
{
	free(frame - ALIGN_BYTES);
}

static inline __u8 *frame_copy(const __u8 *from, size_t len)
{
	__u8 *frame = frame_alloc(len);

	memcpy(frame, from, len);
	return frame;
}

static inline void read_hex(const char *hex, struct row *r)
{
	unsigned int byte;
	size_t i;

	r->len = strlen(hex) / 2;
	r->frame = frame_alloc(r->len);
	for (i = 0; i < r->len; i++) {
		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			fail_msg("%s: not hex", r->field[0]);
		r->frame[i] = byte;
	}
}

static inline void read_row(char *line, int fields, struct row *r)
{
	char *save = NULL, *word;
	int n = 0;

	r->line = strdup(line);
	for (word = strtok_r(r->line, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
		if (n == fields)
			fail_msg("%s: too many fields", r->field[0]);
		r->field[n++] = word;
	}
	if (n != fields)
		fail_msg("%s: %d fields, not %d", r->field[0], n, fields);
	read_hex(r->field[fields - 1], r);
}

static inline void read_rows(const char *path, int fields, struct rows *rows)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t size = 0;

	if (!file)
		fail_msg("%s: cannot be read; run from the root of the repository", path);
	while (getline(&line, &size, file) > 0) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		assert_true(rows->count < ROWS_MAX);
		read_row(line, fields, &rows->row[rows->count++]);
	}
	free(line);
	fclose(file);
	assert_true(rows->count > 0);
}

static inline int read_vectors(void **state)
{
	(void)state;
	read_rows(ICRC_VECTORS, 8, &icrc_rows);
	read_rows(CM_VECTORS, 7, &cm_rows);
	read_rows(FRAME_VECTORS, 3, &frame_rows);
	read_rows(FORMAT_VECTORS, 4, &format_rows);
	return 0;
}

static inline int free_vectors(void **state)
{
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT(all_rows); i++)
		for (j = 0; j < all_rows[i]->count; j++) {
			free(all_rows[i]->row[j].line);
			frame_free(all_rows[i]->row[j].frame);
		}
	return 0;
}

static inline const struct row *find_row(const struct rows *rows, const char *name)
{
	size_t i;

	for (i = 0; i < rows->count; i++)
		if (!strcmp(rows->row[i].field[0], name))
			return &rows->row[i];
	fail_msg("no vector %s", name);
	return NULL;
}

static inline __u32 number(const char *text)
{
	return strtoul(text, NULL, 0);
}

/* What the host build says of a frame. */
static inline struct wire_frame parse(const __u8 *frame, size_t len)
{
	struct wire_frame f;
	int kind;

	wire_frame_init(&f);
	kind = wire_parse(frame, frame + len, &f);
	assert_int_equal(kind, f.kind);
	return f;
}

/* Xorshift: the same damage in every run. */
static inline __u32 next_random(__u32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

#endif
