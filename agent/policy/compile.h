/* SPDX-License-Identifier: BSD-2-Clause */
/* From the policy to what the kernel side is told. Pure. */
#ifndef QUENCH_COMPILE_H
#define QUENCH_COMPILE_H

#include "control/rate_ctl.h"
#include "policy/policy.h"
#include "quench/abi.h"

/* The unit of class_conf.slope. */
#define COMPILE_SLOPE_ONE 281474976710656.0 /* 2^48 */

/* Ports have slots 1.. in the policy's order; slot 0 is this machine itself. */
uint32_t compile_slots(const struct policy *policy);

/* The instance-wide configuration. */
void compile_conf(const struct policy *policy, struct conf *conf);

/* What port does, as PORT_* flags without PORT_ARMED. */
uint32_t compile_port_flags(const struct policy *policy, const struct policy_port *port);

/* Does any port make CNPs? Then any port with queues may have to send one out. */
bool compile_makes_cnps(const struct policy *policy);

/*
 * The class whose QPs a reaction point limits: the first lossless one with ECN, else the first
 * lossless one, else 0.
 */
uint8_t compile_reaction_class(const struct policy *policy);

/* The rate control of this port's QPs: valid for all ports but monitors. */
void compile_dcqcn(
	const struct policy *policy, const struct policy_port *port, struct rate_params *params);

/* Does some class pause the neighbours that fill it? */
bool compile_pauses(const struct policy *policy);

/*
 * Put the XOFF and XON marks into conf: policy's, or what is left of each port's share of the limit
 * above the headroom of the fastest link (its speed and MTU). -ERANGE when they break a rule of
 * policy/marks.h: nothing is left for them, or not enough above them.
 */
int compile_marks(const struct policy *policy, uint64_t speed_bps, uint32_t mtu_bytes,
	struct conf *conf, struct qerr *err);

/* The PFC part of a port's configuration; speed_bps of the link, 1 Mbit/s at least. */
void compile_port_pfc(const struct policy *policy, const struct policy_port *port,
	uint64_t speed_bps, struct port_conf *conf);

#endif
