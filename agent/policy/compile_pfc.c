// SPDX-License-Identifier: BSD-2-Clause
// Priority flow control, from the policy to what the kernel side is told.
#include <errno.h>

#include "control/headroom.h"
#include "policy/compile.h"

#define QUANTUM_BITS	 512
#define PS_PER_S	 1000000000000ull
#define PAUSE_AUTO_NS	 20000000ull
#define PAUSE_QUANTA_MAX 65535

static bool port_has_pfc(const struct policy_port *port, enum port_pfc half)
{
	return (port->role == PORT_GATEWAY || port->role == PORT_HOST) &&
	       (port->pfc == PFC_BOTH || port->pfc == half);
}

static bool class_pauses(const struct policy_class *cls)
{
	return cls->kind == CLASS_LOSSLESS && cls->pfc.present;
}

bool compile_pauses(const struct policy *policy)
{
	for (size_t c = 0; c < policy->classes_count; c++)
		if (class_pauses(&policy->classes[c]))
			return true;
	return false;
}

/* Ports whose frames may fill a queue of one class at one egress port. */
static uint64_t fillers(const struct policy *policy)
{
	return policy->ports_count > 2 ? policy->ports_count - 1 : 1;
}

static struct headroom_link link_of(const struct policy *policy, uint64_t speed_bps, uint32_t mtu)
{
	return (struct headroom_link){.speed_bps = speed_bps,
		.cable_mm = policy->pfc.cable_m * 1000ull,
		.mtu_bytes = mtu,
		.port_mtu_bytes = mtu,
		.reaction_ns = policy->pfc.reaction_ns};
}

static int marks_do_not_fit(const struct policy *policy, const struct policy_class *cls,
	const struct headroom *h, uint64_t share, struct qerr *err)
{
	return qerr_set(err, -ERANGE,
		"class %s: of its limit of %u bytes each of %llu ports may fill %llu, but what "
		"still arrives after an XOFF takes %llu: raise the limit, or give pfc.xoff and "
		"pfc.xon",
		cls->name, cls->limit_bytes, (unsigned long long)fillers(policy),
		(unsigned long long)share, (unsigned long long)h->buffer_min_bytes);
}

int compile_marks(const struct policy *policy, uint64_t speed_bps, uint32_t mtu_bytes,
	struct conf *conf, struct qerr *err)
{
	const struct headroom_link link = link_of(policy, speed_bps, mtu_bytes);
	struct headroom h;
	int code = 0;

	for (size_t c = 0; c < policy->classes_count && !code; c++) {
		const struct policy_class *cls = &policy->classes[c];
		uint64_t share = cls->limit_bytes / fillers(policy), xoff, xon;

		if (!class_pauses(cls))
			continue;
		conf->classes[c].xoff_bytes = cls->pfc.xoff_bytes;
		conf->classes[c].xon_bytes = cls->pfc.xon_bytes;
		if (cls->pfc.xoff_bytes && cls->pfc.xon_bytes)
			continue;
		code = headroom_compute(&headroom_models[0], &link, &h, err);
		if (code)
			continue;
		xoff = cls->pfc.xoff_bytes;
		if (!xoff && headroom_marks(&h, share, &xoff, &xon))
			return marks_do_not_fit(policy, cls, &h, share, err);
		xon = cls->pfc.xon_bytes;
		if (!xon)
			xon = xoff > h.xon_gap_bytes ? xoff - h.xon_gap_bytes : xoff / 2;
		conf->classes[c].xoff_bytes = (uint32_t)xoff;
		conf->classes[c].xon_bytes = (uint32_t)xon;
	}
	return code;
}

void compile_port_pfc(const struct policy *policy, const struct policy_port *port,
	uint64_t speed_bps, struct port_conf *conf)
{
	uint64_t pause_ns = policy->pfc.pause_ns ? policy->pfc.pause_ns : PAUSE_AUTO_NS;
	uint64_t quanta;

	conf->quantum_ps = QUANTUM_BITS * PS_PER_S / speed_bps;
	conf->byte_ps = port->rate_bps ? 8 * PS_PER_S / port->rate_bps : 0;
	quanta = pause_ns * 1000 / conf->quantum_ps;
	conf->pause_quanta = quanta < PAUSE_QUANTA_MAX ? (quanta ? quanta : 1) : PAUSE_QUANTA_MAX;
	for (size_t c = 0; c < policy->classes_count; c++) {
		const struct policy_class *cls = &policy->classes[c];

		if (cls->kind != CLASS_LOSSY && port_has_pfc(port, PFC_OBEY))
			conf->obeyed |= 1u << cls->priority;
		if (class_pauses(cls) && port_has_pfc(port, PFC_SEND))
			conf->pausing |= 1u << c;
	}
}
