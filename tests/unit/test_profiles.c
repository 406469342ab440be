// SPDX-License-Identifier: BSD-2-Clause
// The profiles in policies/: each loads, says what it is named for, and fits the links that it
// names.
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "policy/compile.h"
#include "policy/policy.h"
#include "reconcile/desired.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define GBIT	      1000000000ull
#define BIT(n)	      (1ull << (n))

struct expected_class {
	const char *name;
	uint8_t priority;
	uint64_t dscp_mask;
	uint8_t pcp_mask;
	enum class_kind kind;
	enum share_kind share;
	uint32_t percent;
	uint32_t kmin_bytes, kmax_bytes; /* 0: no ecn */
	double pmax;
	bool pauses;
};

struct expected {
	const char *file;
	enum port_role role;
	uint64_t rate_bps;
	enum port_trust trust;
	enum port_pfc pfc;
	enum cnp_generate generate;
	uint8_t cnp_dscp, cnp_priority;
	struct expected_class classes[POLICY_CLASSES_MAX];
};

#define LOSSLESS CLASS_LOSSLESS
#define LOSSY	 CLASS_LOSSY

/* name, priority, DSCPs, PCPs, kind, share, percent, kmin, kmax, pmax, pauses */
#define ROCE                                                                                       \
	{                                                                                          \
		"roce", 3, BIT(26), BIT(3), LOSSLESS, SHARE_PERCENT, 50, 150000, 1500000, 1, true  \
	}

/* clang-format off */
static const struct expected profiles[] = {
	{"lossless-roce.yaml", PORT_GATEWAY, 25 * GBIT, TRUST_DSCP_PCP, PFC_BOTH, CNP_ON_CE, 48, 6,
	 {ROCE}},
	{"broadcom.yaml", PORT_GATEWAY, 25 * GBIT, TRUST_DSCP_PCP, PFC_BOTH, CNP_ON_CE, 48, 7,
	 {ROCE}},
	{"azure.yaml", PORT_GATEWAY, 25 * GBIT, TRUST_DSCP, PFC_BOTH, CNP_ON_CE, 48, 6,
	 {{"rdma3", 3, BIT(3), 0, LOSSLESS, SHARE_PERCENT, 15, 1 << 20, 2 << 20, 0.05, true},
	  {"rdma4", 4, BIT(4), 0, LOSSLESS, SHARE_PERCENT, 15, 1 << 20, 2 << 20, 0.05, true},
	  {"tc0", 0, BIT(8), 0, LOSSY, SHARE_PERCENT, 14, 0, 0, 0, false},
	  {"tc2", 2, BIT(5), 0, LOSSY, SHARE_PERCENT, 14, 0, 0, 0, false},
	  {"tc5", 5, BIT(46), 0, LOSSY, SHARE_PERCENT, 14, 0, 0, 0, false}}},
	{"huawei.yaml", PORT_GATEWAY, 25 * GBIT, TRUST_DSCP_PCP, PFC_BOTH, CNP_ON_CE, 48, 6,
	 {{"roce", 3, BIT(24) | BIT(26), BIT(3), LOSSLESS, SHARE_PERCENT, 50, 7000, 150000, 0.3, true},
	  {"tcp", 2, BIT(16) | BIT(18), BIT(2), LOSSY, SHARE_PERCENT, 20, 0, 0, 0, false},
	  {"protocols", 7, BIT(56), BIT(7), LOSSY, SHARE_STRICT, 0, 0, 0, 0, false}}},
	{"gaudi.yaml", PORT_GATEWAY, 100 * GBIT, TRUST_DSCP, PFC_BOTH, CNP_OFF, 48, 6,
	 {{"data", 2, BIT(24), 0, LOSSLESS, SHARE_PERCENT, 40, 0, 0, 0, true},
	  {"ack", 3, BIT(16), 0, LOSSLESS, SHARE_PERCENT, 40, 0, 0, 0, true}}},
	{"storage.yaml", PORT_GATEWAY, 25 * GBIT, TRUST_PCP_DSCP, PFC_BOTH, CNP_ON_CE, 48, 6,
	 {{"nvme", 3, BIT(26), BIT(3), LOSSLESS, SHARE_PERCENT, 30, 150000, 1500000, 1, true},
	  {"smb", 4, 0, BIT(4), LOSSLESS, SHARE_PERCENT, 50, 0, 0, 0, true},
	  {"cluster", 7, 0, BIT(7), LOSSY, SHARE_PERCENT, 1, 0, 0, 0, false}}},
	{"ai-training-pfc-only.yaml", PORT_GATEWAY, 100 * GBIT, TRUST_DSCP, PFC_BOTH, CNP_OFF, 48, 6,
	 {{"training", 3, BIT(26), 0, LOSSLESS, SHARE_PERCENT, 80, 0, 0, 0, true}}},
	{"lossy-ecn-only.yaml", PORT_GATEWAY, 25 * GBIT, TRUST_DSCP_PCP, PFC_OFF, CNP_ON_CE, 48, 6,
	 {{"roce", 3, BIT(26), BIT(3), LOSSY, SHARE_PERCENT, 50, 150000, 1500000, 1, false}}},
	{"monitor.yaml", PORT_MONITOR, 0, TRUST_DSCP_PCP, PFC_BOTH, CNP_ON_CE, 48, 6,
	 {{"roce", 3, BIT(26), BIT(3), LOSSLESS, SHARE_AUTO, 0, 0, 0, 0, false}}},
	{"lab.yaml", PORT_HOST, 200000000, TRUST_DSCP_PCP, PFC_BOTH, CNP_ON_CE, 48, 6,
	 {{"roce", 3, BIT(26), BIT(3), LOSSLESS, SHARE_AUTO, 0, 30000, 300000, 0.5, false}}},
};
/* clang-format on */

static struct policy policy;

static size_t notes;

static void print(void *arg, const struct policy_note *note)
{
	(void)arg;
	notes++;
	print_error("%s\n", note->text);
}

static void load(const char *file)
{
	char path[64];
	struct qerr err;

	snprintf(path, sizeof(path), "policies/%s", file);
	if (policy_load(path, &policy, print, NULL, &err))
		fail_msg("%s: %s", path, err.text);
	assert_int_equal(notes, 0); /* none hurts by what is known */
}

static void assert_class(const struct policy_class *is, const struct expected_class *want)
{
	assert_string_equal(is->name, want->name);
	assert_int_equal(is->priority, want->priority);
	assert_true(is->dscp_mask == want->dscp_mask);
	assert_int_equal(is->pcp_mask, want->pcp_mask);
	assert_int_equal(is->kind, want->kind);
	assert_int_equal(is->share.kind, want->share);
	assert_int_equal(is->share.percent, want->percent);
	assert_int_equal(is->ecn.present, want->kmax_bytes != 0);
	assert_int_equal(is->ecn.kmin_bytes, want->kmin_bytes);
	assert_int_equal(is->ecn.kmax_bytes, want->kmax_bytes);
	assert_true(is->ecn.pmax == want->pmax);
	assert_int_equal(is->pfc.present, want->pauses);
}

static void profiles_say_what_their_sources_say(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		const struct expected *want = &profiles[i];
		size_t n = 0;

		load(want->file);
		for (size_t p = 0; p < policy.ports_count; p++) {
			assert_int_equal(policy.ports[p].role, want->role);
			assert_true(policy.ports[p].rate_bps == want->rate_bps);
			assert_int_equal(policy.ports[p].trust, want->trust);
			assert_int_equal(policy.ports[p].pfc, want->pfc);
		}
		assert_int_equal(policy.cnp.generate, want->generate);
		assert_int_equal(policy.cnp.dscp, want->cnp_dscp);
		assert_int_equal(policy.cnp.priority, want->cnp_priority);
		for (; want->classes[n].name; n++)
			assert_class(&policy.classes[n], &want->classes[n]);
		assert_int_equal(policy.classes_count, n);
	}
}

static void profiles_rate_control_is_the_one_they_name(void **state)
{
	static const struct {
		const char *file;
		enum rate_preset preset;
	} cases[] = {
		{"lossless-roce.yaml", RATE_PRESET_NVIDIA},
		{"broadcom.yaml", RATE_PRESET_SIGCOMM15},
		{"gaudi.yaml", RATE_PRESET_FIXED},
		{"ai-training-pfc-only.yaml", RATE_PRESET_FIXED},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		load(cases[i].file);
		assert_int_equal(policy.dcqcn.preset, cases[i].preset);
	}
}

/* With frames of RoCE's largest too: trees can be built, and marks be had that leave headroom. */
static void profiles_fit_the_links_that_they_name(void **state)
{
	static const uint32_t mtus[] = {1500, 4200, 9000};
	struct tree_spec spec;
	struct conf conf;
	struct qerr err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		const struct policy_port *port = &policy.ports[0];

		load(profiles[i].file);
		for (size_t m = 0; m < ARRAY_SIZE(mtus) && policy_port_has_queues(port); m++) {
			desired_spec(&spec, &policy, port, mtus[m]);
			if (tree_spec_check(&spec, &err) ||
				compile_marks(&policy, port->rate_bps, mtus[m], &conf, &err))
				fail_msg("%s: %s", profiles[i].file, err.text);
		}
	}
}

static bool is_expected(const char *file)
{
	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++)
		if (!strcmp(profiles[i].file, file))
			return true;
	return false;
}

/* A profile that nothing here looks at, or that nobody is told of, is none. */
static void profiles_are_all_tested_and_listed(void **state)
{
	FILE *in = fopen("policies/README.md", "r");
	DIR *dir = opendir("policies");
	const struct dirent *entry;
	char *readme = NULL, bullet[300];
	size_t size = 0, found = 0;

	(void)state;
	assert_non_null(in);
	assert_non_null(dir);
	assert_true(getdelim(&readme, &size, '\0', in) > 0);
	fclose(in);
	while ((entry = readdir(dir))) {
		if (!strstr(entry->d_name, ".yaml"))
			continue;
		found++;
		snprintf(bullet, sizeof(bullet), "\n* `%s`: ", entry->d_name);
		if (!is_expected(entry->d_name) || !strstr(readme, bullet))
			fail_msg("%s is not tested here, or not in the README", entry->d_name);
	}
	closedir(dir);
	free(readme);
	assert_int_equal(found, ARRAY_SIZE(profiles));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profiles_say_what_their_sources_say),
		cmocka_unit_test(profiles_rate_control_is_the_one_they_name),
		cmocka_unit_test(profiles_fit_the_links_that_they_name),
		cmocka_unit_test(profiles_are_all_tested_and_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
