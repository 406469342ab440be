// SPDX-License-Identifier: BSD-2-Clause
// The rate control's parameters that the policy leaves to a preset.
#include "policy/presets.h"

#include <math.h>
#include <string.h>

#include "policy/fields.h"
#include "policy/text.h"

static struct path path_of_key(const struct field *field)
{
	return path_of("dcqcn.%s", field->name);
}

static struct policy_dcqcn dcqcn_of(enum rate_preset preset)
{
	struct policy_dcqcn dcqcn = {};

	dcqcn.rate = rate_preset(preset, &dcqcn.reference_bps);
	return dcqcn;
}

/* The names of the variants in the mask, "ns3-rdma, hpcc-mlx or nvidia". */
static void variant_names(uint32_t variants, char *buf, size_t size)
{
	*buf = '\0';
	for (int variant = 0; variants >> variant; variant++)
		if (variants >> variant & 1)
			text_join(buf, size, rate_variant_name(variant),
				__builtin_popcount(variants >> variant) - 1);
}

/* The preset decides the variant unless both are given; then they must belong together. */
static enum rate_preset choose_preset(struct reader *reader)
{
	struct policy_dcqcn *dcqcn = &reader->policy->dcqcn;
	enum rate_variant variant = dcqcn->rate.variant;

	if (dcqcn->preset == RATE_PRESETS)
		return (enum rate_preset)variant;
	dcqcn->rate.variant = rate_preset(dcqcn->preset, NULL).variant;
	if (dcqcn->rate.variant != variant &&
		reader_state(reader, path_of("dcqcn.variant")) == VALUE_GOOD)
		reader_fault(reader, path_of("dcqcn.preset"),
			"%s belongs to the variant %s, not to %s; allowed auto, or one of %s's",
			rate_preset_name(dcqcn->preset), rate_variant_name(dcqcn->rate.variant),
			rate_variant_name(variant), rate_variant_name(variant));
	return dcqcn->preset;
}

static void take_key(
	struct reader *reader, const struct field *field, const struct policy_dcqcn *preset)
{
	struct policy_dcqcn *dcqcn = &reader->policy->dcqcn;
	enum value_state state = reader_state(reader, path_of_key(field));
	bool has = field->variants >> preset->rate.variant & 1;
	char names[128];

	if (state != VALUE_GOOD || !has)
		memcpy((char *)dcqcn + field->offset, (const char *)preset + field->offset,
			field->size);
	if (state == VALUE_ABSENT || has)
		return;
	variant_names(field->variants, names, sizeof(names));
	reader_fault(reader, path_of_key(field), "the variant %s has no such key; allowed with %s",
		rate_variant_name(preset->rate.variant), names);
}

static bool is_10_bit(double value)
{
	return value * 1024 == floor(value * 1024);
}

/* The firmware's alpha has ten bits. */
static void check_nvidia(struct reader *reader)
{
	const struct rate_params *rate = &reader->policy->dcqcn.rate;

	if (!is_10_bit(rate->g))
		reader_fault(reader, path_of("dcqcn.g"),
			"is no multiple of 1/1024, which nvidia counts in; allowed 1/1024 to 1");
	if (!is_10_bit(rate->initial_alpha) || rate->initial_alpha >= 1)
		reader_fault(reader, path_of("dcqcn.initial_alpha"),
			"is no multiple of 1/1024 below 1, which nvidia counts in; allowed "
			"1/1024 to 1023/1024");
}

void presets_take(struct reader *reader)
{
	struct policy_dcqcn *dcqcn = &reader->policy->dcqcn;
	struct policy_dcqcn preset;

	dcqcn->preset = choose_preset(reader);
	preset = dcqcn_of(dcqcn->preset);
	for (size_t i = 0; i < policy_fields_count; i++)
		if (policy_fields[i].variants)
			take_key(reader, &policy_fields[i], &preset);
	if (dcqcn->rate.variant == RATE_NVIDIA)
		check_nvidia(reader);
	if (dcqcn->rate.variant == RATE_HPCC_MLX && dcqcn->rate.clamp == RATE_CLAMP_AFTER_BYTES)
		reader_fault(reader, path_of("dcqcn.clamp_target"),
			"the variant hpcc-mlx counts no bytes; allowed always or after_increase");
}

static void describe_key(FILE *out, const struct field *field)
{
	char text[64];

	fprintf(out, "| `%s` |", field->name);
	for (int i = 0; i < RATE_PRESETS; i++) {
		const struct policy_dcqcn preset = dcqcn_of((enum rate_preset)i);

		*text = '\0';
		if (field->variants >> preset.rate.variant & 1)
			field_format(field, &preset, text, sizeof(text));
		fprintf(out, " %s |", text);
	}
	fputc('\n', out);
}

void presets_describe(FILE *out)
{
	fputs("\nWhat the presets stand for; the variant has the keys that have a value:\n\n", out);
	fputs("| `dcqcn.preset` |", out);
	for (int i = 0; i < RATE_PRESETS; i++)
		fprintf(out, " %s |", rate_preset_name((enum rate_preset)i));
	fputs("\n|---|", out);
	for (int i = 0; i < RATE_PRESETS; i++)
		fputs("---|", out);
	fputs("\n| `variant` |", out);
	for (int i = 0; i < RATE_PRESETS; i++)
		fprintf(out, " %s |",
			rate_preset_name(
				(enum rate_preset)dcqcn_of((enum rate_preset)i).rate.variant));
	fputc('\n', out);
	for (size_t i = 0; i < policy_fields_count; i++)
		if (policy_fields[i].variants)
			describe_key(out, &policy_fields[i]);
}
