/* SPDX-License-Identifier: BSD-2-Clause */
/* The published numbers for each variant of the rate control, by name. */
#ifndef QUENCH_RATE_PRESETS_H
#define QUENCH_RATE_PRESETS_H

#include <stddef.h>

#include "control/rate_ctl.h"

/* The first RATE_VARIANTS presets are each variant's own, in the order of enum rate_variant. */
enum rate_preset {
	RATE_PRESET_SIGCOMM15,
	RATE_PRESET_NS3_RDMA,
	RATE_PRESET_HPCC_MLX,
	RATE_PRESET_NVIDIA,
	RATE_PRESET_FIXED,
	RATE_PRESET_NS3_SAMPLE,
	RATE_PRESET_HPCC_CONFIG,
	RATE_PRESET_HPCC_RUN,
	RATE_PRESET_HPCC_PAPER,
	RATE_PRESETS,
};

/*
 * The preset's parameters; line_rate_bps is 0. min_rate_bps is at the least what a queue of ours
 * can hold a QP to, 1,217,600 bit/s. *reference_bps (NULL is allowed) is the line rate that the
 * steps belong to, to be scaled by rate_params_scale(); 0: they hold at every line rate.
 */
struct rate_params rate_preset(enum rate_preset preset, uint64_t *reference_bps);

/* The names that a policy gives them. */
const char *rate_preset_name(enum rate_preset preset);
const char *rate_variant_name(enum rate_variant variant);

/* For a line rate of p->line_rate_bps: the additive and the hyper step, which belong to another. */
void rate_params_scale(struct rate_params *p, uint64_t reference_bps);

/* Variants, as 1 << enum rate_variant, that have the same parameters. */
enum {
	RATE_ALL = 1 << RATE_SIGCOMM15 | 1 << RATE_NS3_RDMA | 1 << RATE_HPCC_MLX | 1 << RATE_NVIDIA,
	RATE_PAPERS = 1 << RATE_SIGCOMM15 | 1 << RATE_NS3_RDMA, /* each CNP cuts */
	RATE_NICS = 1 << RATE_HPCC_MLX | 1 << RATE_NVIDIA,	/* cuts have a timer */
	RATE_CLAMPING = RATE_NICS | 1 << RATE_NS3_RDMA,
	RATE_COUNTING = RATE_PAPERS | 1 << RATE_NVIDIA,
};

#endif
