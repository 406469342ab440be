// SPDX-License-Identifier: BSD-2-Clause
// The policy reader: exact values of good policies, exact messages of bad ones, the reference page.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>

#include "policy/compile.h"
#include "policy/fields.h"
#include "policy/policy.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* What a policy needs at the least, on lines 1 and 2. */
#define HEAD "version: 1\nports: [{name: eth0, role: host, rate: 200Mbit}]\n"
#define ECN  "ecn: {kmin: 20KB, kmax: 100KB, pmax: 10%}"
#define ROCE "name: roce, priority: 3, dscp: [26], kind: lossless, limit: 1MiB"

#define TOP_KEYS                                                                                   \
	"version, ports, classes, cnp, pfc, realtime, dcqcn, pairs, observe, protocols, "          \
	"flows_max or repair"
#define PORT_KEYS  "name, driver, mac, role, rate, speed, pfc, xdp, trust, notify or replace_mq"
#define CLASS_KEYS "name, priority, dscp, pcp, kind, limit, share, ecn or pfc"

static struct policy policy;

struct faults {
	char text[8192]; /* a line each */
	size_t count;
};

static void collect(void *arg, const struct policy_note *note)
{
	struct faults *faults = arg;
	size_t used = strlen(faults->text);

	if (note->warning)
		return;
	assert_null(strchr(note->text, '\n'));
	snprintf(faults->text + used, sizeof(faults->text) - used, "%s\n", note->text);
	faults->count++;
}

static int parse(const char *text, struct faults *faults)
{
	*faults = (struct faults){};
	return policy_parse(text, strlen(text), "p.yaml", &policy, collect, faults);
}

static void assert_good(const char *text)
{
	struct faults faults;

	if (parse(text, &faults))
		fail_msg("%s\nrefused:\n%s", text, faults.text);
	assert_int_equal(faults.count, 0);
}

/* want has every fault on a line of its own, each without "p.yaml:". */
static void assert_faults(const char *text, const char *want)
{
	struct faults faults;
	char got[sizeof(faults.text)] = "";
	char *save = NULL;

	assert_int_equal(parse(text, &faults), -EINVAL);
	for (char *line = strtok_r(faults.text, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save)) {
		assert_memory_equal(line, "p.yaml:", strlen("p.yaml:"));
		strcat(strcat(got, line + strlen("p.yaml:")), "\n");
	}
	if (strncmp(got, want, strlen(got) - 1) || strlen(want) != strlen(got) - 1)
		fail_msg("%s\ngot:  %swant: %s\n", text, got, want);
}

static void assert_address(const struct in6_addr *addr, const char *want)
{
	char text[INET6_ADDRSTRLEN];

	assert_string_equal(inet_ntop(AF_INET6, addr, text, sizeof(text)), want);
}

static void policy_parse_minimal_has_defaults(void **state)
{
	const struct policy_dcqcn *dcqcn = &policy.dcqcn;

	(void)state;
	assert_good(HEAD);
	assert_int_equal(policy.version, 1);
	assert_int_equal(policy.ports_count, 1);
	assert_string_equal(policy.ports[0].name, "eth0");
	assert_int_equal(policy.ports[0].role, PORT_HOST);
	assert_int_equal(policy.ports[0].xdp, PORT_XDP_NATIVE);
	assert_int_equal(policy.ports[0].rate_bps, 200000000);
	assert_false(policy.ports[0].notify);
	assert_int_equal(policy.ports[0].line, 2);
	assert_int_equal(policy.classes_count, 0);
	assert_int_equal(policy.pairs_count, 0);
	assert_int_equal(policy.cnp.generate, CNP_ON_CE);
	assert_int_equal(policy.cnp.dscp, 48);
	assert_int_equal(policy.cnp.priority, 6);
	assert_int_equal(policy.cnp.interval_ns, 50000);
	assert_int_equal(dcqcn->rate.variant, RATE_SIGCOMM15);
	assert_int_equal(dcqcn->rate.line_rate_bps, 0);
	assert_true(dcqcn->rate.g == 1.0 / 256);
	assert_int_equal(dcqcn->rate.increase_timer_ns, 55000);
	assert_int_equal(dcqcn->rate.alpha_timer_ns, 55000);
	assert_int_equal(dcqcn->rate.byte_counter_bytes, 10000000);
	assert_int_equal(dcqcn->rate.fast_recovery, 5);
	assert_int_equal(dcqcn->rate.additive_bps, 40000000);
	assert_int_equal(dcqcn->rate.min_rate_bps, 2000000);
	assert_int_equal(dcqcn->qp_classes, 64);
	assert_int_equal(dcqcn->idle_ns, 1000000000);
	assert_int_equal(dcqcn->tick_ns, 1000000);
	assert_true(dcqcn->step == 0.01);
	assert_string_equal(policy.observe.host, "127.0.0.1");
	assert_int_equal(policy.observe.port, 9842);
	assert_int_equal(policy.flows_max, 65536);
	assert_true(policy.repair);
}

static void assert_params(const struct rate_params *want)
{
	struct rate_params got;

	compile_dcqcn(&policy, &policy.ports[0], &got);
	assert_memory_equal(&got, want, sizeof(got));
	assert_true(rate_params_valid(&got));
}

/* Every preset by its name alone, at its own rates, is what the table of presets says. */
static void policy_parse_preset_fills_what_is_not_given(void **state)
{
	char text[256];

	(void)state;
	for (int i = 0; i < RATE_PRESETS; i++) {
		enum rate_preset preset = (enum rate_preset)i;
		uint64_t reference_bps;
		struct rate_params want = rate_preset(preset, &reference_bps);

		snprintf(text, sizeof(text),
			"version: 1\nports: [{name: eth0, role: host, rate: 100Gbit}]\n"
			"dcqcn: {preset: %s}\n",
			rate_preset_name(preset));
		assert_good(text);
		want.line_rate_bps = 100000000000;
		if (reference_bps) {
			want.additive_bps = 20000000; /* 5 Mbit/s at 25 Gbit/s */
			want.hyper_bps = 200000000;
		}
		assert_params(&want);
		if (preset >= RATE_PRESET_NS3_SAMPLE)
			continue;
		snprintf(text, sizeof(text),
			"version: 1\nports: [{name: eth0, role: host, rate: 100Gbit}]\n"
			"dcqcn: {variant: %s}\n",
			rate_variant_name((enum rate_variant)i));
		assert_good(text);
		assert_params(&want);
	}
}

static void policy_parse_key_given_outdoes_the_preset(void **state)
{
	struct rate_params want = rate_preset(RATE_PRESET_NVIDIA, NULL);

	(void)state;
	assert_good(HEAD "dcqcn: {variant: nvidia, line_rate: 100Mbit, g: 1/16, gd: 10,\n"
			 " min_dec_fac: 25%, first_cnp_rate: 150Mbit, clamp_target: always,\n"
			 " hyper_rate: off, additive_rate: 40Mbit, reference_rate: 40Gbit,\n"
			 " cut_timer: 8us, byte_counter: 10GB}\n");
	want.line_rate_bps = 100000000;
	want.g = 1.0 / 16;
	want.gd = 10;
	want.min_dec_fac = 0.25;
	want.first_cnp_bps = 100000000; /* no more than the line */
	want.clamp = RATE_CLAMP_ALWAYS;
	want.hyper_bps = 0;
	want.additive_bps = 100000;
	want.cut_timer_ns = 8000;
	want.byte_counter_bytes = 10000000000;
	assert_params(&want);
}

static void policy_parse_full_has_every_value(void **state)
{
	const struct policy_class *classes = policy.classes;

	(void)state;
	assert_good(
		"version: 1\n"
		"ports:\n"
		"  - {name: eth0, role: gateway, rate: 1.5Gbit, xdp: generic-ok, notify: true}\n"
		"  - {name: mirror0, role: monitor}\n"
		"classes:\n"
		"  - {name: roce, priority: 3, dscp: [26, 0, 63], pcp: [3, 7], kind: lossless,\n"
		"     limit: 1MiB, ecn: {kmin: 20KB, kmax: 100KB, pmax: 12.5%}}\n"
		"  - {name: nvme, priority: 0, pcp: [0], kind: semi-lossless, limit: 2KB}\n"
		"  - {name: bulk, priority: 7, dscp: [8], kind: lossy, limit: 1GiB}\n"
		"cnp: {generate: on_ce, dscp: 46, priority: 5, interval: 4.4us}\n"
		"dcqcn:\n"
		"  {variant: sigcomm15, line_rate: 40Gbit, g: 0.5, increase_timer: 2ms,\n"
		"   alpha_timer: 4400us, byte_counter: off, fast_recovery: 2,\n"
		"   additive_rate: 100kbit, min_rate: 1217.6kbit, qp_classes: 4096,\n"
		"   idle: 2s, tick: 500us, step: 0%}\n"
		"pairs:\n"
		"  - {a: 10.0.1.1/0x11, b: 10.0.2.1/18}\n"
		"  - {a: \"2001:db8::1/2\", b: \"2001:db8::2/0xffffff\"}\n"
		"observe: {listen: \"[::1]:65535\"}\n"
		"flows_max: 1024\n"
		"repair: false\n");
	assert_int_equal(policy.ports_count, 2);
	assert_int_equal(policy.ports[0].role, PORT_GATEWAY);
	assert_int_equal(policy.ports[0].rate_bps, 1500000000);
	assert_int_equal(policy.ports[0].xdp, PORT_XDP_GENERIC_OK);
	assert_true(policy.ports[0].notify);
	assert_int_equal(policy.ports[1].role, PORT_MONITOR);
	assert_int_equal(policy.ports[1].rate_bps, 0);
	assert_int_equal(policy.ports[1].line, 4);

	assert_int_equal(policy.classes_count, 3);
	assert_string_equal(classes[0].name, "roce");
	assert_int_equal(classes[0].priority, 3);
	assert_true(classes[0].dscp_mask == (1ULL << 26 | 1ULL | 1ULL << 63));
	assert_int_equal(classes[0].pcp_mask, 1 << 3 | 1 << 7);
	assert_int_equal(classes[0].kind, CLASS_LOSSLESS);
	assert_int_equal(classes[0].limit_bytes, 1048576);
	assert_true(classes[0].ecn.present);
	assert_int_equal(classes[0].ecn.kmin_bytes, 20000);
	assert_int_equal(classes[0].ecn.kmax_bytes, 100000);
	assert_true(classes[0].ecn.pmax == 0.125);
	assert_int_equal(classes[0].line, 6);
	assert_int_equal(classes[1].kind, CLASS_SEMI_LOSSLESS);
	assert_false(classes[1].ecn.present);
	assert_int_equal(classes[1].dscp_mask, 0);
	assert_int_equal(classes[1].pcp_mask, 1);
	assert_int_equal(classes[2].kind, CLASS_LOSSY);
	assert_int_equal(classes[2].limit_bytes, 1 << 30);

	assert_int_equal(policy.cnp.generate, CNP_ON_CE);
	assert_int_equal(policy.cnp.dscp, 46);
	assert_int_equal(policy.cnp.priority, 5);
	assert_int_equal(policy.cnp.interval_ns, 4400);
	assert_int_equal(policy.dcqcn.rate.line_rate_bps, 40000000000);
	assert_true(policy.dcqcn.rate.g == 0.5);
	assert_int_equal(policy.dcqcn.rate.increase_timer_ns, 2000000);
	assert_int_equal(policy.dcqcn.rate.alpha_timer_ns, 4400000);
	assert_int_equal(policy.dcqcn.rate.byte_counter_bytes, 0);
	assert_int_equal(policy.dcqcn.rate.fast_recovery, 2);
	assert_int_equal(policy.dcqcn.rate.additive_bps, 100000);
	assert_int_equal(policy.dcqcn.rate.min_rate_bps, 1217600);
	assert_int_equal(policy.dcqcn.qp_classes, 4096);
	assert_int_equal(policy.dcqcn.idle_ns, 2000000000);
	assert_int_equal(policy.dcqcn.tick_ns, 500000);
	assert_true(policy.dcqcn.step == 0);

	assert_int_equal(policy.pairs_count, 2);
	assert_address(&policy.pairs[0].a.addr, "::ffff:10.0.1.1");
	assert_int_equal(policy.pairs[0].a.qpn, 0x11);
	assert_address(&policy.pairs[0].b.addr, "::ffff:10.0.2.1");
	assert_int_equal(policy.pairs[0].b.qpn, 18);
	assert_address(&policy.pairs[1].b.addr, "2001:db8::2");
	assert_int_equal(policy.pairs[1].b.qpn, 0xffffff);
	assert_string_equal(policy.observe.host, "::1");
	assert_int_equal(policy.observe.port, 65535);
	assert_int_equal(policy.flows_max, 1024);
	assert_false(policy.repair);
}

static void policy_protocols_become_ports_that_programs_look_at(void **state)
{
	struct conf conf;

	(void)state;
	assert_good("version: 1\n"
		    "ports: [{name: eth0, role: monitor}]\n");
	compile_conf(&policy, &conf);
	assert_int_equal(conf.udp_ports.roce, htons(4791));
	assert_int_equal(conf.udp_ports.geneve, htons(6081));
	assert_int_equal(conf.udp_ports.vxlan[0], htons(4789));
	assert_int_equal(conf.udp_ports.vxlan[1], htons(8472));
	assert_int_equal(conf.udp_ports.vxlan[2], 0);
	assert_int_equal(conf.iwarp_ports[0], 0);
	assert_good("version: 1\n"
		    "ports: [{name: eth0, role: monitor}]\n"
		    "protocols: {roce_port: 1021, geneve_port: off, vxlan_ports: [250],\n"
		    "            iwarp_ports: [4420, 65535]}\n");
	compile_conf(&policy, &conf);
	assert_int_equal(conf.udp_ports.roce, htons(1021));
	assert_int_equal(conf.udp_ports.geneve, 0);
	assert_int_equal(conf.udp_ports.vxlan[0], htons(250));
	assert_int_equal(conf.udp_ports.vxlan[1], 0);
	assert_int_equal(conf.iwarp_ports[0], htons(4420));
	assert_int_equal(conf.iwarp_ports[1], htons(65535));
	assert_int_equal(conf.iwarp_ports[2], 0);
	assert_good("version: 1\n"
		    "ports: [{name: eth0, role: monitor}]\n"
		    "protocols: {roce_port: 4789, vxlan_ports: []}\n");
	compile_conf(&policy, &conf);
	assert_int_equal(conf.udp_ports.vxlan[0], 0);
}

static void policy_trust_says_which_field_decides(void **state)
{
	static const struct {
		const char *word;
		uint32_t flags;
	} cases[] = {
		{"dscp-pcp", PORT_TRUST_DSCP | PORT_TRUST_PCP},
		{"pcp-dscp", PORT_TRUST_DSCP | PORT_TRUST_PCP | PORT_PCP_FIRST},
		{"dscp", PORT_TRUST_DSCP},
		{"pcp", PORT_TRUST_PCP},
	};
	char text[128];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text),
			"version: 1\nports: [{name: eth0, role: monitor, trust: %s}]\n",
			cases[i].word);
		assert_good(text);
		assert_int_equal(compile_port_flags(&policy, &policy.ports[0]), cases[i].flags);
	}
	assert_good("version: 1\nports: [{name: eth0, role: monitor}]\n");
	assert_int_equal(compile_port_flags(&policy, &policy.ports[0]), cases[0].flags);
}

static void policy_load_lab_has_its_values(void **state)
{
	const struct policy_class *roce = &policy.classes[0];
	struct faults faults = {};
	struct qerr err;

	(void)state;
	if (policy_load("policies/lab.yaml", &policy, collect, &faults, &err))
		fail_msg("%s%s", err.text, faults.text);
	assert_int_equal(policy.ports_count, 1);
	assert_int_equal(policy.ports[0].rate_bps, 200000000);
	assert_int_equal(policy.classes_count, 1);
	assert_string_equal(roce->name, "roce");
	assert_int_equal(roce->priority, 3);
	assert_int_equal(roce->dscp_mask, 1 << 26);
	assert_int_equal(roce->pcp_mask, 1 << 3);
	assert_int_equal(roce->kind, CLASS_LOSSLESS);
	assert_int_equal(roce->limit_bytes, 768 * 1024);
	assert_int_equal(roce->ecn.kmin_bytes, 30000);
	assert_int_equal(roce->ecn.kmax_bytes, 300000);
	assert_true(roce->ecn.pmax == 0.5);
	assert_int_equal(policy.cnp.generate, CNP_ON_CE);
	assert_int_equal(policy.cnp.interval_ns, 1000000);
	assert_true(policy.dcqcn.rate.g == 1.0 / 64);
	assert_int_equal(policy.dcqcn.rate.increase_timer_ns, 2000000);
	assert_int_equal(policy.dcqcn.rate.alpha_timer_ns, 4400000);
	assert_int_equal(policy.dcqcn.rate.byte_counter_bytes, 0);
	assert_int_equal(policy.dcqcn.rate.fast_recovery, 2);
	assert_int_equal(policy.dcqcn.rate.additive_bps, 200000);
	assert_int_equal(policy.dcqcn.rate.min_rate_bps, 2000000);
	assert_int_equal(policy.dcqcn.qp_classes, 16);
	assert_int_equal(policy.dcqcn.idle_ns, 1000000000);
	assert_int_equal(policy.dcqcn.tick_ns, 500000);
	assert_true(policy.dcqcn.step == 0.001);
	assert_int_equal(policy.flows_max, 4096);
}

struct bad {
	const char *text;
	const char *want;
};

static void assert_all_bad(const struct bad *cases, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_faults(cases[i].text, cases[i].want);
}

static void policy_parse_bad_yaml_is_placed(void **state)
{
	static const struct bad cases[] = {
		{"", "1:1: policy: is empty"},
		{"# nothing\n", "1:1: policy: is empty"},
		{"version: 1\nports: [\n",
			"3:1: yaml: did not find expected node content while parsing a flow node"},
		{"version: 1\n\tports: []\n", "2:1: yaml: found a tab character that violates "
					      "indentation while scanning a plain scalar"},
		{"version: 1\nports: \"\xff\"\n", "2:9: yaml: invalid leading UTF-8 octet"},
		{HEAD "---\n" HEAD, "3:1: yaml: a second document; allowed one"},
		{"a: [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]",
			"1:19: yaml: lists and maps nested more than 16 deep; allowed 1 to 16"},
		{"version: *v\n", "1:10: yaml: found undefined alias"},
		{"[]", "1:1: policy: must be a map with the keys " TOP_KEYS ", not a list"},
		{"hello", "1:1: policy: must be a map with the keys " TOP_KEYS
			  ", not a single value"},
	};

	(void)state;
	assert_all_bad(cases, ARRAY_SIZE(cases));
}

static void policy_parse_bad_structure_is_placed(void **state)
{
	static const struct bad cases[] = {
		{"{}", "1:1: version: is missing and required; allowed 1\n"
		       "1:1: ports: is missing and required; allowed 1 to 62 entries"},
		{HEAD "frob: 1\n", "3:1: frob: unknown key; allowed " TOP_KEYS},
		{HEAD "? [a]\n: 1\n",
			"3:3: policy: must be a map with plain words as keys, not a list"},
		{HEAD "\"a\\nb\": 1\n", "3:1: a?b: unknown key; allowed " TOP_KEYS},
		{HEAD "cnp: {speed: 1}\n", "3:7: cnp.speed: unknown key; allowed generate, dscp, "
					   "priority or interval"},
		{HEAD "flows_max: 2048\nflows_max: 4096\n",
			"4:1: flows_max: is there twice; allowed once"},
		{HEAD "classes: 3\n", "3:10: classes: must be a list, not a single value"},
		{HEAD "classes:\n", "3:9: classes: must be a list, not a single value"},
		{HEAD "classes: {}\n", "3:10: classes: must be a list, not a map"},
		{HEAD "classes: [roce]\n",
			"3:11: classes[0]: must be a map with the keys " CLASS_KEYS
			", not a single value"},
		{HEAD "cnp: off\n", "3:6: cnp: must be a map with the keys generate, dscp, "
				    "priority or interval, "
				    "not a single value"},
		{HEAD "flows_max: [1]\n", "3:12: flows_max: must be a single value, not a list"},
		{HEAD "observe: {listen: \"127.0.0.1:9842\\0x\"}\n",
			"3:19: observe.listen: holds a NUL character"},
		{"version: 1\nports: []\n", "2:8: ports: too few entries; allowed 1 to 62"},
		{"version: 1\nports: [{name: eth0, sped: 1}]\n",
			"2:22: ports[0].sped: unknown key; allowed " PORT_KEYS "\n"
			"2:9: ports[0].role: is missing and required; allowed gateway, host or "
			"monitor"},
	};

	(void)state;
	assert_all_bad(cases, ARRAY_SIZE(cases));
}

static void policy_parse_bad_value_is_placed(void **state)
{
	static const struct bad cases[] = {
		{"version: 2\nports: [{name: eth0, role: monitor}]\n",
			"1:10: version: \"2\" is out of range; allowed 1"},
		{"version: 1\nports:\n  - {name: eth0, role: host, rate: 200}\n",
			"3:36: ports[0].rate: \"200\" has no unit (kbit, Mbit, Gbit or Tbit); "
			"allowed "
			"8kbit to 400Gbit"},
		{"version: 1\nports: [{name: eth0, role: host, rate: 401Gbit}]\n",
			"2:40: ports[0].rate: \"401Gbit\" is out of range; allowed 8kbit to "
			"400Gbit"},
		{"version: 1\nports: [{name: eth0, role: gateway, rate: 7.999kbit}]\n",
			"2:43: ports[0].rate: \"7.999kbit\" is out of range; allowed 8kbit to "
			"400Gbit"},
		{"version: 1\nports: [{name: eth0, role: nic}]\n",
			"2:28: ports[0].role: \"nic\" is not built yet; allowed gateway, host or "
			"monitor"},
		{"version: 1\nports: [{name: eth0, role: switch}]\n",
			"2:28: ports[0].role: \"switch\" is not known; allowed gateway, host or "
			"monitor"},
		{"version: 1\nports: [{name: eth0, role: monitor, xdp: yes, notify: yes}]\n",
			"2:42: ports[0].xdp: \"yes\" is not known; allowed native or generic-ok\n"
			"2:55: ports[0].notify: \"yes\" is not known; allowed true or false"},
		{"version: 1\nports: [{name: abcdefghijklmnop, role: monitor}]\n",
			"2:16: ports[0].name: \"abcdefghijklmnop\" is too long; allowed 1 to 15 "
			"visible "
			"ASCII characters except '/' and ':'"},
		{"version: 1\nports: [{name: a/b, role: monitor}, {name: a b, role: monitor},\n"
		 "  {name: \"\", role: monitor}, {name: .., role: monitor}]\n",
			"2:16: ports[0].name: \"a/b\" is not a name; allowed 1 to 15 visible ASCII "
			"characters except '/' and ':'\n"
			"2:44: ports[1].name: \"a b\" is not a name; allowed 1 to 15 visible ASCII "
			"characters except '/' and ':'\n"
			"3:10: ports[2].name: \"\" is empty; allowed 1 to 15 visible ASCII "
			"characters "
			"except '/' and ':'\n"
			"3:37: ports[3].name: \"..\" is not a name; allowed 1 to 15 visible ASCII "
			"characters except '/' and ':'"},
		{HEAD "protocols: {roce_port: 4789, geneve_port: 8472}\n",
			"3:24: protocols.roce_port: 4789 is a VXLAN port; allowed one that is not\n"
			"3:43: protocols.geneve_port: 8472 is a VXLAN port; allowed one that is "
			"not"},
		{HEAD "protocols: {roce_port: 4789, geneve_port: 4789, vxlan_ports: []}\n",
			"3:43: protocols.geneve_port: 4789 is RoCE's port; allowed another one"},
		{"version: 1\n"
		 "ports:\n"
		 "  - {name: a, role: gateway, rate: 1Gbit, trust: pcp}\n"
		 "  - {name: b, role: gateway, rate: 1Gbit, trust: pcp-dscp}\n"
		 "  - {name: c, role: monitor, trust: pcp}\n"
		 "classes: [{" ROCE "}]\n",
			"3:50: ports[0].trust: no class has a pcp, so every frame would be best "
			"effort; "
			"allowed dscp-pcp or pcp-dscp"},
		{HEAD "protocols: {roce_port: 0, vxlan_ports: [4789, 4789, 70000], geneve_port: "
		      "no,\n"
		      "  iwarp_ports: [1, 2, 3, 4, 5]}\n",
			"3:24: protocols.roce_port: \"0\" is out of range; allowed 1 to 65535\n"
			"3:47: protocols.vxlan_ports[1]: \"4789\" is there twice; allowed 1 to "
			"65535\n"
			"3:53: protocols.vxlan_ports[2]: \"70000\" is out of range; allowed 1 to "
			"65535\n"
			"3:74: protocols.geneve_port: \"no\" is not a whole number; allowed off, "
			"or 1 "
			"to 65535\n"
			"4:29: protocols.iwarp_ports[4]: more than 4 ports; allowed 1 to 65535"},
		{HEAD "classes: [{name: ro.ce, priority: 8, dscp: [64, 010, 26, 26], pcp: [8],\n"
		      "  kind: lossles, limit: 1000}]\n",
			"3:18: classes[0].name: \"ro.ce\" is not a name; allowed 1 to 31 letters, "
			"digits, '-' and '_'\n"
			"3:35: classes[0].priority: \"8\" is out of range; allowed 0 to 7\n"
			"3:45: classes[0].dscp[0]: \"64\" is out of range; allowed 0 to 63\n"
			"3:49: classes[0].dscp[1]: \"010\" is not a whole number; allowed 0 to 63\n"
			"3:58: classes[0].dscp[3]: \"26\" is there twice; allowed 0 to 63\n"
			"3:69: classes[0].pcp[0]: \"8\" is out of range; allowed 0 to 7\n"
			"4:9: classes[0].kind: \"lossles\" is not known; allowed lossless, "
			"semi-lossless "
			"or lossy\n"
			"4:25: classes[0].limit: \"1000\" has no unit (B, KB, KiB, MB, MiB, GB or "
			"GiB); "
			"allowed 2KB to 1GiB"},
		{HEAD "classes: [{" ROCE ",\n ecn: {kmin: 20KB, kmax: 100KB, pmax: 0%}}]\n",
			"4:39: classes[0].ecn.pmax: \"0%\" is out of range; allowed above 0% up to "
			"100%"},
		{HEAD "classes: [{" ROCE ",\n ecn: {kmin: 20KB, kmax: 100KB, pmax: 100.1%}}]\n",
			"4:39: classes[0].ecn.pmax: \"100.1%\" is out of range; allowed above 0% "
			"up to "
			"100%"},
		{HEAD "cnp: {generate: no, dscp: -1, priority: 6.0, interval: 2s}\n",
			"3:17: cnp.generate: \"no\" is not known; allowed off, on_ce or at_mark\n"
			"3:27: cnp.dscp: \"-1\" has a sign; allowed 0 to 63\n"
			"3:41: cnp.priority: \"6.0\" is not a whole number; allowed 0 to 7\n"
			"3:56: cnp.interval: \"2s\" is out of range; allowed 1us to 1s"},
		{HEAD "dcqcn: {variant: timely, g: 0, byte_counter: 10, line_rate: off}\n",
			"3:18: dcqcn.variant: \"timely\" is not known; allowed sigcomm15, "
			"ns3-rdma, hpcc-mlx, nvidia or fixed\n"
			"3:29: dcqcn.g: \"0\" is out of range; allowed above 0 up to 1\n"
			"3:46: dcqcn.byte_counter: \"10\" has no unit (B, KB, KiB, MB, MiB, GB or "
			"GiB); "
			"allowed off, or 10KB to 100GB\n"
			"3:61: dcqcn.line_rate: \"off\" is not a number; allowed auto, or 8kbit to "
			"400Gbit"},
		{HEAD "classes: [{" ROCE ",\n share: 90%}]\n",
			"4:9: classes[0].share: \"90%\" is out of range; allowed auto, strict or "
			"1% to 89%"},
		{HEAD "classes: [{" ROCE ",\n share: 1.5%}]\n",
			"4:9: classes[0].share: \"1.5%\" is no whole percentage; allowed auto, "
			"strict or 1% to 89%"},
		{HEAD "classes: [{" ROCE ",\n share: first}]\n",
			"4:9: classes[0].share: \"first\" is not a number; allowed auto, strict "
			"or 1% to 89%"},
		{"version: 1\nports:\n"
		 "- {name: eth0, role: monitor, mac: \"02:00:00:00:00\"}\n"
		 "- {name: eth1, role: monitor, mac: \"02:00:00:00:00:1\"}\n"
		 "- {name: eth2, role: monitor, mac: \"02:00:00:00:00:01:\"}\n"
		 "- {name: eth3, role: monitor, mac: \"00:00:00:00:00:00\"}\n"
		 "- {name: eth4, role: monitor, driver: \"a b\"}\n",
			"3:36: ports[0].mac: \"02:00:00:00:00\" is no MAC address; allowed six "
			"bytes, as in 02:00:00:00:00:01\n"
			"4:36: ports[1].mac: \"02:00:00:00:00:1\" is no MAC address; allowed six "
			"bytes, as in 02:00:00:00:00:01\n"
			"5:36: ports[2].mac: \"02:00:00:00:00:01:\" is no MAC address; allowed six "
			"bytes, as in 02:00:00:00:00:01\n"
			"6:36: ports[3].mac: \"00:00:00:00:00:00\" is no MAC address; allowed six "
			"bytes, as in 02:00:00:00:00:01\n"
			"7:39: ports[4].driver: \"a b\" is not a name; allowed 1 to 31 letters, "
			"digits, '-' and '_'"},
		{HEAD "dcqcn: {g: 257/256}\n",
			"3:12: dcqcn.g: \"257/256\" is out of range; allowed above 0 up to 1"},
		{HEAD "dcqcn: {min_rate: 1217.599kbit}\n",
			"3:19: dcqcn.min_rate: \"1217.599kbit\" is out of range; allowed "
			"1217.6kbit to "
			"400Gbit (at the least one frame of 1,522 bytes has to leave within 10 "
			"ms)"},
		{HEAD "dcqcn: {qp_classes: 0, step: 51%, idle: 1h, fast_recovery: 1e1}\n",
			"3:21: dcqcn.qp_classes: \"0\" is out of range; allowed 1 to 4096\n"
			"3:30: dcqcn.step: \"51%\" is out of range; allowed 0% to 50%\n"
			"3:41: dcqcn.idle: \"1h\" has an unknown unit \"h\" (ns, us, ms or s); "
			"allowed "
			"1ms to 3600s\n"
			"3:60: dcqcn.fast_recovery: \"1e1\" is not a whole number; allowed 1 to "
			"100"},
		{HEAD "pairs: [{a: 10.0.1.1, b: 10.0.2/5}, {a: 10.0.1.1/1, b: "
		      "10.0.2.1/0x1000000}]\n",
			"3:13: pairs[0].a: \"10.0.1.1\" has no /QPN; allowed ADDRESS/QPN with a "
			"QPN of "
			"2 to 0xffffff\n"
			"3:26: pairs[0].b: \"10.0.2/5\" has no IPv4 or IPv6 address before the /; "
			"allowed ADDRESS/QPN with a QPN of 2 to 0xffffff\n"
			"3:41: pairs[1].a: QPN \"1\" is out of range; allowed ADDRESS/QPN with a "
			"QPN of "
			"2 to 0xffffff\n"
			"3:56: pairs[1].b: QPN \"0x1000000\" is out of range; allowed ADDRESS/QPN "
			"with a "
			"QPN of 2 to 0xffffff"},
		{HEAD "observe: {listen: \"localhost:9842\"}\n",
			"3:19: observe.listen: \"localhost:9842\" is not an address and a port; "
			"allowed "
			"ADDRESS:PORT, an IPv6 address in [], a port of 1 to 65535"},
		{HEAD "observe: {listen: \"::1:9842\"}\n",
			"3:19: observe.listen: \"::1:9842\" is not an address and a port; allowed "
			"ADDRESS:PORT, an IPv6 address in [], a port of 1 to 65535"},
		{HEAD "observe: {listen: \"[\"}\n",
			"3:19: observe.listen: \"[\" is not an address and a port; allowed "
			"ADDRESS:PORT, an IPv6 address in [], a port of 1 to 65535"},
		{HEAD "observe: {listen: \"127.0.0.1:65536\"}\n",
			"3:19: observe.listen: port \"65536\" is out of range; allowed "
			"ADDRESS:PORT, an "
			"IPv6 address in [], a port of 1 to 65535"},
		{HEAD "flows_max: 1023\n",
			"3:12: flows_max: \"1023\" is out of range; allowed 1024 to 1048576"},
		{HEAD "flows_max: 1048577\n",
			"3:12: flows_max: \"1048577\" is out of range; allowed 1024 to 1048576"},
		{HEAD "flows_max:\n", "3:11: flows_max: \"\" is empty; allowed 1024 to 1048576"},
	};

	(void)state;
	assert_all_bad(cases, ARRAY_SIZE(cases));
}

static void policy_parse_contradiction_is_placed(void **state)
{
	static const struct bad cases[] = {
		{"version: 1\nports:\n- {name: eth0, role: gateway}\n- {name: eth1, role: host}\n",
			"3:3: ports[0].rate: is missing and required for the roles gateway and "
			"host; "
			"allowed 8kbit to 400Gbit\n"
			"4:3: ports[1].rate: is missing and required for the roles gateway and "
			"host; "
			"allowed 8kbit to 400Gbit"},
		{"version: 1\nports:\n- {name: eth0, role: monitor}\n"
		 "- {name: eth0, role: monitor}\n",
			"4:10: ports[1].name: \"eth0\" is already the name of ports[0]; allowed "
			"once"},
		{"version: 1\nports: [{name: eth0, role: host, rate: 1Mbit}]\n",
			"2:40: ports[0].rate: 1Mbit is below dcqcn.min_rate; allowed 2Mbit or "
			"more"},
		{HEAD "classes:\n- {" ROCE "}\n- {" ROCE "}\n",
			"5:10: classes[1].name: \"roce\" is already the name of classes[0]; "
			"allowed "
			"once\n"
			"5:26: classes[1].priority: 3 is already the priority of classes[0]; "
			"allowed "
			"once\n"
			"5:36: classes[1].dscp[0]: 26 already belongs to classes[0]; allowed in "
			"one "
			"class"},
		{HEAD "classes:\n"
		      "- {name: a, priority: 1, pcp: [1, 2], kind: lossy, limit: 1MB}\n"
		      "- {name: b, priority: 2, pcp: [3, 2], kind: lossy, limit: 1MB}\n",
			"5:35: classes[1].pcp[1]: 2 already belongs to classes[0]; allowed in one "
			"class"},
		{HEAD "classes: [{name: a, priority: 1, kind: lossy, limit: 1MB}]\n",
			"3:11: classes[0].dscp: nothing would belong to this class; allowed at "
			"least "
			"one dscp or pcp value"},
		{HEAD "classes: [{name: a, priority: 1, dscp: [], kind: lossy, limit: 1MB}]\n",
			"3:40: classes[0].dscp: nothing would belong to this class; allowed at "
			"least "
			"one dscp or pcp value"},
		{HEAD "classes: [{" ROCE ",\n ecn: {kmin: 100KB, kmax: 100KB, pmax: 10%}}]\n",
			"4:14: classes[0].ecn.kmin: 100KB is not below kmax; allowed less than "
			"100KB"},
		{HEAD "classes: [{" ROCE ",\n ecn: {kmin: 20KB, kmax: 1025KiB, pmax: 10%}}]\n",
			"4:26: classes[0].ecn.kmax: 1025KiB is above the limit of the class and "
			"would "
			"never be reached; allowed up to 1MiB"},
		{HEAD "classes:\n- {" ROCE ", share: 80%}\n"
		      "- {name: a, priority: 1, dscp: [1], kind: lossy, limit: 1MB, share: 10%}\n"
		      "- {name: b, priority: 2, dscp: [2], kind: lossy, limit: 1MB, share: 1%}\n",
			"5:69: classes[1].share: 10% makes 90% with the classes before; allowed "
			"89% for all together, the rest is for CNPs, pauses and best effort"},
		{HEAD "classes: [{" ROCE ",\n ecn: {kmin: 20KB}}]\n",
			"4:7: classes[0].ecn.kmax: is missing and required; allowed 1KB to 1GiB\n"
			"4:7: classes[0].ecn.pmax: is missing and required; allowed above 0% up to "
			"100%"},
		{HEAD "classes: [{" ROCE ", " ECN "}]\ncnp: {generate: off}\n",
			"4:17: cnp.generate: marking without a notification point: classes[0] has "
			"ecn; "
			"allowed on_ce, or off with no ecn in any class"},
		{HEAD "classes: [{" ROCE "}]\ncnp: {priority: 3, dscp: 26}\n",
			"4:17: cnp.priority: 3 is the priority of classes[0]; allowed a priority "
			"of no "
			"class, CNPs must ride in a class of their own\n"
			"4:26: cnp.dscp: 26 belongs to classes[0]; allowed a DSCP of no class, "
			"CNPs must "
			"ride in a class of their own"},
		{HEAD "classes: [{name: a, priority: 1, pcp: [1, 6], kind: lossless, limit: "
		      "1MB}]\n",
			"1:1: cnp.priority: 6 is a pcp of classes[0]; allowed a priority that is "
			"no "
			"class's pcp, CNPs must ride in a class of their own"},
		{HEAD "classes: [{name: a, priority: 6, dscp: [1], kind: lossy, limit: 1MB}]\n",
			"1:1: cnp.priority: 6 is the priority of classes[0]; allowed a priority of "
			"no "
			"class, CNPs must ride in a class of their own"},
		{HEAD "dcqcn: {min_rate: 11Mbit, line_rate: 10Mbit}\n",
			"3:19: dcqcn.min_rate: 11Mbit is above line_rate; allowed up to 10Mbit"},
		{HEAD "dcqcn: {variant: hpcc-mlx, byte_counter: 10MB, cnp_spacing: off,\n"
		      " clamp_target: after_bytes}\n",
			"3:42: dcqcn.byte_counter: the variant hpcc-mlx has no such key; allowed "
			"with sigcomm15, ns3-rdma or nvidia\n"
			"3:61: dcqcn.cnp_spacing: the variant hpcc-mlx has no such key; allowed "
			"with sigcomm15 or ns3-rdma\n"
			"4:16: dcqcn.clamp_target: the variant hpcc-mlx counts no bytes; allowed "
			"always or after_increase"},
		{HEAD "dcqcn: {cut_timer: 4us, gd: 11}\n",
			"3:20: dcqcn.cut_timer: the variant sigcomm15 has no such key; allowed "
			"with hpcc-mlx or nvidia\n"
			"3:29: dcqcn.gd: the variant sigcomm15 has no such key; allowed with "
			"nvidia"},
		{HEAD "dcqcn: {variant: fixed, g: 1/256}\n",
			"3:28: dcqcn.g: the variant fixed has no such key; allowed with "
			"sigcomm15, ns3-rdma, hpcc-mlx or nvidia"},
		{HEAD "dcqcn: {variant: nvidia, preset: hpcc-run, min_rate: 2Mbit}\n",
			"3:34: dcqcn.preset: hpcc-run belongs to the variant hpcc-mlx, not to "
			"nvidia; allowed auto, or one of nvidia's"},
		{HEAD "dcqcn: {variant: nvidia, g: 1/200, initial_alpha: 1}\n",
			"3:29: dcqcn.g: is no multiple of 1/1024, which nvidia counts in; allowed "
			"1/1024 to 1\n"
			"3:51: dcqcn.initial_alpha: is no multiple of 1/1024 below 1, which "
			"nvidia counts in; allowed 1/1024 to 1023/1024"},
		{HEAD "dcqcn: {preset: hpcc-run}\n",
			"2:40: ports[0].rate: 200Mbit is below dcqcn.min_rate; allowed 1Gbit or "
			"more"},
		{HEAD "dcqcn: {line_rate: 1Mbit}\n", "3:20: dcqcn.line_rate: 1Mbit is below "
						     "min_rate, which is 2Mbit unless given; "
						     "allowed 2Mbit or more"},
		{HEAD "pairs:\n- {a: 10.0.1.1/5, b: \"2001:db8::1/5\"}\n"
		      "- {a: 10.0.1.1/6, b: \"::ffff:10.0.1.1/6\"}\n",
			"4:22: pairs[0].b: mixes IPv4 and IPv6 with a; allowed two ends of one "
			"family\n"
			"5:22: pairs[1].b: is the same end as a; allowed two different ends"},
		{HEAD "pairs:\n- {a: 10.0.1.1/5, b: 10.0.1.2/5}\n"
		      "- {a: 10.0.1.3/5, b: 10.0.1.1/0x5}\n",
			"5:22: pairs[1].b: is already in pairs[0]; allowed once, a QP has one "
			"peer"},
	};

	(void)state;
	assert_all_bad(cases, ARRAY_SIZE(cases));
}

/* One port of 200 Mbit/s: headroom 31,199 bytes, of which a reaction of 500 us takes 12,500. */
static void policy_parse_marks_out_of_order_are_refused(void **state)
{
	static const struct bad cases[] = {
		{HEAD "classes: [{" ROCE ",\n pfc: {xoff: 1025KiB, xon: 1MB}}]\n",
			"4:14: classes[0].pfc.xoff: 1025KiB is above the limit of the class, which "
			"would drop before it pauses; allowed up to 1MiB"},
		{HEAD "classes: [{" ROCE ",\n pfc: {xoff: 300KB, xon: 300KB}}]\n",
			"4:26: classes[0].pfc.xon: 300KB is not below xoff; allowed less than "
			"300KB"},
		{HEAD "classes: [{" ROCE ",\n " ECN ",\n pfc: {xoff: 100KB}}]\n",
			"4:26: classes[0].ecn.kmax: 100KB is not below xoff, so it would pause "
			"before it has marked; allowed less than 100KB"},
		{HEAD "classes: [{" ROCE ",\n pfc: {xoff: 1000KB}}]\npfc: {reaction: 5ms}\n",
			"3:72: classes[0].limit: 1MiB is too little: 1 port may fill it, each with "
			"1MB up to xoff and 256199B of headroom after it (125000B of that for a "
			"reaction of 5ms at 200Mbit); allowed 1256199B or more"},
		{HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: lossless, limit: 30KB,\n "
		      "pfc: {}}]\n",
			"3:68: classes[0].limit: 30KB is too little: 1 port may fill it, each with "
			"4566B up to xoff and 31199B of headroom after it (12500B of that for a "
			"reaction of 500us at 200Mbit); allowed 35765B or more"},
		{HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: lossy, limit: 1MB,\n "
		      "pfc: {}}]\n",
			"4:7: classes[0].pfc: only a class of kind lossless pauses its neighbours; "
			"allowed for none else"},
	};

	(void)state;
	assert_all_bad(cases, ARRAY_SIZE(cases));
}

/* What a fault names as allowed is. */
static void policy_parse_marks_at_their_bounds_are_taken(void **state)
{
	(void)state;
	assert_good(HEAD "classes: [{" ROCE ", pfc: {xoff: 300KB, xon: 299999B}}]\n");
	assert_good(HEAD "classes: [{" ROCE ", " ECN ", pfc: {xoff: 100001B}}]\n");
	assert_good(HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: lossless,\n"
			 "limit: 35765B, pfc: {}}]\n");
	assert_good(HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: lossless,\n"
			 "limit: 1256199B, pfc: {xoff: 1MB}}]\npfc: {reaction: 5ms}\n");
}

/* Three ports: two may fill the third's queue, at the fastest link's speed. */
static void policy_parse_limit_holds_every_port_s_headroom(void **state)
{
#define THREE                                                                                      \
	"version: 1\nports:\n- {name: a, role: gateway, rate: 200Mbit}\n"                          \
	"- {name: b, role: gateway, rate: 200Mbit}\n"                                              \
	"- {name: c, role: gateway, rate: 200Mbit, speed: 10Gbit}\n- {name: m, role: monitor}\n"
	static const struct bad cases[] = {
		{THREE "classes: [{name: a, priority: 1, dscp: [1], kind: lossless, limit: "
		       "1MB,\n pfc: {xoff: 300KB}}]\n",
			"7:68: classes[0].limit: 1MB is too little: 2 ports may fill it, each with "
			"300KB up to xoff and 635613B of headroom after it (625000B of that for a "
			"reaction of 500us at 10Gbit); allowed 1871226B or more"},
	};

	(void)state;
	assert_all_bad(cases, ARRAY_SIZE(cases));
	assert_good(THREE "classes: [{name: a, priority: 1, dscp: [1], kind: lossless,\n"
			  "limit: 1871226B, pfc: {xoff: 300KB}}]\n");
}

/* A value that was refused must not raise a second fault about the value it does not have. */
static void policy_parse_refused_value_raises_no_second_fault(void **state)
{
	static const struct bad cases[] = {
		{HEAD "classes: [{" ROCE ",\n pfc: {xoff: 1025KiB, xon: 2}}]\n",
			"4:28: classes[0].pfc.xon: \"2\" has no unit (B, KB, KiB, MB, MiB, GB or "
			"GiB); allowed auto, or 1KB to 1GiB"},
		{HEAD "classes: [{" ROCE ",\n ecn: {kmin: 20KB, kmax: 0KB, pmax: 10%}}]\n",
			"4:26: classes[0].ecn.kmax: \"0KB\" is out of range; allowed 1KB to 1GiB"},
		{HEAD "classes:\n"
		      "- {name: a, priority: 0, dscp: [0], kind: lossy, limit: 1MB}\n"
		      "- {name: b, priority: x, dscp: [y], kind: lossy, limit: 1MB}\n",
			"5:23: classes[1].priority: \"x\" is not a whole number; allowed 0 to 7\n"
			"5:33: classes[1].dscp[0]: \"y\" is not a whole number; allowed 0 to 63"},
		{HEAD "dcqcn: {min_rate: 2, line_rate: 1Mbit}\n",
			"3:19: dcqcn.min_rate: \"2\" has no unit (kbit, Mbit, Gbit or Tbit); "
			"allowed "
			"1217.6kbit to 400Gbit (at the least one frame of 1,522 bytes has to leave "
			"within 10 ms)"},
		{HEAD "pairs: [{a: x/5, b: x/5}]\n", "3:13: pairs[0].a: \"x/5\" has no IPv4 or "
						     "IPv6 address before the /; allowed "
						     "ADDRESS/QPN with a QPN of 2 to 0xffffff\n"
						     "3:21: pairs[0].b: \"x/5\" has no IPv4 or "
						     "IPv6 address before the /; allowed "
						     "ADDRESS/QPN with a QPN of 2 to 0xffffff"},
		{"version: 1\nports: [{name: \"\", role: nic}, {name: \"\", role: monitor}]\n",
			"2:16: ports[0].name: \"\" is empty; allowed 1 to 15 visible ASCII "
			"characters "
			"except '/' and ':'\n"
			"2:26: ports[0].role: \"nic\" is not built yet; allowed gateway, host or "
			"monitor\n"
			"2:39: ports[1].name: \"\" is empty; allowed 1 to 15 visible ASCII "
			"characters "
			"except '/' and ':'"},
	};

	(void)state;
	assert_all_bad(cases, ARRAY_SIZE(cases));
}

/* entries lines of fmt, which takes the index once or twice. */
static char *many(const char *head, const char *fmt, size_t entries)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	fputs(head, out);
	for (size_t i = 0; i < entries; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		fprintf(out, fmt, i + 2, i + 2);
#pragma GCC diagnostic pop
	}
	fclose(out);
	return text;
}

static void policy_parse_list_is_bounded(void **state)
{
	static const struct {
		const char *head, *fmt;
		size_t max;
		const char *want;
	} cases[] = {
		{"version: 1\nports:\n", "- {name: e%zu, role: monitor}\n", POLICY_PORTS_MAX,
			"65:3: ports: too many entries (63); allowed 1 to 62"},
		{HEAD "pairs:\n", "- {a: 10.0.0.1/%zu, b: 10.0.0.2/%zu}\n", POLICY_PAIRS_MAX,
			"1028:3: pairs: too many entries (1025); allowed 0 to 1024"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *text = many(cases[i].head, cases[i].fmt, cases[i].max);

		assert_good(text);
		free(text);
		text = many(cases[i].head, cases[i].fmt, cases[i].max + 1);
		assert_faults(text, cases[i].want);
		free(text);
	}
}

static void policy_parse_nine_classes_are_refused(void **state)
{
	char *text = many(HEAD "classes:\n", "- {name: c%zu}\n", POLICY_CLASSES_MAX + 1);
	struct faults faults;

	(void)state;
	assert_int_equal(parse(text, &faults), -EINVAL);
	assert_non_null(strstr(
		faults.text, "p.yaml:12:3: classes: too many entries (9); allowed 0 to 8\n"));
	free(text);
}

/* Any beginning of a good policy is read or refused, and never more than that. */
static void policy_parse_cut_text_is_survived(void **state)
{
	static const char text[] = HEAD "classes: [{" ROCE ", " ECN "}]\n"
					"pairs: [{a: 10.0.1.1/5, b: \"10.0.1.2/5\"}]\n";
	struct faults faults;

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		char *copy = malloc(len + 1);
		int ret;

		memcpy(copy, text, len);
		faults = (struct faults){};
		ret = policy_parse(copy, len, "p.yaml", &policy, collect, &faults);
		assert_true(ret == 0 ? !faults.count : ret == -EINVAL && faults.count);
		free(copy);
	}
}

static void policy_parse_alias_is_the_value_that_it_names(void **state)
{
	(void)state;
	assert_good("version: 1\n"
		    "ports:\n"
		    "- &port {name: eth0, role: gateway, rate: &rate 1Gbit, pfc: off}\n"
		    "- {<<: *port, name: eth1, pfc: obey}\n"
		    "- {name: eth2, role: host, rate: *rate}\n"
		    "classes:\n"
		    "- {name: a, priority: 1, dscp: [1], kind: lossy, limit: 1MB,\n"
		    "   ecn: &ecn {kmin: 20KB, kmax: 100KB, pmax: 10%}}\n"
		    "- {name: b, priority: 2, dscp: [2], kind: lossy, limit: 2MB, ecn: *ecn}\n");
	assert_int_equal(policy.ports_count, 3);
	assert_string_equal(policy.ports[1].name, "eth1");
	assert_int_equal(policy.ports[1].role, PORT_GATEWAY);
	assert_int_equal(policy.ports[1].rate_bps, 1000000000);
	assert_int_equal(policy.ports[1].pfc, PFC_OBEY);
	assert_int_equal(policy.ports[1].line, 4);
	assert_int_equal(policy.ports[2].rate_bps, 1000000000);
	assert_true(policy.classes[1].ecn.present);
	assert_int_equal(policy.classes[1].ecn.kmax_bytes, 100000);
}

/* Each fault stands where the value does, and is told of the key that it is used for. */
static void policy_parse_bad_alias_is_placed(void **state)
{
	static const struct bad cases[] = {
		{"version: &v 1\nports: *v\n", "1:10: ports: must be a list, not a single value"},
		{"version: 1\nports:\n- &p {name: eth0, role: monitor}\n- *p\n",
			"3:13: ports[1].name: \"eth0\" is already the name of ports[0]; allowed "
			"once"},
		{"version: 1\nports:\n- {<<: 3, name: eth0, role: monitor}\n",
			"3:8: ports[0].<<: must be a map, as *name, not a single value"},
		{"version: 1\nports:\n- &p {name: eth0, role: monitor, colour: 1}\n"
		 "- {<<: *p, name: eth1}\n",
			"3:34: ports[0].colour: unknown key; allowed " PORT_KEYS "\n"
			"3:34: ports[1].colour: unknown key; allowed " PORT_KEYS},
		{HEAD "classes:\n- &c {name: a, priority: 1, dscp: [&d 1], kind: lossy, limit: "
		      "1MB}\n"
		      "- {<<: *c, name: b, priority: 2}\n",
			"4:36: classes[1].dscp[0]: 1 already belongs to classes[0]; allowed in one "
			"class"},
		/* one text that is good as a priority and bad as a limit */
		{HEAD "classes: [{name: a, priority: &p 6, dscp: [1], kind: lossy, limit: *p}]\n",
			"3:31: classes[0].limit: \"6\" has no unit (B, KB, KiB, MB, MiB, GB or "
			"GiB); allowed 2KB to 1GiB"},
	};

	(void)state;
	assert_all_bad(cases, ARRAY_SIZE(cases));
}

/* A node inside itself is no deeper than the keys there are. */
static void policy_parse_loop_of_aliases_ends(void **state)
{
	static const char *const texts[] = {
		"&loop [*loop]\n",
		"&loop {version: 1, ports: [*loop]}\n",
		"&loop {<<: *loop, version: 1, ports: [{name: eth0, role: monitor}], cnp: *loop}\n",
		"version: 1\nports: &loop [*loop, *loop]\n",
	};
	struct faults faults;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(parse(texts[i], &faults), -EINVAL);
}

static void policy_load_unreadable_file_says_why(void **state)
{
	struct faults faults = {};
	struct qerr err;

	(void)state;
	assert_int_equal(policy_load("no/such.yaml", &policy, collect, &faults, &err), -ENOENT);
	assert_string_equal(err.text, "no/such.yaml: No such file or directory");
	assert_int_equal(policy_load("/", &policy, collect, &faults, &err), -EISDIR);
	assert_string_equal(err.text, "/: Is a directory");
	assert_int_equal(policy_load("/dev/zero", &policy, collect, &faults, &err), -EFBIG);
	assert_string_equal(err.text, "/dev/zero: larger than 1048576 bytes");
	assert_int_equal(faults.count, 0);
	assert_int_equal(policy_load("/dev/null", &policy, collect, &faults, &err), -EINVAL);
	assert_string_equal(err.text, "");
	assert_string_equal(faults.text, "/dev/null:1:1: policy: is empty\n");
}

/* A row whose default is outside its own range would start the agent with zeros. */
static void policy_fields_defaults_are_within_range(void **state)
{
	(void)state;
	for (size_t i = 0; i < policy_fields_count; i++) {
		const struct field *field = &policy_fields[i];
		static struct policy scratch;
		struct qerr err = {};

		assert_non_null(field->help);
		assert_ptr_equal(field_find(field->section, field->name), field);
		assert_false(field->required && field->fallback);
		if (field->fallback && field_read(field, field->fallback, &scratch, &err))
			fail_msg("%s: %s", field->name, err.text);
	}
}

static void policy_fields_both_ends_of_range_are_read(void **state)
{
	static struct policy scratch;

	(void)state;
	for (size_t i = 0; i < policy_fields_count; i++) {
		const struct field *field = &policy_fields[i];
		struct qerr err = {};

		if (!field->min || field->kind == FIELD_LIST)
			continue;
		memset(&scratch, 0, sizeof(scratch));
		if (field_read(field, field->max, &scratch, &err))
			fail_msg("%s: %s", field->name, err.text);
		memset(&scratch, 0, sizeof(scratch));
		assert_int_equal(
			field_read(field, field->min, &scratch, &err), field->above ? -EINVAL : 0);
	}
}

static char *read_text(const char *path)
{
	FILE *in = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;

	assert_non_null(in);
	assert_true(getdelim(&text, &size, '\0', in) > 0);
	fclose(in);
	return text;
}

static void policy_describe_is_in_the_reference(void **state)
{
	char *readme = read_text("policies/README.md");
	char *table;
	size_t size;
	FILE *out = open_memstream(&table, &size);

	(void)state;
	policy_describe(out);
	fclose(out);
	if (!strstr(readme, table))
		fail_msg("policies/README.md does not hold this table:\n%s", table);
	free(table);
	free(readme);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policy_parse_minimal_has_defaults),
		cmocka_unit_test(policy_parse_preset_fills_what_is_not_given),
		cmocka_unit_test(policy_parse_key_given_outdoes_the_preset),
		cmocka_unit_test(policy_parse_full_has_every_value),
		cmocka_unit_test(policy_protocols_become_ports_that_programs_look_at),
		cmocka_unit_test(policy_trust_says_which_field_decides),
		cmocka_unit_test(policy_load_lab_has_its_values),
		cmocka_unit_test(policy_parse_bad_yaml_is_placed),
		cmocka_unit_test(policy_parse_bad_structure_is_placed),
		cmocka_unit_test(policy_parse_bad_value_is_placed),
		cmocka_unit_test(policy_parse_contradiction_is_placed),
		cmocka_unit_test(policy_parse_marks_out_of_order_are_refused),
		cmocka_unit_test(policy_parse_marks_at_their_bounds_are_taken),
		cmocka_unit_test(policy_parse_limit_holds_every_port_s_headroom),
		cmocka_unit_test(policy_parse_refused_value_raises_no_second_fault),
		cmocka_unit_test(policy_parse_list_is_bounded),
		cmocka_unit_test(policy_parse_nine_classes_are_refused),
		cmocka_unit_test(policy_parse_cut_text_is_survived),
		cmocka_unit_test(policy_parse_alias_is_the_value_that_it_names),
		cmocka_unit_test(policy_parse_bad_alias_is_placed),
		cmocka_unit_test(policy_parse_loop_of_aliases_ends),
		cmocka_unit_test(policy_load_unreadable_file_says_why),
		cmocka_unit_test(policy_fields_defaults_are_within_range),
		cmocka_unit_test(policy_fields_both_ends_of_range_are_read),
		cmocka_unit_test(policy_describe_is_in_the_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
