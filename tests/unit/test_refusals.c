// SPDX-License-Identifier: BSD-2-Clause
// What the policy reader refuses, key by key: the place, the reason and what is allowed, to the
// letter.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "policy/policy.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* What a policy needs at the least, on lines 1 and 2. */
#define HEAD "version: 1\nports: [{name: eth0, role: host, rate: 200Mbit}]\n"

struct bad {
	const char *text;
	const char *want; /* every fault on a line of its own, without the file's name */
};

static const struct bad whole[] = {
	{"version: 0\nports: [{name: eth0, role: monitor}]\n",
		"1:10: version: \"0\" is out of range; allowed 1"},
	{"version: 2\nports: [{name: eth0, role: monitor}]\n",
		"1:10: version: \"2\" is out of range; allowed 1"},
	{"version: one\nports: [{name: eth0, role: monitor}]\n",
		"1:10: version: \"one\" is not a whole number; allowed 1"},
	{"version: 1.0\nports: [{name: eth0, role: monitor}]\n",
		"1:10: version: \"1.0\" is not a whole number; allowed 1"},
	{"ports: [{name: eth0, role: monitor}]\n",
		"1:1: version: is missing and required; allowed 1"},
	{"version: 1\n", "1:1: ports: is missing and required; allowed 1 to 62 entries"},
	{"version: 1\nports: [{name: eth0/1, role: monitor}]\n",
		"2:16: ports[0].name: \"eth0/1\" is not a name; allowed 1 to 15 visible ASCII "
		"characters except '/' and ':'"},
	{"version: 1\nports: [{name: \"eth 0\", role: monitor}]\n",
		"2:16: ports[0].name: \"eth 0\" is not a name; allowed 1 to 15 visible ASCII "
		"characters except '/' and ':'"},
	{"version: 1\nports: [{name: averyverylongname, role: monitor}]\n",
		"2:16: ports[0].name: \"averyverylongname\" is too long; allowed 1 to 15 visible "
		"ASCII characters except '/' and ':'"},
	{"version: 1\nports: [{name: \"..\", role: monitor}]\n",
		"2:16: ports[0].name: \"..\" is not a name; allowed 1 to 15 visible ASCII "
		"characters except '/' and ':'"},
	{"version: 1\nports: [{name: eth0, role: switch}]\n",
		"2:28: ports[0].role: \"switch\" is not known; allowed gateway, host or monitor"},
	{"version: 1\nports: [{name: eth0, role: nic, rate: 1Gbit}]\n",
		"2:28: ports[0].role: \"nic\" is not built yet; allowed gateway, host or monitor"},
	{"version: 1\nports: [{name: eth0, role: host, rate: 1G}]\n",
		"2:40: ports[0].rate: \"1G\" has an unknown unit \"G\" (kbit, Mbit, Gbit or Tbit); "
		"allowed 8kbit to 400Gbit"},
	{"version: 1\nports: [{name: eth0, role: host, rate: 1gbit}]\n",
		"2:40: ports[0].rate: \"1gbit\" has an unknown unit \"gbit\" (kbit, Mbit, Gbit or "
		"Tbit); allowed 8kbit to 400Gbit"},
	{"version: 1\nports: [{name: eth0, role: host, rate: 1000000000}]\n",
		"2:40: ports[0].rate: \"1000000000\" has no unit (kbit, Mbit, Gbit or Tbit); "
		"allowed 8kbit to 400Gbit"},
	{"version: 1\nports: [{name: eth0, role: host, rate: -1Gbit}]\n",
		"2:40: ports[0].rate: \"-1Gbit\" has a sign; allowed 8kbit to 400Gbit"},
	{"version: 1\nports: [{name: eth0, role: host, rate: 7.9kbit}]\n",
		"2:40: ports[0].rate: \"7.9kbit\" is out of range; allowed 8kbit to 400Gbit"},
	{"version: 1\nports: [{name: eth0, role: host, rate: 401Gbit}]\n",
		"2:40: ports[0].rate: \"401Gbit\" is out of range; allowed 8kbit to 400Gbit"},
	{"version: 1\nports: [{name: eth0, role: host, rate: 10Gbit, speed: 801Gbit}]\n",
		"2:55: ports[0].speed: \"801Gbit\" is out of range; allowed auto, or 1Mbit to "
		"800Gbit"},
	{"version: 1\nports: [{name: eth0, role: host, rate: 10Gbit, speed: fast}]\n",
		"2:55: ports[0].speed: \"fast\" is not a number; allowed auto, or 1Mbit to "
		"800Gbit"},
	{"version: 1\nports: [{name: eth0, role: monitor, xdp: none}]\n",
		"2:42: ports[0].xdp: \"none\" is not built yet; allowed native or generic-ok"},
	{"version: 1\nports: [{name: eth0, role: monitor, trust: cos}]\n",
		"2:44: ports[0].trust: \"cos\" is not known; allowed dscp-pcp, pcp-dscp, dscp or "
		"pcp"},
	{"version: 1\nports: [{name: eth0, role: monitor, pfc: on}]\n",
		"2:42: ports[0].pfc: \"on\" is not known; allowed both, send, obey or off"},
	{"version: 1\nports: [{name: eth0, role: monitor, notify: yes}]\n",
		"2:45: ports[0].notify: \"yes\" is not known; allowed true or false"},
	{"version: 1\nports: [{name: eth0, role: monitor, replace_mq: 0}]\n",
		"2:49: ports[0].replace_mq: \"0\" is not known; allowed true or false"},
	{"version: 1\nports: [{name: eth0, role: monitor, driver: \"\"}]\n",
		"2:45: ports[0].driver: \"\" is empty; allowed 1 to 31 letters, digits, '-' and "
		"'_'"},
	{"version: 1\nports: [{name: eth0, role: monitor, mac: 02-00-00-00-00-01}]\n",
		"2:42: ports[0].mac: \"02-00-00-00-00-01\" is no MAC address; allowed six bytes, "
		"as in 02:00:00:00:00:01"},
};

static const struct bad sections[] = {
	{HEAD "flow_max: 4096\n",
		"3:1: flow_max: unknown key; allowed version, ports, classes, cnp, pfc, realtime, "
		"dcqcn, pairs, observe, protocols, flows_max or repair"},
	{HEAD "repair: maybe\n", "3:9: repair: \"maybe\" is not known; allowed true or false"},
	{HEAD "repair: 1\n", "3:9: repair: \"1\" is not known; allowed true or false"},
	{HEAD "flows_max: 4k\n",
		"3:12: flows_max: \"4k\" is not a whole number; allowed 1024 to 1048576"},
	{HEAD "flows_max: [4096]\n", "3:12: flows_max: must be a single value, not a list"},
	{HEAD "classes: [{name: \"my class\", priority: 1, dscp: [1], kind: lossy, limit: 1MB}]\n",
		"3:18: classes[0].name: \"my class\" is not a name; allowed 1 to 31 letters, "
		"digits, '-' and '_'"},
	{HEAD "classes: [{priority: 1, dscp: [1], kind: lossy, limit: 1MB}]\n",
		"3:11: classes[0].name: is missing and required; allowed 1 to 31 letters, digits, "
		"'-' and '_'"},
	{HEAD "classes: [{name: a, dscp: [1], kind: lossy, limit: 1MB}]\n",
		"3:11: classes[0].priority: is missing and required; allowed 0 to 7"},
	{HEAD "classes: [{name: a, priority: 8, dscp: [1], kind: lossy, limit: 1MB}]\n",
		"3:31: classes[0].priority: \"8\" is out of range; allowed 0 to 7"},
	{HEAD "classes: [{name: a, priority: 1, dscp: [64], kind: lossy, limit: 1MB}]\n",
		"3:41: classes[0].dscp[0]: \"64\" is out of range; allowed 0 to 63"},
	{HEAD "classes: [{name: a, priority: 1, dscp: 26, kind: lossy, limit: 1MB}]\n",
		"3:40: classes[0].dscp: must be a list, not a single value"},
	{HEAD "classes: [{name: a, priority: 1, dscp: [AF31], kind: lossy, limit: 1MB}]\n",
		"3:41: classes[0].dscp[0]: \"AF31\" is not a whole number; allowed 0 to 63"},
	{HEAD "classes: [{name: a, priority: 1, dscp: [1, 1], kind: lossy, limit: 1MB}]\n",
		"3:44: classes[0].dscp[1]: \"1\" is there twice; allowed 0 to 63"},
	{HEAD "classes: [{name: a, priority: 1, pcp: [8], kind: lossy, limit: 1MB}]\n",
		"3:40: classes[0].pcp[0]: \"8\" is out of range; allowed 0 to 7"},
	{HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: no-drop, limit: 1MB}]\n",
		"3:51: classes[0].kind: \"no-drop\" is not known; allowed lossless, semi-lossless "
		"or lossy"},
	{HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: lossy}]\n",
		"3:11: classes[0].limit: is missing and required; allowed 2KB to 1GiB"},
	{HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: lossy, limit: 1}]\n",
		"3:65: classes[0].limit: \"1\" has no unit (B, KB, KiB, MB, MiB, GB or GiB); "
		"allowed 2KB to 1GiB"},
	{HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: lossy, limit: 1999B}]\n",
		"3:65: classes[0].limit: \"1999B\" is out of range; allowed 2KB to 1GiB"},
	{HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: lossy, limit: 2GiB}]\n",
		"3:65: classes[0].limit: \"2GiB\" is out of range; allowed 2KB to 1GiB"},
	{HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: lossy, limit: 1.5B}]\n",
		"3:65: classes[0].limit: \"1.5B\" is not a whole number of bytes; allowed 2KB to "
		"1GiB"},
	{HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: lossy, limit: 1MB, share: 0%}]\n",
		"3:77: classes[0].share: \"0%\" is out of range; allowed auto, strict or 1% to "
		"89%"},
	{HEAD "classes: [{name: a, priority: 1, dscp: [1], kind: lossy, limit: 1MB, share: 50}]\n",
		"3:77: classes[0].share: \"50\" has no unit (%); allowed auto, strict or 1% to "
		"89%"},
	{HEAD "classes: [{name: roce, priority: 3, dscp: [26], kind: lossless, limit: 1MiB, ecn: "
	      "on}]\n",
		"3:83: classes[0].ecn: must be a map with the keys kmin, kmax or pmax, not a "
		"single value"},
	{HEAD "classes: [{name: roce, priority: 3, dscp: [26], kind: lossless, limit: 1MiB, ecn: "
	      "{kmin: 999B, kmax: 100KB, pmax: 10%}}]\n",
		"3:90: classes[0].ecn.kmin: \"999B\" is out of range; allowed 1KB to 1GiB"},
	{HEAD "classes: [{name: roce, priority: 3, dscp: [26], kind: lossless, limit: 1MiB, ecn: "
	      "{kmin: 20KB, kmax: 100KB, pmax: 0.1}}]\n",
		"3:115: classes[0].ecn.pmax: \"0.1\" has no unit (%); allowed above 0% up to 100%"},
	{HEAD "classes: [{name: roce, priority: 3, dscp: [26], kind: lossless, limit: 1MiB, ecn: "
	      "{kmin: 20KB, kmax: 100KB, pmax: 10%, kmid: 50KB}}]\n",
		"3:120: classes[0].ecn.kmid: unknown key; allowed kmin, kmax or pmax"},
	{HEAD "classes: [{name: roce, priority: 3, dscp: [26], kind: lossless, limit: 1MiB, pfc: "
	      "true}]\n",
		"3:83: classes[0].pfc: must be a map with the keys xoff or xon, not a single "
		"value"},
	{HEAD "classes: [{name: roce, priority: 3, dscp: [26], kind: lossless, limit: 1MiB, pfc: "
	      "{xoff: 1KB}}]\n",
		"3:90: classes[0].pfc.xoff: \"1KB\" is out of range; allowed auto, or 2KB to 1GiB"},
	{HEAD "classes: [{name: roce, priority: 3, dscp: [26], kind: lossless, limit: 1MiB, pfc: "
	      "{xon: 999B}}]\n",
		"3:89: classes[0].pfc.xon: \"999B\" is out of range; allowed auto, or 1KB to 1GiB"},
	{HEAD "cnp: {dscp: 64}\n", "3:13: cnp.dscp: \"64\" is out of range; allowed 0 to 63"},
	{HEAD "cnp: {priority: 8}\n", "3:17: cnp.priority: \"8\" is out of range; allowed 0 to 7"},
	{HEAD "cnp: {interval: 999ns}\n",
		"3:17: cnp.interval: \"999ns\" is out of range; allowed 1us to 1s"},
	{HEAD "cnp: {interval: 50}\n",
		"3:17: cnp.interval: \"50\" has no unit (ns, us, ms or s); allowed 1us to 1s"},
	{HEAD "cnp: {interval: 50us 60us}\n",
		"3:17: cnp.interval: \"50us 60us\" has an unknown unit \"us 60us\" (ns, us, ms or "
		"s); allowed 1us to 1s"},
	{HEAD "cnp: {rate: 5}\n",
		"3:7: cnp.rate: unknown key; allowed generate, dscp, priority or interval"},
	{HEAD "pfc: {pause: 9us}\n",
		"3:14: pfc.pause: \"9us\" is out of range; allowed auto, or 10us to 1s"},
	{HEAD "pfc: {pause: 1001ms}\n",
		"3:14: pfc.pause: \"1001ms\" is out of range; allowed auto, or 10us to 1s"},
	{HEAD "pfc: {reaction: 0us}\n",
		"3:17: pfc.reaction: \"0us\" is out of range; allowed 1us to 100ms"},
	{HEAD "pfc: {reaction: 101ms}\n",
		"3:17: pfc.reaction: \"101ms\" is out of range; allowed 1us to 100ms"},
	{HEAD "pfc: {cable: 40m}\n",
		"3:14: pfc.cable: \"40m\" is not a whole number; allowed 0 to 100000"},
	{HEAD "pfc: {cable: -1}\n", "3:14: pfc.cable: \"-1\" has a sign; allowed 0 to 100000"},
	{HEAD "pfc: {cable: 100001}\n",
		"3:14: pfc.cable: \"100001\" is out of range; allowed 0 to 100000"},
	{HEAD "pfc: {budget: 0}\n",
		"3:15: pfc.budget: \"0\" is out of range; allowed 1 to 1000000"},
	{HEAD "pfc: {budget: 1000001}\n",
		"3:15: pfc.budget: \"1000001\" is out of range; allowed 1 to 1000000"},
	{HEAD "pfc: {multicast: some}\n",
		"3:18: pfc.multicast: \"some\" is not known; allowed true or false"},
	{HEAD "pfc: {watchdog: off}\n", "3:17: pfc.watchdog: must be a map with the keys detect, "
					"restore, action or big_red_switch, not a single value"},
	{HEAD "pfc: {watchdog: {detect: 99ms}}\n", "3:26: pfc.watchdog.detect: \"99ms\" is out of "
						   "range; allowed off, or 100ms to 60s"},
	{HEAD "pfc: {watchdog: {restore: 61s}}\n",
		"3:27: pfc.watchdog.restore: \"61s\" is out of range; allowed 100ms to 60s"},
	{HEAD "pfc: {watchdog: {action: reset}}\n", "3:26: pfc.watchdog.action: \"reset\" is not "
						    "known; allowed drop, forward or alert"},
	{HEAD "pfc: {watchdog: {big_red_switch: pressed}}\n",
		"3:34: pfc.watchdog.big_red_switch: \"pressed\" is not known; allowed true or "
		"false"},
	{HEAD "pfc: {watchdog: {poll: 1s}}\n", "3:18: pfc.watchdog.poll: unknown key; allowed "
					       "detect, restore, action or big_red_switch"},
	{HEAD "realtime: {poll: 5}\n",
		"3:18: realtime.poll: \"5\" is not known; allowed true or false"},
	{HEAD "realtime: {cpus: 3}\n", "3:18: realtime.cpus: must be a list, not a single value"},
	{HEAD "realtime: {cpus: [64]}\n",
		"3:19: realtime.cpus[0]: \"64\" is out of range; allowed 0 to 63"},
	{HEAD "realtime: {cpus: [1, 1]}\n",
		"3:22: realtime.cpus[1]: \"1\" is there twice; allowed 0 to 63"},
	{HEAD "realtime: {priority: 0}\n",
		"3:22: realtime.priority: \"0\" is out of range; allowed off, or 1 to 99"},
	{HEAD "realtime: {priority: 100}\n",
		"3:22: realtime.priority: \"100\" is out of range; allowed off, or 1 to 99"},
	{HEAD "realtime: {nice: 5}\n",
		"3:12: realtime.nice: unknown key; allowed poll, cpus or priority"},
	{HEAD "dcqcn: {preset: mellanox}\n",
		"3:17: dcqcn.preset: \"mellanox\" is not known; allowed auto, sigcomm15, ns3-rdma, "
		"ns3-sample, hpcc-mlx, hpcc-config, hpcc-run, hpcc-paper, nvidia or fixed"},
	{HEAD "dcqcn: {g: 2}\n", "3:12: dcqcn.g: \"2\" is out of range; allowed above 0 up to 1"},
	{HEAD "dcqcn: {g: 1/0}\n",
		"3:12: dcqcn.g: \"1/0\" is not a number; allowed above 0 up to 1"},
	{HEAD "dcqcn: {initial_alpha: 0}\n",
		"3:24: dcqcn.initial_alpha: \"0\" is out of range; allowed above 0 up to 1"},
	{HEAD "dcqcn: {alpha_timer: 999ns}\n",
		"3:22: dcqcn.alpha_timer: \"999ns\" is out of range; allowed 1us to 10s"},
	{HEAD "dcqcn: {increase_timer: 11s}\n",
		"3:25: dcqcn.increase_timer: \"11s\" is out of range; allowed 1us to 10s"},
	{HEAD "dcqcn: {byte_counter: 9KB}\n",
		"3:23: dcqcn.byte_counter: \"9KB\" is out of range; allowed off, or 10KB to 100GB"},
	{HEAD "dcqcn: {fast_recovery: 0}\n",
		"3:24: dcqcn.fast_recovery: \"0\" is out of range; allowed 1 to 100"},
	{HEAD "dcqcn: {additive_rate: 0kbit}\n",
		"3:24: dcqcn.additive_rate: \"0kbit\" is out of range; allowed 1kbit to 100Gbit"},
	{HEAD "dcqcn: {hyper_rate: 99kbit}\n", "3:21: dcqcn.hyper_rate: \"99kbit\" is out of "
					       "range; allowed off, or 100kbit to 100Gbit"},
	{HEAD "dcqcn: {cnp_spacing: 0us}\n",
		"3:22: dcqcn.cnp_spacing: \"0us\" is out of range; allowed off, or 1us to 1s"},
	{HEAD "dcqcn: {qp_classes: 4097}\n",
		"3:21: dcqcn.qp_classes: \"4097\" is out of range; allowed 1 to 4096"},
	{HEAD "dcqcn: {idle: 999us}\n",
		"3:15: dcqcn.idle: \"999us\" is out of range; allowed 1ms to 3600s"},
	{HEAD "dcqcn: {lease: 3601s}\n",
		"3:16: dcqcn.lease: \"3601s\" is out of range; allowed off, or 1ms to 3600s"},
	{HEAD "dcqcn: {tick: 9us}\n",
		"3:15: dcqcn.tick: \"9us\" is out of range; allowed 10us to 1s"},
	{HEAD "dcqcn: {step: 51%}\n",
		"3:15: dcqcn.step: \"51%\" is out of range; allowed 0% to 50%"},
	{HEAD "dcqcn: {variant: nvidia, gd: 9}\n",
		"3:30: dcqcn.gd: \"9\" is out of range; allowed 10 to 11"},
	{HEAD "dcqcn: {variant: nvidia, cnp_spacing: 4us}\n",
		"3:39: dcqcn.cnp_spacing: the variant nvidia has no such key; allowed with "
		"sigcomm15 or ns3-rdma"},
	{HEAD "dcqcn: {gd: 11}\n",
		"3:13: dcqcn.gd: the variant sigcomm15 has no such key; allowed with nvidia"},
	{HEAD "dcqcn: {variant: hpcc-mlx, byte_counter: 1MB}\n",
		"3:42: dcqcn.byte_counter: the variant hpcc-mlx has no such key; allowed with "
		"sigcomm15, ns3-rdma or nvidia"},
	{HEAD "dcqcn: {variant: nvidia, min_dec_fac: 101%}\n",
		"3:39: dcqcn.min_dec_fac: \"101%\" is out of range; allowed 0% to 100%"},
	{HEAD "observe: {listen: 9842}\n",
		"3:19: observe.listen: \"9842\" is not an address and a port; allowed "
		"ADDRESS:PORT, an IPv6 address in [], a port of 1 to 65535"},
	{HEAD "observe: {listen: \"127.0.0.1:0\"}\n",
		"3:19: observe.listen: port \"0\" is out of range; allowed ADDRESS:PORT, an IPv6 "
		"address in [], a port of 1 to 65535"},
	{HEAD "observe: {listen: \"[::1:9842\"}\n",
		"3:19: observe.listen: \"[::1:9842\" is not an address and a port; allowed "
		"ADDRESS:PORT, an IPv6 address in [], a port of 1 to 65535"},
	{HEAD "observe: {listen: \"*:9842\"}\n",
		"3:19: observe.listen: \"*:9842\" is not an address and a port; allowed "
		"ADDRESS:PORT, an IPv6 address in [], a port of 1 to 65535"},
	{HEAD "observe: {port: 9842}\n", "3:11: observe.port: unknown key; allowed listen"},
	{HEAD "protocols: {roce_port: 0}\n",
		"3:24: protocols.roce_port: \"0\" is out of range; allowed 1 to 65535"},
	{HEAD "protocols: {roce_port: 65536}\n",
		"3:24: protocols.roce_port: \"65536\" is out of range; allowed 1 to 65535"},
	{HEAD "protocols: {roce_port: 4789}\n",
		"3:24: protocols.roce_port: 4789 is a VXLAN port; allowed one that is not"},
	{HEAD "protocols: {geneve_port: 4791}\n",
		"3:26: protocols.geneve_port: 4791 is RoCE's port; allowed another one"},
	{HEAD "protocols: {geneve_port: 4789}\n",
		"3:26: protocols.geneve_port: 4789 is a VXLAN port; allowed one that is not"},
	{HEAD "protocols: {vxlan_ports: 4789}\n",
		"3:26: protocols.vxlan_ports: must be a list, not a single value"},
	{HEAD "protocols: {vxlan_ports: [1, 2, 3, 4, 5]}\n",
		"3:39: protocols.vxlan_ports[4]: more than 4 ports; allowed 1 to 65535"},
	{HEAD "protocols: {vxlan_ports: [1, 1]}\n",
		"3:30: protocols.vxlan_ports[1]: \"1\" is there twice; allowed 1 to 65535"},
	{HEAD "protocols: {iwarp_ports: [0]}\n",
		"3:27: protocols.iwarp_ports[0]: \"0\" is out of range; allowed 1 to 65535"},
	{HEAD "protocols: {udp: [1]}\n", "3:13: protocols.udp: unknown key; allowed roce_port, "
					 "vxlan_ports, geneve_port or iwarp_ports"},
	{HEAD "pairs: [{a: 10.0.0.1/2}]\n", "3:9: pairs[0].b: is missing and required; allowed "
					    "ADDRESS/QPN with a QPN of 2 to 0xffffff"},
	{HEAD "pairs: [{a: 10.0.0.1/2, b: 10.0.0.2/1}]\n",
		"3:28: pairs[0].b: QPN \"1\" is out of range; allowed ADDRESS/QPN with a QPN of 2 "
		"to 0xffffff"},
	{HEAD "pairs: [{a: 10.0.0.1/2, b: 10.0.0.256/2}]\n",
		"3:28: pairs[0].b: \"10.0.0.256/2\" has no IPv4 or IPv6 address before the /; "
		"allowed ADDRESS/QPN with a QPN of 2 to 0xffffff"},
	{HEAD "pairs: [{a: 10.0.0.1/2, b: 10.0.0.2/2, c: 1}]\n",
		"3:40: pairs[0].c: unknown key; allowed a or b"},
	{HEAD "pairs: [10.0.0.1/2]\n",
		"3:9: pairs[0]: must be a map with the keys a or b, not a single value"},
};

static struct policy policy;

static void collect(void *arg, const struct policy_note *note)
{
	char *got = arg;
	size_t used = strlen(got);

	assert_false(note->warning);
	assert_memory_equal(note->text, "p:", 2);
	snprintf(got + used, 1024 - used, "%s%s", used ? "\n" : "", note->text + 2);
}

static void assert_refused(const struct bad *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *text = cases[i].text;
		char got[1024] = "";

		assert_int_equal(
			policy_parse(text, strlen(text), "p", &policy, collect, got), -EINVAL);
		if (strcmp(got, cases[i].want))
			fail_msg("%s\ngot:  %s\nwant: %s\n", text, got, cases[i].want);
	}
}

static void policy_bad_top_or_port_is_refused(void **state)
{
	(void)state;
	assert_refused(whole, ARRAY_SIZE(whole));
}

static void policy_bad_section_is_refused(void **state)
{
	(void)state;
	assert_refused(sections, ARRAY_SIZE(sections));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policy_bad_top_or_port_is_refused),
		cmocka_unit_test(policy_bad_section_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
