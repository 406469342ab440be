// SPDX-License-Identifier: BSD-2-Clause
// Priority flow control, from the policy to what the kernel side is told.
#include <errno.h>

#include "policy/compile.h"
#include "policy/marks.h"

#define QUANTUM_BITS	 512
#define PS_PER_S	 1000000000000ull
#define PAUSE_AUTO_NS	 20000000ull
#define PAUSE_QUANTA_MAX 65535

static bool port_has_pfc(const struct policy_port *port, enum port_pfc half)
{
	return policy_port_has_queues(port) && (port->pfc == PFC_BOTH || port->pfc == half);
}

bool compile_pauses(const struct policy *policy)
{
	for (size_t c = 0; c < policy->classes_count; c++)
		if (marks_wanted(&policy->classes[c]))
			return true;
	return false;
}

static int compile_class_marks(const struct marks *marks, struct class_conf *conf, struct qerr *err)
{
	for (size_t k = 0; k < marks_rules_count; k++)
		if (marks_rules[k].check(marks, err))
			return qerr_prefix(err, -ERANGE, "class %s: %s", marks->class->name,
				marks_rules[k].field);
	conf->xoff_bytes = (uint32_t)marks->xoff_bytes;
	conf->xon_bytes = (uint32_t)marks->xon_bytes;
	return 0;
}

int compile_marks(const struct policy *policy, uint64_t speed_bps, uint32_t mtu_bytes,
	struct conf *conf, struct qerr *err)
{
	struct marks marks;
	int code = 0;

	for (size_t c = 0; c < policy->classes_count && !code; c++) {
		if (!marks_wanted(&policy->classes[c]))
			continue;
		marks_compute(&marks, policy, &policy->classes[c], speed_bps, mtu_bytes);
		code = compile_class_marks(&marks, &conf->classes[c], err);
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
		if (marks_wanted(cls) && port_has_pfc(port, PFC_SEND))
			conf->pausing |= 1u << c;
	}
}
