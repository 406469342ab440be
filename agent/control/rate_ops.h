/* SPDX-License-Identifier: BSD-2-Clause */
/* What a variant of the rate control is made of, and the steps that they share. */
#ifndef QUENCH_RATE_OPS_H
#define QUENCH_RATE_OPS_H

#include "control/rate_ctl.h"

/* Equal stages in a row: each moves the target by step_bps and then halves the gap to it. */
struct rate_run {
	uint64_t stages;   /* as many as follow each other like this, >= 1 */
	uint64_t period;   /* from each of them to the next stage, ns or bytes, > 0 */
	double step_bps;   /* 0: fast recovery */
	bool target_drops; /* to an eighth, instead of the step */
};

struct rate_ops {
	bool (*params_valid)(const struct rate_params *p);
	bool (*cnp)(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns);
	void (*advance)(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns);
	/* Alpha's updates due up to and including now_ns. */
	void (*alpha)(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns);
	/* What the next stages of this counter are. */
	struct rate_run (*plan)(
		struct rate_ctl *s, const struct rate_params *p, enum rate_counter counter);
	bool target_may_pass_line;
	bool release_forgets; /* the next CNP is a first one again */
};

extern const struct rate_ops rate_sigcomm15, rate_ns3_rdma, rate_hpcc_mlx, rate_nvidia, rate_fixed;

uint64_t rate_add_ns(uint64_t a, uint64_t b); /* saturated */

/* How many periods of a timer are due by now_ns; moves *due_ns past it. */
uint64_t rate_take_due(uint64_t *due_ns, uint64_t period_ns, uint64_t now_ns);

/* alpha <- (1 - g) alpha, times over. */
double rate_alpha_decayed(double alpha, double g, uint64_t times);

/* Run the timer's stages due up to and including now_ns. */
void rate_run_timer(struct rate_ctl *s, const struct rate_params *p, const struct rate_ops *ops,
	uint64_t now_ns);

/* A cut is made: stages and the timer start anew. */
void rate_restart_stages(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns);

/* Does a cut with this mode set the target? */
bool rate_clamps(const struct rate_ctl *s, enum rate_clamp clamp);

#endif
