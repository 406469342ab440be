/* SPDX-License-Identifier: BSD-2-Clause */
/* The field table: one row for every key a policy may hold, and what is done with a row. */
#ifndef QUENCH_POLICY_FIELDS_H
#define QUENCH_POLICY_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/policy.h"
#include "qerr.h"

enum field_section {
	SECTION_TOP,
	SECTION_PORT,
	SECTION_CLASS,
	SECTION_ECN,
	SECTION_MARKS,
	SECTION_CNP,
	SECTION_PFC,
	SECTION_WATCHDOG,
	SECTION_REALTIME,
	SECTION_DCQCN,
	SECTION_PAIR,
	SECTION_OBSERVE,
	SECTION_PROTOCOLS,
};

enum field_kind {
	FIELD_RATE,	/* uint64_t, bit/s */
	FIELD_SIZE,	/* uint32_t or uint64_t, bytes */
	FIELD_TIME,	/* uint64_t, ns */
	FIELD_PERCENT,	/* double, 10% is 0.1 */
	FIELD_SHARE,	/* struct policy_share: a whole percentage, or a word */
	FIELD_RATIO,	/* double */
	FIELD_COUNT,	/* any unsigned integer */
	FIELD_WORD,	/* enum or bool, through words */
	FIELD_IFNAME,	/* char[], an interface name */
	FIELD_LABEL,	/* char[], a name of our own */
	FIELD_MAC,	/* uint8_t[6] */
	FIELD_ENDPOINT, /* struct policy_endpoint */
	FIELD_LISTEN,	/* struct policy_observe */
	FIELD_SET,	/* a list of small counts; unsigned integer, bit n: n is in it */
	FIELD_PORTS,	/* a list of TCP or UDP ports; struct policy_l4_ports */
	FIELD_MAP,	/* a nested section in place */
	FIELD_LIST,	/* an array of a nested section */
	FIELD_KINDS_COUNT,
};

struct field_word {
	const char *name;
	unsigned int value;
	bool unbuilt; /* known, and refused by name for now */
};

struct field {
	enum field_section section;
	const char *name;
	enum field_kind kind;
	bool required;
	bool above;	       /* the minimum itself is not allowed */
	const char *min, *max; /* inclusive, written as in a policy; lists: how many entries */
	const char *fallback;  /* the default, written as in a policy; NULL: zero or none */
	const char *zero;      /* this word stands for 0 */
	uint32_t variants;     /* 0, or: only these have it (1 << enum rate_variant), by preset */
	const char *why;       /* the reason of the range, for messages */
	const struct field_word *words;
	size_t offset, size;	  /* in the section's struct; lists: size of one element */
	enum field_section child; /* of a map or list */
	size_t count_at;	  /* list: offset of the size_t count */
	size_t present_at;	  /* map: offset of the bool "it is there"; 0: none */
	size_t line_at;		  /* list: offset of the int line in an element; 0: none */
	const char *help;
};

/* The table, in the order of the reference page. */
extern const struct field policy_fields[];
extern const size_t policy_fields_count;

/* The row of that key in the section, or NULL. */
const struct field *field_find(enum field_section section, const char *name);

/* The row of that path, as in "classes[].ecn.kmin", or NULL. */
const struct field *field_find_path(const char *path);

/* The path of the row without indices, as above. */
void field_path(const struct field *field, char *buf, size_t size);

/*
 * Read one scalar (of a set: one member) into the section's struct at base. Returns 0, or
 * -EINVAL with *err saying what is wrong and what is allowed; the struct is then unchanged.
 */
int field_read(const struct field *field, const char *text, void *base, struct qerr *err);

/* What the field allows, as in "8kbit to 400Gbit". */
void field_allowed(const struct field *field, char *buf, size_t size);

/* The keys of a section, "name, role or rate". */
void field_names(enum field_section section, char *buf, size_t size);

/* Write the value of a scalar that the section's struct at base has, as in a policy. */
void field_format(const struct field *field, const void *base, char *buf, size_t size);

/* Put the defaults of a section, and of the maps in it, into its struct at base. */
void field_set_defaults(enum field_section section, void *base);

#endif
