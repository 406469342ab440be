/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One QP's sending rate, by one of the published forms of DCQCN. Pure: time and byte counts are
 * arguments; nothing is allocated.
 */
#ifndef QUENCH_RATE_CTL_H
#define QUENCH_RATE_CTL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Implementations differ in more than their numbers. In common: Rt is the target, Rc the rate; an
 * increase stage is a period of the timer or a full byte counter; neither Rc nor, but for
 * ns3-rdma, Rt ever passes the line rate.
 *
 * sigcomm15  Zhu et al., SIGCOMM 2015, and Zhu et al., CoNEXT 2016. Every CNP cuts, with the alpha
 *            from before it, sets Rt = Rc and restarts both timers and the byte counter. A stage is
 *            counted and then compared: F - 1 stages of fast recovery.
 * ns3-rdma   The DCQCN authors' simulator (bobzhuyb/ns3-rdma, qbb-net-device.cc). As above, but
 *            alpha rises first and then cuts; Rt follows by `clamp`, and only then does the byte
 *            counter restart; the first stage after a deep cut brings Rt down to an eighth; in
 *            hyper increase timer and byte counter are halved; Rt is not held to the line rate.
 * hpcc-mlx   The "mlx version" of alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc. Alpha
 *            and the cut have free running timers from the first CNP on: at each of them a CNP
 *            since the last one counts once. A stage is compared and then counted: F stages of fast
 *            recovery, one additive, then hyper. No byte counter.
 * nvidia     ConnectX firmware as far as its parameters tell (mlx5 cong.c, mlxconfig): as hpcc-mlx,
 *            and alpha is a 10-bit fraction, rounded down; `gd` and `min_dec_fac` bound a cut; a QP
 *            back at line rate forgets its alpha. Where there is a byte counter, the counter that
 *            is further on says the phase.
 * fixed      No control: CNPs change nothing, a QP stays at line_rate. To compare with.
 *
 * There is no timely or swift: both need the RTT of single packets. The agent sees no ACKs, on
 * soft-RoCE an ACK's delay is the receiver's scheduling, and ACKs are coalesced.
 */
enum rate_variant {
	RATE_SIGCOMM15,
	RATE_NS3_RDMA,
	RATE_HPCC_MLX,
	RATE_NVIDIA,
	RATE_FIXED,
	RATE_VARIANTS,
};

/* When a cut sets the target to the rate before it. */
enum rate_clamp {
	RATE_CLAMP_ALWAYS,
	RATE_CLAMP_AFTER_BYTES,	   /* if a byte stage came since the last cut */
	RATE_CLAMP_AFTER_INCREASE, /* if any stage did */
};

/* A QP within this share of the line rate is back at it: recovery would approach it for ever. */
#define RATE_LINE_TOLERANCE 1e-4

/* What one QP's control is told; the same at every call for one state. */
struct rate_params {
	enum rate_variant variant;
	uint32_t fast_recovery;	     /* F, >= 1 */
	uint64_t line_rate_bps;	     /* > 0 */
	uint64_t min_rate_bps;	     /* > 0, <= line rate */
	double g;		     /* (0, 1]; nvidia: a multiple of 1/1024 */
	double initial_alpha;	     /* (0, 1]; nvidia: a multiple of 1/1024, below 1 */
	uint64_t alpha_timer_ns;     /* K, > 0 */
	uint64_t increase_timer_ns;  /* T, > 0; ns3-rdma: > 1 */
	uint64_t byte_counter_bytes; /* B; 0: off; ns3-rdma: not 1 */
	uint64_t additive_bps;	     /* R_AI; 0: a cut QP never passes the rate it was cut from */
	uint64_t hyper_bps;	     /* R_HAI; 0: additive increase goes on instead */
	enum rate_clamp clamp;	     /* ns3-rdma, hpcc-mlx, nvidia */
	uint64_t cnp_spacing_ns;     /* sigcomm15, ns3-rdma: CNPs closer than this are ignored */
	uint64_t cut_timer_ns;	     /* hpcc-mlx, nvidia: > 0; at most one cut in this time */
	uint64_t first_cnp_bps;	     /* hpcc-mlx, nvidia: the rate at the first CNP; 0: line rate */
	double min_dec_fac;	     /* nvidia: a cut leaves this share at the least, [0, 1] */
	uint32_t gd;		     /* nvidia: a cut is alpha * 1024 / 2^gd; 10 or 11 */
};

enum rate_counter { RATE_TIMER, RATE_BYTES, RATE_COUNTERS };

/* One cache line. */
struct rate_ctl {
	double rate_bps;   /* Rc */
	double target_bps; /* Rt */
	double alpha;	   /* as of the last CNP or cut; see rate_ctl_alpha() */
	uint64_t alpha_due_ns;
	uint64_t increase_due_ns; /* UINT64_MAX: no stage to come */
	uint64_t cut_due_ns;	  /* the next moment at which a CNP can cut */
	uint64_t bytes_left;	  /* until the next byte stage */
	uint16_t stage[RATE_COUNTERS];
	bool limited; /* false: at line rate, and nothing will change that but a CNP */
	uint8_t started : 1;
	uint8_t cnp_for_alpha : 1; /* since alpha's last update */
	uint8_t cnp_for_cut : 1;   /* a cut is due at cut_due_ns */
	uint8_t hyper : 1;	   /* ns3-rdma: in hyper increase */
};
_Static_assert(sizeof(struct rate_ctl) == 64, "rate_ctl");

/* Is every parameter that the variant has within its range? The functions below rely on it. */
bool rate_params_valid(const struct rate_params *p);

/* A QP that has seen no CNP: at line rate, not limited. */
void rate_ctl_init(struct rate_ctl *s, const struct rate_params *p);

/*
 * The parameters are p from here on, and were before: the QP keeps its rate, within the new bounds;
 * with another variant it starts again at line rate.
 */
void rate_ctl_renew(
	struct rate_ctl *s, const struct rate_params *before, const struct rate_params *p);

/*
 * A CNP for this QP at now_ns. Of what is due at that very moment, stages come first and a NIC's
 * timers after. Never leads below min_rate_bps. False if it came too soon and was ignored.
 */
bool rate_ctl_cnp(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns);

/*
 * Run everything due up to and including now_ns, each as of its own time. The work is constant
 * however far now_ns is ahead. A time before an earlier call's does nothing.
 */
void rate_ctl_advance(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns);

/*
 * The QP has sent this many more bytes by now_ns: a byte stage for every B of them, after what is
 * due. Nothing while there is no stage to come or the variant has no byte counter.
 */
void rate_ctl_sent(
	struct rate_ctl *s, const struct rate_params *p, uint64_t bytes, uint64_t now_ns);

/* When the rate next changes by itself; UINT64_MAX when it does not. */
static inline uint64_t rate_ctl_next_ns(const struct rate_ctl *s)
{
	uint64_t cut_ns = s->cnp_for_cut ? s->cut_due_ns : UINT64_MAX;

	return s->increase_due_ns < cut_ns ? s->increase_due_ns : cut_ns;
}

/* Alpha as of now_ns, [0, 1]; the state keeps an older one, for only a CNP needs it. */
double rate_ctl_alpha(const struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns);

#endif
