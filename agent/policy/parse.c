// SPDX-License-Identifier: BSD-2-Clause
// The policy reader: YAML nodes to the typed policy by way of the field table.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/fields.h"
#include "policy/reader.h"
#include "policy/text.h"

#define POLICY_FILE_MAX (1 << 20)
#define FAULT_MAX	1024
#define KEYS_MAX	256
#define DEPTH_MAX	16 /* of lists and maps in each other; a policy has 5 */
#define MERGE_KEY	"<<"

struct path path_of(const char *fmt, ...)
{
	struct path path;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path.text, sizeof(path.text), fmt, ap);
	va_end(ap);
	return path;
}

static struct path path_key(struct path in, const char *key)
{
	size_t used = strlen(in.text);

	snprintf(in.text + used, sizeof(in.text) - used, "%s%s", used ? "." : "", key);
	return in;
}

static struct path path_item(struct path in, size_t index)
{
	size_t used = strlen(in.text);

	snprintf(in.text + used, sizeof(in.text) - used, "[%zu]", index);
	return in;
}

static void report_note(
	struct reader *reader, bool warning, yaml_mark_t mark, const char *field, const char *what)
{
	char line[PATH_MAX + READER_PATH_MAX + FAULT_MAX];
	const struct policy_note note = {.warning = warning,
		.line = mark.line + 1,
		.column = mark.column + 1,
		.field = *field ? field : "policy",
		.what = what,
		.text = line};

	snprintf(line, sizeof(line), "%s:%zu:%zu: %s: %s%s", reader->file, note.line, note.column,
		note.field, warning ? "warning: " : "", what);
	reader->faults += !warning;
	reader->report(reader->arg, &note);
}

__attribute__((format(printf, 4, 5))) static void fault(
	struct reader *reader, yaml_mark_t mark, struct path path, const char *fmt, ...)
{
	char what[FAULT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	report_note(reader, false, mark, path.text, what);
}

/* The node's text when it is a scalar without a NUL in it, else NULL. */
static const char *scalar_text(const yaml_node_t *node)
{
	const char *text;

	if (node->type != YAML_SCALAR_NODE)
		return NULL;
	text = (const char *)node->data.scalar.value;
	return strlen(text) == node->data.scalar.length ? text : NULL;
}

static yaml_node_t *own_child(
	struct reader *reader, const yaml_node_t *node, const char *key, size_t len)
{
	yaml_node_pair_t *pair;

	if (node->type != YAML_MAPPING_NODE)
		return NULL;
	for (pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
		const char *text =
			scalar_text(yaml_document_get_node(&reader->document, pair->key));

		if (text && strlen(text) == len && !memcmp(text, key, len))
			return yaml_document_get_node(&reader->document, pair->value);
	}
	return NULL;
}

/* The map whose keys the map has too, `<<: *name`, where it has none of its own; or NULL. */
static const yaml_node_t *merged_map(struct reader *reader, const yaml_node_t *node)
{
	const yaml_node_t *from = own_child(reader, node, MERGE_KEY, strlen(MERGE_KEY));

	return from && from->type == YAML_MAPPING_NODE ? from : NULL;
}

static yaml_node_t *child_of_key(
	struct reader *reader, const yaml_node_t *node, const char *key, size_t len)
{
	yaml_node_t *child = own_child(reader, node, key, len);
	const yaml_node_t *from = child ? NULL : merged_map(reader, node);

	return from ? own_child(reader, from, key, len) : child;
}

static yaml_node_t *child_of_index(struct reader *reader, const yaml_node_t *node, size_t index)
{
	yaml_node_item_t *items;

	if (node->type != YAML_SEQUENCE_NODE)
		return NULL;
	items = node->data.sequence.items.start;
	if (index >= (size_t)(node->data.sequence.items.top - items))
		return NULL;
	return yaml_document_get_node(&reader->document, items[index]);
}

/* One step of a path, a key or an [index]; *at ends behind it. */
static yaml_node_t *step(struct reader *reader, const yaml_node_t *node, const char **at)
{
	const char *key = *at + (**at == '.');
	char *end;

	if (**at == '[') {
		size_t index = strtoul(*at + 1, &end, 10);

		*at = end + 1;
		return child_of_index(reader, node, index);
	}
	*at = key + strcspn(key, ".[");
	return child_of_key(reader, node, key, *at - key);
}

/* The deepest node on the path that exists; *whole says whether it is the last one. */
static yaml_node_t *locate(struct reader *reader, struct path path, bool *whole)
{
	yaml_node_t *node = yaml_document_get_root_node(&reader->document);
	const char *at = path.text;

	*whole = true;
	while (*at) {
		yaml_node_t *next = step(reader, node, &at);

		if (!next) {
			*whole = false;
			break;
		}
		node = next;
	}
	return node;
}

/* A node with an alias is read in several places, and must be good in all. */
static void set_state(struct reader *reader, const yaml_node_t *node, bool good)
{
	enum value_state *state = &reader->states[node - reader->document.nodes.start];

	if (*state != VALUE_BAD)
		*state = good ? VALUE_GOOD : VALUE_BAD;
}

enum value_state reader_state(struct reader *reader, struct path path)
{
	bool whole;
	yaml_node_t *node = locate(reader, path, &whole);

	if (!whole)
		return VALUE_ABSENT;
	return reader->states[node - reader->document.nodes.start] == VALUE_GOOD ? VALUE_GOOD
										 : VALUE_BAD;
}

bool reader_usable(struct reader *reader, struct path path)
{
	return reader_state(reader, path) != VALUE_BAD;
}

const char *reader_text(struct reader *reader, struct path path)
{
	bool whole;
	yaml_node_t *node = locate(reader, path, &whole);

	return whole ? scalar_text(node) : NULL;
}

void reader_fault(struct reader *reader, struct path path, const char *fmt, ...)
{
	char what[FAULT_MAX];
	va_list ap;
	bool whole;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	report_note(reader, false, locate(reader, path, &whole)->start_mark, path.text, what);
}

void reader_warn(struct reader *reader, struct path path, const char *fmt, ...)
{
	char what[FAULT_MAX];
	va_list ap;
	bool whole;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	report_note(reader, true, locate(reader, path, &whole)->start_mark, path.text, what);
}

static void read_map(struct reader *reader, enum field_section section, const yaml_node_t *node,
	void *base, struct path path);

static void *member(const struct field *field, void *base)
{
	return (char *)base + field->offset;
}

static void wrong_type(
	struct reader *reader, const yaml_node_t *node, struct path path, const char *wanted)
{
	static const char *const names[] = {
		[YAML_NO_NODE] = "nothing",
		[YAML_SCALAR_NODE] = "a single value",
		[YAML_SEQUENCE_NODE] = "a list",
		[YAML_MAPPING_NODE] = "a map",
	};

	fault(reader, node->start_mark, path, "must be %s, not %s", wanted, names[node->type]);
}

static bool take_scalar(struct reader *reader, const struct field *field, const yaml_node_t *node,
	void *base, struct path path)
{
	const char *text = scalar_text(node);
	struct qerr err;

	if (node->type != YAML_SCALAR_NODE) {
		wrong_type(reader, node, path, "a single value");
		return false;
	}
	if (!text) {
		fault(reader, node->start_mark, path, "holds a NUL character");
		return false;
	}
	if (field_read(field, text, base, &err)) {
		fault(reader, node->start_mark, path, "%s", err.text);
		return false;
	}
	return true;
}

static bool read_scalar(struct reader *reader, const struct field *field, const yaml_node_t *node,
	void *base, struct path path)
{
	bool good = take_scalar(reader, field, node, base, path);

	set_state(reader, node, good);
	return good;
}

static void read_set(struct reader *reader, const struct field *field, const yaml_node_t *node,
	void *base, struct path path)
{
	yaml_node_item_t *items;
	bool good = true;
	size_t count;

	if (node->type != YAML_SEQUENCE_NODE) {
		wrong_type(reader, node, path, "a list");
		return;
	}
	items = node->data.sequence.items.start;
	count = node->data.sequence.items.top - items;
	if (field->kind == FIELD_PORTS)
		((struct policy_l4_ports *)member(field, base))->given = true;
	for (size_t i = 0; i < count; i++)
		good &= read_scalar(reader, field,
			yaml_document_get_node(&reader->document, items[i]), base,
			path_item(path, i));
	set_state(reader, node, good);
}

static void read_element(struct reader *reader, const struct field *field, const yaml_node_t *node,
	void *element, struct path path)
{
	int line = node->start_mark.line + 1;

	field_set_defaults(field->child, element);
	if (field->line_at)
		memcpy((char *)element + field->line_at, &line, sizeof(line));
	read_map(reader, field->child, node, element, path);
}

static void read_list(struct reader *reader, const struct field *field, const yaml_node_t *node,
	void *base, struct path path)
{
	size_t min = strtoul(field->min, NULL, 10);
	size_t max = strtoul(field->max, NULL, 10);
	char *elements = member(field, base);
	size_t count;

	if (node->type != YAML_SEQUENCE_NODE) {
		wrong_type(reader, node, path, "a list");
		return;
	}
	count = node->data.sequence.items.top - node->data.sequence.items.start;
	if (count < min)
		fault(reader, node->start_mark, path, "too few entries; allowed %zu to %zu", min,
			max);
	if (count > max) {
		fault(reader, child_of_index(reader, node, max)->start_mark, path,
			"too many entries (%zu); allowed %zu to %zu", count, min, max);
		count = max;
	}
	for (size_t i = 0; i < count; i++)
		read_element(reader, field, child_of_index(reader, node, i),
			elements + i * field->size, path_item(path, i));
	memcpy((char *)base + field->count_at, &count, sizeof(count));
	set_state(reader, node, true);
}

static void read_nested(struct reader *reader, const struct field *field, const yaml_node_t *node,
	void *base, struct path path)
{
	bool present = true;

	if (field->present_at)
		memcpy((char *)base + field->present_at, &present, sizeof(present));
	read_map(reader, field->child, node, member(field, base), path);
}

static void read_value(struct reader *reader, const struct field *field, const yaml_node_t *node,
	void *base, struct path path)
{
	switch (field->kind) {
	case FIELD_MAP:
		read_nested(reader, field, node, base, path);
		break;
	case FIELD_LIST:
		read_list(reader, field, node, base, path);
		break;
	case FIELD_SET:
	case FIELD_PORTS:
		read_set(reader, field, node, base, path);
		break;
	default:
		read_scalar(reader, field, node, base, path);
	}
}

static void unknown_key(
	struct reader *reader, enum field_section section, const yaml_node_t *key, struct path path)
{
	char names[KEYS_MAX];

	field_names(section, names, sizeof(names));
	fault(reader, key->start_mark, path, "unknown key; allowed %s", names);
}

static void read_pair(struct reader *reader, enum field_section section, const yaml_node_t *map,
	const yaml_node_pair_t *pair, void *base, struct path path)
{
	const yaml_node_t *key = yaml_document_get_node(&reader->document, pair->key);
	const yaml_node_t *value = yaml_document_get_node(&reader->document, pair->value);
	const char *name = scalar_text(key);
	const struct field *field;

	if (!name) {
		wrong_type(reader, key, path, "a map with plain words as keys");
		return;
	}
	path = path_key(path, text_plain(name).text);
	field = field_find(section, name);
	if (!field)
		unknown_key(reader, section, key, path);
	else if (child_of_key(reader, map, name, strlen(name)) != value)
		fault(reader, key->start_mark, path, "is there twice; allowed once");
	else
		read_value(reader, field, value, base, path);
}

/* Is the pair `<<: *name`? Its value must be a map then. */
static bool is_merge(struct reader *reader, const yaml_node_pair_t *pair, struct path path)
{
	const char *key = scalar_text(yaml_document_get_node(&reader->document, pair->key));
	const yaml_node_t *value = yaml_document_get_node(&reader->document, pair->value);

	if (!key || strcmp(key, MERGE_KEY))
		return false;
	if (value->type != YAML_MAPPING_NODE)
		wrong_type(reader, value, path_key(path, MERGE_KEY), "a map, as *name");
	return true;
}

static void read_merged(struct reader *reader, enum field_section section, const yaml_node_t *node,
	void *base, struct path path)
{
	const yaml_node_t *from = merged_map(reader, node);
	const yaml_node_pair_t *pair;

	if (!from)
		return;
	for (pair = from->data.mapping.pairs.start; pair < from->data.mapping.pairs.top; pair++) {
		const char *key = scalar_text(yaml_document_get_node(&reader->document, pair->key));

		if (!key || !own_child(reader, node, key, strlen(key)))
			read_pair(reader, section, from, pair, base, path);
	}
}

static void check_required(
	struct reader *reader, enum field_section section, const yaml_node_t *map, struct path path)
{
	char allowed[256];

	for (size_t i = 0; i < policy_fields_count; i++) {
		const struct field *field = &policy_fields[i];

		if (field->section != section || !field->required ||
			child_of_key(reader, map, field->name, strlen(field->name)))
			continue;
		field_allowed(field, allowed, sizeof(allowed));
		fault(reader, map->start_mark, path_key(path, field->name),
			"is missing and required; allowed %s", allowed);
	}
}

static void read_map(struct reader *reader, enum field_section section, const yaml_node_t *node,
	void *base, struct path path)
{
	char wanted[KEYS_MAX + 32], names[KEYS_MAX];
	const yaml_node_pair_t *pair;

	if (node->type != YAML_MAPPING_NODE) {
		field_names(section, names, sizeof(names));
		snprintf(wanted, sizeof(wanted), "a map with the keys %s", names);
		wrong_type(reader, node, path, wanted);
		return;
	}
	for (pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++)
		if (!is_merge(reader, pair, path))
			read_pair(reader, section, node, pair, base, path);
	read_merged(reader, section, node, base, path);
	check_required(reader, section, node, path);
	set_state(reader, node, true);
}

/* The reader of libyaml knows only the offset of a byte that is no UTF-8. */
static yaml_mark_t mark_of_offset(const char *text, size_t len, size_t offset)
{
	yaml_mark_t mark = {};

	for (size_t i = 0; i < len && i < offset; i++) {
		mark.column++;
		if (text[i] == '\n') {
			mark.line++;
			mark.column = 0;
		}
	}
	return mark;
}

static void syntax_fault(
	struct reader *reader, const yaml_parser_t *parser, const char *text, size_t len)
{
	yaml_mark_t mark = parser->problem_mark;
	const char *problem = parser->problem ? parser->problem : "out of memory";
	const char *context = parser->context;

	if (parser->error == YAML_READER_ERROR)
		mark = mark_of_offset(text, len, parser->problem_offset);
	fault(reader, mark, path_of("yaml"), "%s%s%s", problem, context ? " " : "",
		context ? context : "");
}

static bool open_parser(yaml_parser_t *parser, const char *text, size_t len)
{
	if (!yaml_parser_initialize(parser))
		return false;
	yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(parser, (const unsigned char *)text, len);
	return true;
}

static void check_event(struct reader *reader, const yaml_event_t *event, size_t *documents)
{
	if (event->type == YAML_DOCUMENT_START_EVENT && ++*documents == 2)
		fault(reader, event->start_mark, path_of("yaml"), "a second document; allowed one");
}

/*
 * A policy is shallow. libyaml takes time with the square of the depth, so nothing is read beyond
 * the limit.
 */
static bool check_depth(struct reader *reader, const yaml_event_t *event, size_t *depth)
{
	if (event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT)
		++*depth;
	if (event->type == YAML_MAPPING_END_EVENT || event->type == YAML_SEQUENCE_END_EVENT)
		--*depth;
	if (*depth <= DEPTH_MAX)
		return true;
	fault(reader, event->start_mark, path_of("yaml"),
		"lists and maps nested more than %d deep; allowed 1 to %d", DEPTH_MAX, DEPTH_MAX);
	return false;
}

/* Look through the whole text: syntax, depth, and that it is one document. */
static void check_syntax(struct reader *reader, const char *text, size_t len)
{
	size_t documents = 0, depth = 0;
	yaml_parser_t parser;
	yaml_event_t event;
	bool last = false;

	if (!open_parser(&parser, text, len)) {
		fault(reader, (yaml_mark_t){}, path_of("yaml"), "out of memory");
		return;
	}
	while (!last) {
		if (!yaml_parser_parse(&parser, &event)) {
			syntax_fault(reader, &parser, text, len);
			break;
		}
		check_event(reader, &event, &documents);
		last = event.type == YAML_STREAM_END_EVENT || !check_depth(reader, &event, &depth);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
}

static bool load_document(struct reader *reader, const char *text, size_t len)
{
	yaml_parser_t parser;
	bool loaded;

	if (!open_parser(&parser, text, len)) {
		fault(reader, (yaml_mark_t){}, path_of("yaml"), "out of memory");
		return false;
	}
	loaded = yaml_parser_load(&parser, &reader->document);
	if (!loaded)
		syntax_fault(reader, &parser, text, len);
	yaml_parser_delete(&parser);
	return loaded;
}

static void read_document(struct reader *reader)
{
	const yaml_node_t *root = yaml_document_get_root_node(&reader->document);
	size_t nodes = reader->document.nodes.top - reader->document.nodes.start;

	if (!root) {
		fault(reader, (yaml_mark_t){}, path_of("policy"), "is empty");
		return;
	}
	reader->states = calloc(nodes, sizeof(*reader->states));
	if (!reader->states) {
		fault(reader, root->start_mark, path_of("policy"), "out of memory");
		return;
	}
	read_map(reader, SECTION_TOP, root, reader->policy, path_of("%s", ""));
	if (root->type == YAML_MAPPING_NODE)
		policy_check(reader);
	if (!reader->faults)
		policy_warn(reader);
	free(reader->states);
}

int policy_parse(const char *text, size_t len, const char *name, struct policy *policy,
	policy_report_fn report, void *arg)
{
	struct reader reader = {.file = name, .report = report, .arg = arg, .policy = policy};

	memset(policy, 0, sizeof(*policy));
	field_set_defaults(SECTION_TOP, policy);
	check_syntax(&reader, text, len);
	if (reader.faults || !load_document(&reader, text, len))
		return -EINVAL;
	read_document(&reader);
	yaml_document_delete(&reader.document);
	return reader.faults ? -EINVAL : 0;
}

/* Up to max bytes; the count, or -errno. */
static ssize_t read_all(int fd, char *buf, size_t max)
{
	size_t len = 0;

	while (len < max) {
		ssize_t n = read(fd, buf + len, max - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += n;
	}
	return len;
}

/* One byte more than allowed is asked for, to tell a full file from a larger one. */
static ssize_t read_file(const char *path, char *buf, struct qerr *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return qerr_set(err, -errno, "%s: %s", path, strerror(errno));
	len = read_all(fd, buf, POLICY_FILE_MAX + 1);
	close(fd);
	if (len < 0)
		return qerr_set(err, len, "%s: %s", path, strerror(-len));
	if (len > POLICY_FILE_MAX)
		return qerr_set(err, -EFBIG, "%s: larger than %d bytes", path, POLICY_FILE_MAX);
	return len;
}

int policy_load(const char *path, struct policy *policy, policy_report_fn report, void *arg,
	struct qerr *err)
{
	char *text = malloc(POLICY_FILE_MAX + 1);
	ssize_t len;
	int ret;

	if (err)
		*err->text = '\0';
	if (!text)
		return qerr_set(err, -ENOMEM, "%s: out of memory", path);
	len = read_file(path, text, err);
	ret = len < 0 ? (int)len : policy_parse(text, len, path, policy, report, arg);
	free(text);
	return ret;
}
