// SPDX-License-Identifier: BSD-2-Clause
// Text for the policy reader. What it accepts must be within its ranges, and compile.
#include "fuzz/fuzz.h"
#include "policy/compile.h"
#include "policy/policy.h"

static size_t faults, warnings;

static void count_note(void *arg, const struct policy_note *note)
{
	(void)arg;
	fuzz_expect(!strncmp(note->text, "fuzz:", 5), "a note begins with the place");
	fuzz_expect(!strchr(note->text, '\n'), "a note is one line");
	faults += !note->warning;
	warnings += note->warning;
}

static void check_classes(const struct policy *p)
{
	size_t i;

	for (i = 0; i < p->classes_count; i++) {
		const struct policy_class *c = &p->classes[i];

		fuzz_expect(c->priority < 8, "priority");
		fuzz_expect(memchr(c->name, 0, sizeof(c->name)) != NULL, "class name ends");
		fuzz_expect(
			!c->ecn.present || c->ecn.kmin_bytes <= c->ecn.kmax_bytes, "kmin, kmax");
		fuzz_expect(!c->ecn.present || (c->ecn.pmax > 0 && c->ecn.pmax <= 1), "pmax");
	}
}

static void check_policy(const struct policy *p)
{
	size_t i;

	fuzz_expect(p->version == 1, "version");
	fuzz_expect(p->ports_count <= POLICY_PORTS_MAX, "ports");
	fuzz_expect(p->classes_count <= POLICY_CLASSES_MAX, "classes");
	fuzz_expect(p->pairs_count <= POLICY_PAIRS_MAX, "pairs");
	fuzz_expect(p->cnp.dscp < 64 && p->cnp.priority < 8, "CNP");
	for (i = 0; i < p->ports_count; i++)
		fuzz_expect(memchr(p->ports[i].name, 0, IFNAMSIZ) != NULL, "port name ends");
	for (i = 0; i < p->pairs_count; i++)
		fuzz_expect(p->pairs[i].a.qpn >= 2 && p->pairs[i].a.qpn <= 0xffffff, "QPN");
	check_classes(p);
}

/* Marks either break a rule, which is said, or keep their order. */
static void compile_pauses_of(const struct policy *p, struct conf *conf)
{
	struct port_conf port = {};
	struct qerr err = {};
	size_t i;

	for (i = 0; i < p->ports_count; i++) {
		compile_port_pfc(p, &p->ports[i], 1000000, &port);
		fuzz_expect(port.pause_quanta, "an XOFF is none without a time");
	}
	if (compile_marks(p, 100000000000, 9000, conf, &err)) {
		fuzz_expect(err.text[0], "marks are refused with a word");
		return;
	}
	for (i = 0; i < p->classes_count; i++) {
		const struct class_conf *c = &conf->classes[i];

		fuzz_expect(!c->xoff_bytes || (c->xon_bytes && c->xon_bytes < c->xoff_bytes &&
						      c->xoff_bytes < p->classes[i].limit_bytes),
			"xon, xoff, limit");
	}
}

static void compile_policy(const struct policy *p)
{
	struct rate_params params;
	struct conf conf;
	size_t i;

	compile_conf(p, &conf);
	fuzz_expect(compile_reaction_class(p) < CLASSES_MAX, "reaction class");
	fuzz_expect(compile_slots(p) <= SLOTS_MAX, "slots");
	for (i = 0; i < p->ports_count; i++) {
		compile_port_flags(p, &p->ports[i]);
		compile_dcqcn(p, &p->ports[i], &params);
		fuzz_expect(p->ports[i].role != PORT_HOST || rate_params_valid(&params),
			"parameters of the rate control");
	}
	compile_pauses_of(p, &conf);
	for (i = 0; i < sizeof(conf.dscp_class); i++)
		fuzz_expect(conf.dscp_class[i] < CLASSES_MAX || conf.dscp_class[i] == CLASS_NONE,
			"class of a DSCP");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct policy policy;
	int rc;

	faults = warnings = 0;
	rc = policy_parse((const char *)data, size, "fuzz", &policy, count_note, NULL);
	fuzz_expect(!rc == !faults, "an error has a fault, and a fault is an error");
	fuzz_expect(!faults || !warnings, "warnings come without faults");
	if (!rc) {
		check_policy(&policy);
		compile_policy(&policy);
	}
	return 0;
}
