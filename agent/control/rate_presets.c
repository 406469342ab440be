// SPDX-License-Identifier: BSD-2-Clause
// The published numbers for each variant of the rate control.
#include "control/rate_presets.h"

#include <math.h>

#define KBIT 1000ull
#define MBIT 1000000ull
#define GBIT 1000000000ull
#define US   1000ull

/* The lowest rate that leaves a frame of 1,522 bytes every 10 ms. */
#define RATE_FLOOR 1217600ull

struct preset {
	const char *name;
	uint64_t reference_bps;
	struct rate_params params;
};

/*
 * Zhu et al., SIGCOMM 2015, tables and text; CoNEXT 2016, table 2. No minimum is published. CNPs
 * closer than a NIC's usual cut timer are no receiver's of one QP.
 */
#define SIGCOMM15                                                                                  \
	{                                                                                          \
		.variant = RATE_SIGCOMM15, .fast_recovery = 5, .min_rate_bps = 2 * MBIT,           \
		.g = 1.0 / 256, .initial_alpha = 1, .alpha_timer_ns = 55 * US,                     \
		.increase_timer_ns = 55 * US, .byte_counter_bytes = 10000000,                      \
		.additive_bps = 40 * MBIT, .clamp = RATE_CLAMP_ALWAYS, .cnp_spacing_ns = 4 * US,   \
	}

/* bobzhuyb/ns3-rdma, attributes of QbbNetDevice. */
#define NS3_RDMA                                                                                   \
	{                                                                                          \
		.variant = RATE_NS3_RDMA, .fast_recovery = 5, .min_rate_bps = 100 * MBIT,          \
		.g = 1.0 / 16, .initial_alpha = 0.5, .alpha_timer_ns = 55 * US,                    \
		.increase_timer_ns = 1500 * US, .byte_counter_bytes = 150000,                      \
		.additive_bps = 5 * MBIT, .hyper_bps = 50 * MBIT, .clamp = RATE_CLAMP_AFTER_BYTES, \
		.cnp_spacing_ns = 4 * US,                                                          \
	}

/* alibaba-edu/High-Precision-Congestion-Control: attributes of RdmaHw. */
#define HPCC_MLX                                                                                   \
	{                                                                                          \
		.variant = RATE_HPCC_MLX, .fast_recovery = 5, .min_rate_bps = 100 * MBIT,          \
		.g = 1.0 / 16, .initial_alpha = 1, .alpha_timer_ns = 55 * US,                      \
		.increase_timer_ns = 1500 * US, .cut_timer_ns = 4 * US, .additive_bps = 5 * MBIT,  \
		.hyper_bps = 50 * MBIT, .clamp = RATE_CLAMP_AFTER_INCREASE,                        \
	}

/*
 * The firmware's defaults by mlxconfig and the documentation of DOCA. rpg_min_rate is 1 Mbit/s,
 * below what our queues can do; the unit of rpg_byte_reset is in doubt, so the counter is off.
 */
#define NVIDIA                                                                                     \
	{                                                                                          \
		.variant = RATE_NVIDIA, .fast_recovery = 1, .min_rate_bps = RATE_FLOOR,            \
		.g = 5.0 / 1024, .initial_alpha = 1023.0 / 1024, .alpha_timer_ns = 1 * US,         \
		.increase_timer_ns = 300 * US, .cut_timer_ns = 4 * US, .additive_bps = 5 * MBIT,   \
		.hyper_bps = 50 * MBIT, .clamp = RATE_CLAMP_AFTER_INCREASE, .min_dec_fac = 0.5,    \
		.gd = 11,                                                                          \
	}

static const struct preset presets[RATE_PRESETS] = {
	[RATE_PRESET_SIGCOMM15] = {"sigcomm15", 0, SIGCOMM15},
	[RATE_PRESET_NS3_RDMA] = {"ns3-rdma", 0, NS3_RDMA},
	[RATE_PRESET_HPCC_MLX] = {"hpcc-mlx", 0, HPCC_MLX},
	[RATE_PRESET_NVIDIA] = {"nvidia", 0, NVIDIA},
	[RATE_PRESET_FIXED] = {"fixed", 0, {.variant = RATE_FIXED, .min_rate_bps = RATE_FLOOR}},

	/* mix/config.txt of ns3-rdma */
	[RATE_PRESET_NS3_SAMPLE] = {"ns3-sample", 0,
		{.variant = RATE_NS3_RDMA,
			.fast_recovery = 5,
			.min_rate_bps = 100 * MBIT,
			.g = 1.0 / 256,
			.initial_alpha = 0.5,
			.alpha_timer_ns = 55 * US,
			.increase_timer_ns = 60 * US,
			.byte_counter_bytes = 300000000,
			.additive_bps = 40 * MBIT,
			.hyper_bps = 200 * MBIT,
			.clamp = RATE_CLAMP_ALWAYS,
			.cnp_spacing_ns = 4 * US}},

	/* mix/config.txt of HPCC */
	[RATE_PRESET_HPCC_CONFIG] = {"hpcc-config", 0,
		{.variant = RATE_HPCC_MLX,
			.fast_recovery = 1,
			.min_rate_bps = 100 * MBIT,
			.g = 1.0 / 256,
			.initial_alpha = 1,
			.alpha_timer_ns = 1 * US,
			.increase_timer_ns = 900 * US,
			.cut_timer_ns = 4 * US,
			.additive_bps = 50 * MBIT,
			.hyper_bps = 100 * MBIT,
			.clamp = RATE_CLAMP_AFTER_INCREASE}},

	/* run.py of HPCC, --cc dcqcn and dcqcn_paper: the steps are those of 25 Gbit/s, scaled */
	[RATE_PRESET_HPCC_RUN] = {"hpcc-run", 25 * GBIT,
		{.variant = RATE_HPCC_MLX,
			.fast_recovery = 1,
			.min_rate_bps = 1000 * MBIT,
			.g = 1.0 / 256,
			.initial_alpha = 1,
			.alpha_timer_ns = 1 * US,
			.increase_timer_ns = 300 * US,
			.cut_timer_ns = 4 * US,
			.additive_bps = 5 * MBIT,
			.hyper_bps = 50 * MBIT,
			.clamp = RATE_CLAMP_AFTER_INCREASE}},
	[RATE_PRESET_HPCC_PAPER] = {"hpcc-paper", 25 * GBIT,
		{.variant = RATE_HPCC_MLX,
			.fast_recovery = 1,
			.min_rate_bps = 1000 * MBIT,
			.g = 1.0 / 256,
			.initial_alpha = 1,
			.alpha_timer_ns = 50 * US,
			.increase_timer_ns = 55 * US,
			.cut_timer_ns = 50 * US,
			.additive_bps = 5 * MBIT,
			.hyper_bps = 50 * MBIT,
			.clamp = RATE_CLAMP_AFTER_INCREASE}},
};

struct rate_params rate_preset(enum rate_preset preset, uint64_t *reference_bps)
{
	if (reference_bps)
		*reference_bps = presets[preset].reference_bps;
	return presets[preset].params;
}

const char *rate_preset_name(enum rate_preset preset)
{
	return presets[preset].name;
}

const char *rate_variant_name(enum rate_variant variant)
{
	return presets[variant].name;
}

static uint64_t scaled(uint64_t rate_bps, double factor)
{
	return (uint64_t)llround((double)rate_bps * factor);
}

void rate_params_scale(struct rate_params *p, uint64_t reference_bps)
{
	double factor;

	if (!reference_bps)
		return;
	factor = (double)p->line_rate_bps / (double)reference_bps;
	p->additive_bps = scaled(p->additive_bps, factor);
	p->hyper_bps = scaled(p->hyper_bps, factor);
}
