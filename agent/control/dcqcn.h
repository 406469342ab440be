/* SPDX-License-Identifier: BSD-2-Clause */
/* DCQCN's reaction point: one QP's sending rate. Pure: time and byte counts are arguments. */
#ifndef QUENCH_DCQCN_H
#define QUENCH_DCQCN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The variant is `sigcomm15`: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments",
 * SIGCOMM 2015, without hyper increase. Where implementations differ, the choices are:
 *  - every CNP cuts, with the alpha from before the CNP; then alpha rises;
 *  - every cut sets the target to the rate before the cut;
 *  - a CNP restarts both timers and the byte counter;
 *  - a stage is counted first and then compared: F - 1 stages of fast recovery, then additive
 *    increase;
 *  - neither the rate nor the target ever passes the line rate.
 */

/* A QP within this share of the line rate is back at it: recovery would approach it for ever. */
#define DCQCN_LINE_TOLERANCE 1e-4

/* What one QP's rate control is told once; the same at every call for one state. */
struct dcqcn_params {
	uint64_t line_rate_bps;	     /* > 0 */
	uint64_t min_rate_bps;	     /* > 0, <= line rate */
	double g;		     /* (0, 1] */
	uint64_t increase_timer_ns;  /* T, > 0 */
	uint64_t alpha_timer_ns;     /* K, > 0 */
	uint64_t byte_counter_bytes; /* B; 0: off */
	uint32_t fast_recovery;	     /* F, >= 1 */
	uint64_t additive_bps;	     /* R_AI; 0: a cut QP never passes the rate it was cut from */
};

struct dcqcn {
	double rate_bps;   /* Rc */
	double target_bps; /* Rt */
	double alpha;
	uint32_t timer_stage, byte_stage;
	uint64_t bytes;		  /* since the last byte stage */
	uint64_t alpha_due_ns;	  /* next alpha decay; UINT64_MAX before the first CNP */
	uint64_t increase_due_ns; /* next timer stage, while limited */
	bool limited;		  /* false: at line rate, no increase runs */
};

/* Is every parameter within its range? The functions below rely on it. */
bool dcqcn_params_valid(const struct dcqcn_params *p);

/* A QP that has seen no CNP: at line rate, not limited, alpha 1. */
void dcqcn_init(struct dcqcn *d, const struct dcqcn_params *p);

/*
 * A CNP for this QP at now_ns: events due up to now_ns come first, then the cut. The QP is
 * limited from here on. Does not go below min_rate_bps.
 */
void dcqcn_cnp(struct dcqcn *d, const struct dcqcn_params *p, uint64_t now_ns);

/*
 * Run every timer event due up to and including now_ns, each as of its own time. The work is
 * constant however far now_ns is ahead. A time before an earlier call's does nothing.
 *
 * A QP whose rate comes back to the line rate is no longer limited. Its alpha stays and goes on
 * decaying, as in the paper, so a later CNP after a long calm hardly cuts.
 */
void dcqcn_advance(struct dcqcn *d, const struct dcqcn_params *p, uint64_t now_ns);

/*
 * The QP has sent this many more bytes by now_ns: a byte stage for every B of them, after the
 * timer events due. Nothing while the QP is not limited or B is 0.
 */
void dcqcn_sent(struct dcqcn *d, const struct dcqcn_params *p, uint64_t bytes, uint64_t now_ns);

/* The single steps that the functions above are made of, without any clock. */
void dcqcn_alpha_event(struct dcqcn *d, const struct dcqcn_params *p);
void dcqcn_timer_event(struct dcqcn *d, const struct dcqcn_params *p);
void dcqcn_byte_event(struct dcqcn *d, const struct dcqcn_params *p);

/*
 * When the rate next changes by itself; UINT64_MAX when it does not. Alpha's decay needs no
 * call of its own: nothing depends on it until the next CNP, which brings it up to date.
 */
uint64_t dcqcn_next_ns(const struct dcqcn *d);

#endif
