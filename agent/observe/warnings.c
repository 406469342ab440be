// SPDX-License-Identifier: BSD-2-Clause
// What is wrong with a port, one row a warning.
#include "observe/warnings.h"

#include <inttypes.h>
#include <stdio.h>

void warning_tags_hidden(const char *port, char text[WARNING_TEXT_MAX])
{
	snprintf(text, WARNING_TEXT_MAX,
		"the NIC takes VLAN tags off before XDP sees them, and `trust` goes by them first; "
		"run: ethtool -K %s rx-vlan-offload off rx-vlan-stag-hw-parse off",
		port);
}

/* RoCE frames of all classes of that kind. */
static uint64_t roce_of_kind(
	const struct snapshot *snapshot, const struct snapshot_port *port, enum class_kind kind)
{
	uint64_t frames = 0;

	for (size_t c = 0; c < snapshot->classes_count; c++)
		if (snapshot->classes[c].kind == kind)
			frames += port->stats.roce_class[c];
	return frames;
}

static bool is_tags_hidden(
	const struct snapshot *snapshot, const struct snapshot_port *port, char *text)
{
	(void)snapshot;
	if (port->tags_hidden)
		warning_tags_hidden(port->name, text);
	return port->tags_hidden;
}

static bool is_roce_unclassed(
	const struct snapshot *snapshot, const struct snapshot_port *port, char *text)
{
	uint64_t frames = port->stats.roce_class[CLASSES_MAX];

	snprintf(text, WARNING_TEXT_MAX,
		"%" PRIu64 " RoCE frame(s) with a DSCP or VLAN priority that the policy puts in no "
		"class: best effort",
		frames);
	return frames && snapshot->classes_count;
}

static bool is_roce_lossy(
	const struct snapshot *snapshot, const struct snapshot_port *port, char *text)
{
	uint64_t frames = roce_of_kind(snapshot, port, CLASS_LOSSY);

	snprintf(text, WARNING_TEXT_MAX,
		"%" PRIu64 " RoCE frame(s) in a class of kind lossy: RoCE does badly where frames "
		"are dropped",
		frames);
	return frames;
}

static bool is_trust_disagreeing(
	const struct snapshot *snapshot, const struct snapshot_port *port, char *text)
{
	(void)snapshot;
	snprintf(text, WARNING_TEXT_MAX,
		"%" PRIu64 " RoCE frame(s) whose DSCP and VLAN priority mean different classes",
		(uint64_t)port->stats.trust_disagrees);
	return port->stats.trust_disagrees;
}

/* Each writes its text, and says whether it holds. */
static const struct {
	const char *code;
	bool (*holds)(const struct snapshot *, const struct snapshot_port *, char *text);
} warnings[] = {
	{"tags_hidden", is_tags_hidden},
	{"roce_unclassed", is_roce_unclassed},
	{"roce_lossy", is_roce_lossy},
	{"trust_disagrees", is_trust_disagreeing},
};

json_t *warnings_json(const struct snapshot *snapshot, const struct snapshot_port *port)
{
	json_t *list = json_array();
	char text[WARNING_TEXT_MAX];

	for (size_t i = 0; i < sizeof(warnings) / sizeof(warnings[0]); i++)
		if (warnings[i].holds(snapshot, port, text))
			json_array_append_new(list,
				json_pack("{s:s, s:s}", "code", warnings[i].code, "text", text));
	return list;
}
