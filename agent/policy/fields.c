// SPDX-License-Identifier: BSD-2-Clause
// The field table: names, units, defaults, ranges and help of every key, and the readers it needs.
#include "policy/fields.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/presets.h"
#include "policy/text.h"
#include "policy/units.h"

#define ARRAY_SIZE(a)	   (sizeof(a) / sizeof((a)[0]))
#define AT(type, member)   .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
#define LIST(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member[0])
#define STR(x)		   #x
#define NUMBER(x)	   STR(x)

static const struct field_word role_words[] = {
	{"gateway", PORT_GATEWAY, false},
	{"host", PORT_HOST, false},
	{"nic", PORT_NIC, true},
	{"monitor", PORT_MONITOR, false},
	{},
};

static const struct field_word xdp_words[] = {
	{"native", PORT_XDP_NATIVE, false},
	{"generic-ok", PORT_XDP_GENERIC_OK, false},
	{"none", PORT_XDP_NONE, true},
	{},
};

static const struct field_word trust_words[] = {
	{"dscp-pcp", TRUST_DSCP_PCP, false},
	{"pcp-dscp", TRUST_PCP_DSCP, false},
	{"dscp", TRUST_DSCP, false},
	{"pcp", TRUST_PCP, false},
	{},
};

static const struct field_word bool_words[] = {
	{"true", true, false},
	{"false", false, false},
	{},
};

static const struct field_word pfc_words[] = {
	{"both", PFC_BOTH, false},
	{"send", PFC_SEND, false},
	{"obey", PFC_OBEY, false},
	{"off", PFC_OFF, false},
	{},
};

static const struct field_word action_words[] = {
	{"drop", WATCHDOG_DROP, false},
	{"forward", WATCHDOG_FORWARD, false},
	{"alert", WATCHDOG_ALERT, false},
	{},
};

static const struct field_word kind_words[] = {
	{"lossless", CLASS_LOSSLESS, false},
	{"semi-lossless", CLASS_SEMI_LOSSLESS, false},
	{"lossy", CLASS_LOSSY, false},
	{},
};

static const struct field_word share_words[] = {
	{"auto", SHARE_AUTO, false},
	{"strict", SHARE_STRICT, false},
	{},
};

static const struct field_word generate_words[] = {
	{"off", CNP_OFF, false},
	{"on_ce", CNP_ON_CE, false},
	{"at_mark", CNP_AT_MARK, false},
	{},
};

static const struct field_word variant_words[] = {
	{"sigcomm15", RATE_SIGCOMM15, false},
	{"ns3-rdma", RATE_NS3_RDMA, false},
	{"hpcc-mlx", RATE_HPCC_MLX, false},
	{"nvidia", RATE_NVIDIA, false},
	{"fixed", RATE_FIXED, false},
	{},
};

static const struct field_word preset_words[] = {
	{"auto", RATE_PRESETS, false},
	{"sigcomm15", RATE_PRESET_SIGCOMM15, false},
	{"ns3-rdma", RATE_PRESET_NS3_RDMA, false},
	{"ns3-sample", RATE_PRESET_NS3_SAMPLE, false},
	{"hpcc-mlx", RATE_PRESET_HPCC_MLX, false},
	{"hpcc-config", RATE_PRESET_HPCC_CONFIG, false},
	{"hpcc-run", RATE_PRESET_HPCC_RUN, false},
	{"hpcc-paper", RATE_PRESET_HPCC_PAPER, false},
	{"nvidia", RATE_PRESET_NVIDIA, false},
	{"fixed", RATE_PRESET_FIXED, false},
	{},
};

static const struct field_word clamp_words[] = {
	{"always", RATE_CLAMP_ALWAYS, false},
	{"after_bytes", RATE_CLAMP_AFTER_BYTES, false},
	{"after_increase", RATE_CLAMP_AFTER_INCREASE, false},
	{},
};

/* clang-format off */
const struct field policy_fields[] = {
	{ SECTION_TOP, "version", FIELD_COUNT, .required = true, .min = "1", .max = "1",
	  AT(struct policy, version),
	  .help = "the version of this format" },

	{ SECTION_TOP, "ports", FIELD_LIST, .required = true, .child = SECTION_PORT,
	  .min = "1", .max = NUMBER(POLICY_PORTS_MAX), LIST(struct policy, ports),
	  .count_at = offsetof(struct policy, ports_count),
	  .line_at = offsetof(struct policy_port, line),
	  .help = "the interfaces the agent works on" },
	{ SECTION_PORT, "name", FIELD_IFNAME, .required = true, AT(struct policy_port, name),
	  .help = "the interface; with *, ? or [] every one that fits when the agent starts" },
	{ SECTION_PORT, "driver", FIELD_LABEL, AT(struct policy_port, driver),
	  .help = "only with this driver, as ethtool -i names it" },
	{ SECTION_PORT, "mac", FIELD_MAC, AT(struct policy_port, mac),
	  .help = "only with this MAC address; in quotes" },
	{ SECTION_PORT, "role", FIELD_WORD, .required = true, .words = role_words,
	  AT(struct policy_port, role),
	  .help = "gateway forwards, host sends and receives, monitor only looks" },
	{ SECTION_PORT, "rate", FIELD_RATE, .min = "8kbit", .max = "400Gbit",
	  AT(struct policy_port, rate_bps),
	  .help = "what the port may send; required for gateway and host" },
	{ SECTION_PORT, "speed", FIELD_RATE, .min = "1Mbit", .max = "800Gbit",
	  .fallback = "auto", .zero = "auto", AT(struct policy_port, speed_bps),
	  .help = "of the link, which pause times count in; auto: the driver's word, else rate" },
	{ SECTION_PORT, "pfc", FIELD_WORD, .fallback = "both", .words = pfc_words,
	  AT(struct policy_port, pfc),
	  .help = "whether this link's peer is paused, obeyed, both or neither" },
	{ SECTION_PORT, "xdp", FIELD_WORD, .fallback = "native", .words = xdp_words,
	  AT(struct policy_port, xdp),
	  .help = "generic-ok accepts the kernel's slow XDP where the driver has none" },
	{ SECTION_PORT, "trust", FIELD_WORD, .fallback = "dscp-pcp", .words = trust_words,
	  AT(struct policy_port, trust),
	  .help = "what says a frame's class; of two, the first that the frame has" },
	{ SECTION_PORT, "notify", FIELD_WORD, .fallback = "false", .words = bool_words,
	  AT(struct policy_port, notify),
	  .help = "make CNPs here for the receivers behind this port" },
	{ SECTION_PORT, "replace_mq", FIELD_WORD, .fallback = "false", .words = bool_words,
	  AT(struct policy_port, replace_mq),
	  .help = "put one queue tree in the place of the device's queues (mq)" },

	{ SECTION_TOP, "classes", FIELD_LIST, .child = SECTION_CLASS,
	  .min = "0", .max = NUMBER(POLICY_CLASSES_MAX), LIST(struct policy, classes),
	  .count_at = offsetof(struct policy, classes_count),
	  .line_at = offsetof(struct policy_class, line),
	  .help = "the traffic that is kept apart; the rest is best effort" },
	{ SECTION_CLASS, "name", FIELD_LABEL, .required = true, AT(struct policy_class, name),
	  .help = "the class in metrics and messages" },
	{ SECTION_CLASS, "priority", FIELD_COUNT, .required = true, .min = "0", .max = "7",
	  AT(struct policy_class, priority),
	  .help = "the priority it travels and pauses on" },
	{ SECTION_CLASS, "dscp", FIELD_SET, .min = "0", .max = "63",
	  AT(struct policy_class, dscp_mask),
	  .help = "the DSCP values that belong to it; dscp or pcp is required" },
	{ SECTION_CLASS, "pcp", FIELD_SET, .min = "0", .max = "7",
	  AT(struct policy_class, pcp_mask),
	  .help = "the VLAN priorities that belong to it" },
	{ SECTION_CLASS, "kind", FIELD_WORD, .required = true, .words = kind_words,
	  AT(struct policy_class, kind),
	  .help = "lossless obeys PFC and may send it, semi-lossless only obeys, lossy neither" },
	{ SECTION_CLASS, "limit", FIELD_SIZE, .required = true, .min = "2KB", .max = "1GiB",
	  AT(struct policy_class, limit_bytes),
	  .help = "what all queues of the class may hold together at one port" },
	{ SECTION_CLASS, "share", FIELD_SHARE, .min = "1%", .max = NUMBER(SHARE_MAX_PERCENT) "%",
	  .fallback = "auto", .words = share_words, AT(struct policy_class, share),
	  .help = "of the port, for sure; auto: as much as others with auto; strict: so, and first" },
	{ SECTION_CLASS, "ecn", FIELD_MAP, .child = SECTION_ECN, AT(struct policy_class, ecn),
	  .present_at = offsetof(struct policy_class, ecn.present),
	  .help = "mark by queue depth; absent: no marks; all three thresholds are required" },
	{ SECTION_ECN, "kmin", FIELD_SIZE, .required = true, .min = "1KB", .max = "1GiB",
	  AT(struct policy_ecn, kmin_bytes),
	  .help = "no marks up to this depth; below kmax" },
	{ SECTION_ECN, "kmax", FIELD_SIZE, .required = true, .min = "1KB", .max = "1GiB",
	  AT(struct policy_ecn, kmax_bytes),
	  .help = "every packet is marked from this depth on; at most limit" },
	{ SECTION_ECN, "pmax", FIELD_PERCENT, .required = true, .above = true,
	  .min = "0%", .max = "100%", AT(struct policy_ecn, pmax),
	  .help = "the marking probability as the depth reaches kmax" },

	{ SECTION_CLASS, "pfc", FIELD_MAP, .child = SECTION_MARKS, AT(struct policy_class, pfc),
	  .present_at = offsetof(struct policy_class, pfc.present),
	  .help = "pause the neighbours that fill it; absent: never; {}: both computed" },
	{ SECTION_MARKS, "xoff", FIELD_SIZE, .min = "2KB", .max = "1GiB", .fallback = "auto",
	  .zero = "auto", AT(struct policy_marks, xoff_bytes),
	  .help = "XOFF before one ingress port's queue passes this; above kmax" },
	{ SECTION_MARKS, "xon", FIELD_SIZE, .min = "1KB", .max = "1GiB", .fallback = "auto",
	  .zero = "auto", AT(struct policy_marks, xon_bytes),
	  .help = "XON once all of that port's queues are down to this; below xoff" },

	{ SECTION_TOP, "cnp", FIELD_MAP, .child = SECTION_CNP, AT(struct policy, cnp),
	  .help = "the notification point" },
	{ SECTION_CNP, "generate", FIELD_WORD, .fallback = "on_ce", .words = generate_words,
	  AT(struct policy_cnp, generate),
	  .help = "on_ce: when a marked packet arrives; at_mark: as a gateway marks it" },
	{ SECTION_CNP, "dscp", FIELD_COUNT, .min = "0", .max = "63", .fallback = "48",
	  AT(struct policy_cnp, dscp),
	  .help = "the DSCP of the CNPs; of no class" },
	{ SECTION_CNP, "priority", FIELD_COUNT, .min = "0", .max = "7", .fallback = "6",
	  AT(struct policy_cnp, priority),
	  .help = "the priority of the CNPs; of no class" },
	{ SECTION_CNP, "interval", FIELD_TIME, .min = "1us", .max = "1s", .fallback = "50us",
	  AT(struct policy_cnp, interval_ns),
	  .help = "at most one CNP for a QP in this time (N)" },

	{ SECTION_TOP, "pfc", FIELD_MAP, .child = SECTION_PFC, AT(struct policy, pfc),
	  .help = "priority flow control" },
	{ SECTION_PFC, "pause", FIELD_TIME, .min = "10us", .max = "1s", .fallback = "auto",
	  .zero = "auto", AT(struct policy_pfc, pause_ns),
	  .help = "of one XOFF; auto: as long as the link's speed allows, at most 20 ms" },
	{ SECTION_PFC, "reaction", FIELD_TIME, .min = "1us", .max = "100ms", .fallback = "500us",
	  AT(struct policy_pfc, reaction_ns),
	  .help = "the slowest that pausing takes here; quench headroom --measure says" },
	{ SECTION_PFC, "response", FIELD_TIME, .min = "1us", .max = "1s", .fallback = "auto",
	  .zero = "auto", AT(struct policy_pfc, response_ns),
	  .help = "the slowest that a peer stops; auto: as 802.3 says for its speed, else reaction" },
	{ SECTION_PFC, "cable", FIELD_COUNT, .min = "0", .max = "100000", .fallback = "10",
	  AT(struct policy_pfc, cable_m),
	  .help = "the length of the longest cable, in metres" },
	{ SECTION_PFC, "budget", FIELD_COUNT, .min = "1", .max = "1000000", .fallback = "20000",
	  AT(struct policy_pfc, budget_per_s),
	  .help = "PFC frames that a port sends in a second at most" },
	{ SECTION_PFC, "multicast", FIELD_WORD, .fallback = "false", .words = bool_words,
	  AT(struct policy_pfc, multicast),
	  .help = "may broadcast and multicast frames be in a lossless class" },
	{ SECTION_PFC, "watchdog", FIELD_MAP, .child = SECTION_WATCHDOG,
	  AT(struct policy_pfc, watchdog),
	  .help = "against a peer that pauses for ever" },
	{ SECTION_WATCHDOG, "detect", FIELD_TIME, .min = "100ms", .max = "60s",
	  .fallback = "200ms", .zero = "off", AT(struct policy_watchdog, detect_ns),
	  .help = "a queue paused for this long, with nothing sent, is in a storm" },
	{ SECTION_WATCHDOG, "restore", FIELD_TIME, .min = "100ms", .max = "60s",
	  .fallback = "200ms", AT(struct policy_watchdog, restore_ns),
	  .help = "the storm is over when no XOFF came for this long" },
	{ SECTION_WATCHDOG, "action", FIELD_WORD, .fallback = "drop", .words = action_words,
	  AT(struct policy_watchdog, action),
	  .help = "what becomes of the class meanwhile; drop and forward ignore the pause" },
	{ SECTION_WATCHDOG, "big_red_switch", FIELD_WORD, .fallback = "false",
	  .words = bool_words, AT(struct policy_watchdog, big_red_switch),
	  .help = "ignore pauses and drop every class that obeys them, now and everywhere" },

	{ SECTION_TOP, "realtime", FIELD_MAP, .child = SECTION_REALTIME,
	  AT(struct policy, realtime),
	  .help = "how the thread runs that closes gates and sets rates" },
	{ SECTION_REALTIME, "poll", FIELD_WORD, .fallback = "false", .words = bool_words,
	  AT(struct policy_realtime, poll),
	  .help = "never sleep: the fastest reaction, for one whole CPU" },
	{ SECTION_REALTIME, "cpus", FIELD_SET, .min = "0", .max = "63",
	  AT(struct policy_realtime, cpus),
	  .help = "the CPUs it may run on; absent: any" },
	{ SECTION_REALTIME, "priority", FIELD_COUNT, .min = "1", .max = "99", .fallback = "off",
	  .zero = "off", AT(struct policy_realtime, priority),
	  .help = "its priority in SCHED_FIFO, with its memory locked" },

	{ SECTION_TOP, "dcqcn", FIELD_MAP, .child = SECTION_DCQCN, AT(struct policy, dcqcn),
	  .help = "the reaction point" },
	{ SECTION_DCQCN, "variant", FIELD_WORD, .fallback = "sigcomm15", .words = variant_words,
	  AT(struct policy_dcqcn, rate.variant),
	  .help = "whose rules hold; fixed: none, every QP stays at line_rate" },
	{ SECTION_DCQCN, "preset", FIELD_WORD, .fallback = "auto", .words = preset_words,
	  AT(struct policy_dcqcn, preset),
	  .help = "whose numbers hold where none are given, see below; auto: the variant's own" },
	{ SECTION_DCQCN, "line_rate", FIELD_RATE, .min = "8kbit", .max = "400Gbit",
	  .fallback = "auto", .zero = "auto", AT(struct policy_dcqcn, rate.line_rate_bps),
	  .help = "what a QP starts with and returns to; auto: the port's rate" },
	{ SECTION_DCQCN, "g", FIELD_RATIO, .above = true, .min = "0", .max = "1",
	  .variants = RATE_ALL, AT(struct policy_dcqcn, rate.g),
	  .help = "the weight of a new sample in alpha; nvidia: in 1/1024" },
	{ SECTION_DCQCN, "initial_alpha", FIELD_RATIO, .above = true, .min = "0", .max = "1",
	  .variants = RATE_ALL, AT(struct policy_dcqcn, rate.initial_alpha),
	  .help = "alpha before the first CNP; nvidia: in 1/1024, below 1" },
	{ SECTION_DCQCN, "alpha_timer", FIELD_TIME, .min = "1us", .max = "10s",
	  .variants = RATE_ALL, AT(struct policy_dcqcn, rate.alpha_timer_ns),
	  .help = "alpha decays when no CNP came for this long (K)" },
	{ SECTION_DCQCN, "increase_timer", FIELD_TIME, .min = "1us", .max = "10s",
	  .variants = RATE_ALL, AT(struct policy_dcqcn, rate.increase_timer_ns),
	  .help = "the period of rate increases (T)" },
	{ SECTION_DCQCN, "byte_counter", FIELD_SIZE, .min = "10KB", .max = "100GB", .zero = "off",
	  .variants = RATE_COUNTING, AT(struct policy_dcqcn, rate.byte_counter_bytes),
	  .help = "a rate increase for every so many bytes sent (B)" },
	{ SECTION_DCQCN, "fast_recovery", FIELD_COUNT, .min = "1", .max = "100",
	  .variants = RATE_ALL, AT(struct policy_dcqcn, rate.fast_recovery),
	  .help = "stages of fast recovery before additive increase (F)" },
	{ SECTION_DCQCN, "additive_rate", FIELD_RATE, .min = "1kbit", .max = "100Gbit",
	  .variants = RATE_ALL, AT(struct policy_dcqcn, rate.additive_bps),
	  .help = "added to the target in one additive increase (R_AI)" },
	{ SECTION_DCQCN, "hyper_rate", FIELD_RATE, .min = "100kbit", .max = "100Gbit",
	  .zero = "off", .variants = RATE_ALL, AT(struct policy_dcqcn, rate.hyper_bps),
	  .help = "added in one hyper increase (R_HAI); off: additive increase goes on" },
	{ SECTION_DCQCN, "reference_rate", FIELD_RATE, .min = "1Mbit", .max = "400Gbit",
	  .zero = "off", .variants = RATE_ALL, AT(struct policy_dcqcn, reference_bps),
	  .help = "additive_rate and hyper_rate belong to this line rate: others have their share" },
	{ SECTION_DCQCN, "clamp_target", FIELD_WORD, .words = clamp_words,
	  .variants = RATE_CLAMPING, AT(struct policy_dcqcn, rate.clamp),
	  .help = "when a cut brings the target down: always, or after a stage of bytes or of any kind" },
	{ SECTION_DCQCN, "cnp_spacing", FIELD_TIME, .min = "1us", .max = "1s", .zero = "off",
	  .variants = RATE_PAPERS, AT(struct policy_dcqcn, rate.cnp_spacing_ns),
	  .help = "CNPs for one QP that come closer than this are counted and ignored" },
	{ SECTION_DCQCN, "cut_timer", FIELD_TIME, .min = "1us", .max = "10s",
	  .variants = RATE_NICS, AT(struct policy_dcqcn, rate.cut_timer_ns),
	  .help = "at most one cut in this time, whatever the number of CNPs" },
	{ SECTION_DCQCN, "first_cnp_rate", FIELD_RATE, .min = "1217.6kbit", .max = "400Gbit",
	  .zero = "line", .variants = RATE_NICS, AT(struct policy_dcqcn, rate.first_cnp_bps),
	  .help = "what a QP's first CNP sets it to, if that is less than the line rate" },
	{ SECTION_DCQCN, "min_dec_fac", FIELD_PERCENT, .min = "0%", .max = "100%",
	  .variants = 1 << RATE_NVIDIA, AT(struct policy_dcqcn, rate.min_dec_fac),
	  .help = "a cut leaves this share of the rate at the least" },
	{ SECTION_DCQCN, "gd", FIELD_COUNT, .min = "10", .max = "11",
	  .variants = 1 << RATE_NVIDIA, AT(struct policy_dcqcn, rate.gd),
	  .help = "a cut takes alpha x 1024 / 2^gd: 11 half of alpha, 10 all of it" },
	{ SECTION_DCQCN, "min_rate", FIELD_RATE, .min = "1217.6kbit", .max = "400Gbit",
	  .why = "at the least one frame of 1,522 bytes has to leave within 10 ms",
	  .variants = RATE_ALL, AT(struct policy_dcqcn, rate.min_rate_bps),
	  .help = "no QP is slowed below this; at the least one 1,522-byte frame in 10 ms" },
	{ SECTION_DCQCN, "qp_classes", FIELD_COUNT, .min = "1", .max = "4096",
	  .fallback = "64", AT(struct policy_dcqcn, qp_classes),
	  .help = "how many QPs a port can slow at one time" },
	{ SECTION_DCQCN, "idle", FIELD_TIME, .min = "1ms", .max = "3600s", .fallback = "1s",
	  AT(struct policy_dcqcn, idle_ns),
	  .help = "a QP silent for this long gives its class back" },
	{ SECTION_DCQCN, "lease", FIELD_TIME, .min = "1ms", .max = "3600s", .fallback = "off",
	  .zero = "off", AT(struct policy_dcqcn, lease_ns),
	  .help = "a QP gives its class back after this long even when it is busy" },
	{ SECTION_DCQCN, "tick", FIELD_TIME, .min = "10us", .max = "1s", .fallback = "1ms",
	  AT(struct policy_dcqcn, tick_ns),
	  .help = "how often rates are sent to the kernel; may exceed the timers" },
	{ SECTION_DCQCN, "step", FIELD_PERCENT, .min = "0%", .max = "50%", .fallback = "1%",
	  AT(struct policy_dcqcn, step),
	  .help = "a rate that moved by less than this share is not sent" },

	{ SECTION_TOP, "pairs", FIELD_LIST, .child = SECTION_PAIR,
	  .min = "0", .max = NUMBER(POLICY_PAIRS_MAX), LIST(struct policy, pairs),
	  .count_at = offsetof(struct policy, pairs_count),
	  .help = "connected QPs, only where they cannot be learned" },
	{ SECTION_PAIR, "a", FIELD_ENDPOINT, .required = true, AT(struct policy_pair, a),
	  .help = "one end; IPv4 or IPv6" },
	{ SECTION_PAIR, "b", FIELD_ENDPOINT, .required = true, AT(struct policy_pair, b),
	  .help = "the other end; of the same address family" },

	{ SECTION_TOP, "observe", FIELD_MAP, .child = SECTION_OBSERVE,
	  AT(struct policy, observe),
	  .help = "what the agent shows" },
	{ SECTION_OBSERVE, "listen", FIELD_LISTEN, .fallback = "127.0.0.1:9842",
	  .offset = 0, .size = sizeof(struct policy_observe),
	  .help = "where metrics are served; in quotes" },

	{ SECTION_TOP, "protocols", FIELD_MAP, .child = SECTION_PROTOCOLS,
	  AT(struct policy, protocols),
	  .help = "what tells protocols apart that standards do not" },
	{ SECTION_PROTOCOLS, "roce_port", FIELD_COUNT, .min = "1", .max = "65535",
	  .fallback = "4791", AT(struct policy_protocols, roce_port),
	  .help = "the UDP port of RoCEv2" },
	{ SECTION_PROTOCOLS, "vxlan_ports", FIELD_PORTS, .min = "1", .max = "65535",
	  AT(struct policy_protocols, vxlan_ports),
	  .help = "up to 4 UDP ports, [] for none; absent: 4789 and 8472" },
	{ SECTION_PROTOCOLS, "geneve_port", FIELD_COUNT, .zero = "off", .min = "1", .max = "65535",
	  .fallback = "6081", AT(struct policy_protocols, geneve_port),
	  .help = "the UDP port of GENEVE" },
	{ SECTION_PROTOCOLS, "iwarp_ports", FIELD_PORTS, .min = "1", .max = "65535",
	  AT(struct policy_protocols, iwarp_ports),
	  .help = "up to 4 TCP ports that are iWARP, beside connections that begin with MPA" },

	{ SECTION_TOP, "flows_max", FIELD_COUNT, .min = "1024", .max = "1048576",
	  .fallback = "65536", AT(struct policy, flows_max),
	  .help = "the size of the flow table" },
	{ SECTION_TOP, "repair", FIELD_WORD, .fallback = "true", .words = bool_words,
	  AT(struct policy, repair),
	  .help = "make queues again that somebody else deleted; else only say so" },
};
/* clang-format on */

const size_t policy_fields_count = ARRAY_SIZE(policy_fields);

static void *member(const struct field *field, void *base)
{
	return (char *)base + field->offset;
}

static int store_uint(const struct field *field, void *base, uint64_t value)
{
	uint8_t u8 = value;
	uint16_t u16 = value;
	uint32_t u32 = value;

	switch (field->size) {
	case sizeof(u8):
		memcpy(member(field, base), &u8, sizeof(u8));
		return 0;
	case sizeof(u16):
		memcpy(member(field, base), &u16, sizeof(u16));
		return 0;
	case sizeof(u32):
		memcpy(member(field, base), &u32, sizeof(u32));
		return 0;
	default:
		memcpy(member(field, base), &value, sizeof(value));
		return 0;
	}
}

/* Sets are uint8_t or uint64_t. */
static uint64_t load_uint(const struct field *field, const void *base)
{
	const char *at = (const char *)base + field->offset;
	uint64_t u64 = 0;
	uint8_t u8;

	if (field->size == sizeof(u8)) {
		memcpy(&u8, at, sizeof(u8));
		return u8;
	}
	memcpy(&u64, at, sizeof(u64));
	return u64;
}

/* "; allowed ..." behind the message that is in err. */
static int add_allowed(const struct field *field, int ret, struct qerr *err)
{
	struct qerr what = *err;
	char allowed[256];

	field_allowed(field, allowed, sizeof(allowed));
	return qerr_set(err, ret, "%.200s; allowed %s%s%s%s", what.text, allowed,
		field->why ? " (" : "", field->why ? field->why : "", field->why ? ")" : "");
}

static enum units_kind units_of(const struct field *field)
{
	static const enum units_kind kinds[] = {
		[FIELD_RATE] = UNITS_RATE,
		[FIELD_SIZE] = UNITS_SIZE,
		[FIELD_TIME] = UNITS_TIME,
		[FIELD_PERCENT] = UNITS_PERCENT,
		[FIELD_SHARE] = UNITS_PERCENT,
		[FIELD_RATIO] = UNITS_RATIO,
		[FIELD_COUNT] = UNITS_COUNT,
		[FIELD_SET] = UNITS_COUNT,
		[FIELD_PORTS] = UNITS_COUNT,
	};

	return kinds[field->kind];
}

static bool within(const struct field *field, struct units_value value)
{
	struct units_value min = {0, 1}, max = {0, 1};
	int low;

	if (units_parse(units_of(field), field->min, &min, NULL) ||
		units_parse(units_of(field), field->max, &max, NULL))
		return false;
	low = units_compare(value, min);
	return (field->above ? low > 0 : low >= 0) && units_compare(value, max) <= 0;
}

static int parse_number(
	const struct field *field, const char *text, struct units_value *value, struct qerr *err)
{
	int ret;

	if (field->zero && !strcmp(text, field->zero)) {
		*value = (struct units_value){0, 1};
		return 0;
	}
	ret = units_parse(units_of(field), text, value, err);
	if (ret)
		return -EINVAL;
	if (!within(field, *value))
		return qerr_set(err, -EINVAL, "%s is out of range", text_quote(text).text);
	return 0;
}

static int read_whole(const struct field *field, const char *text, void *base, struct qerr *err)
{
	struct units_value value;
	int ret = parse_number(field, text, &value, err);

	return ret ? ret : store_uint(field, base, value.num);
}

static int read_share(const struct field *field, const char *text, void *base, struct qerr *err)
{
	struct units_value value;
	double share;
	int ret = parse_number(field, text, &value, err);

	if (ret)
		return ret;
	share = units_double(value);
	memcpy(member(field, base), &share, sizeof(share));
	return 0;
}

static int read_set_member(
	const struct field *field, const char *text, void *base, struct qerr *err)
{
	struct units_value value;
	uint64_t mask;
	int ret = parse_number(field, text, &value, err);

	if (ret)
		return ret;
	mask = load_uint(field, base);
	if (mask & 1ULL << value.num)
		return qerr_set(err, -EINVAL, "%s is there twice", text_quote(text).text);
	return store_uint(field, base, mask | 1ULL << value.num);
}

static int read_port_member(
	const struct field *field, const char *text, void *base, struct qerr *err)
{
	struct policy_l4_ports *ports = (void *)((char *)base + field->offset);
	struct units_value value;
	int ret = parse_number(field, text, &value, err);

	if (ret)
		return ret;
	for (uint32_t i = 0; i < ports->count; i++)
		if (ports->port[i] == value.num)
			return qerr_set(err, -EINVAL, "%s is there twice", text_quote(text).text);
	if (ports->count == POLICY_L4_PORTS_MAX)
		return qerr_set(err, -EINVAL, "more than %d ports", POLICY_L4_PORTS_MAX);
	ports->port[ports->count++] = value.num;
	return 0;
}

static int read_share_word(const struct field *field, const char *text, void *base)
{
	for (const struct field_word *word = field->words; word->name; word++) {
		struct policy_share share = {.kind = word->value};

		if (strcmp(word->name, text))
			continue;
		memcpy(member(field, base), &share, sizeof(share));
		return 0;
	}
	return -ENOENT;
}

static int read_port_share(
	const struct field *field, const char *text, void *base, struct qerr *err)
{
	struct policy_share share = {.kind = SHARE_PERCENT};
	struct units_value value;
	int ret;

	if (!read_share_word(field, text, base))
		return 0;
	ret = parse_number(field, text, &value, err);
	if (ret)
		return ret;
	if (value.num * 100 % value.den)
		return qerr_set(err, -EINVAL, "%s is no whole percentage", text_quote(text).text);
	share.percent = value.num * 100 / value.den;
	memcpy(member(field, base), &share, sizeof(share));
	return 0;
}

static int read_word(const struct field *field, const char *text, void *base, struct qerr *err)
{
	for (const struct field_word *word = field->words; word->name; word++) {
		if (strcmp(word->name, text))
			continue;
		if (word->unbuilt)
			return qerr_set(err, -EINVAL, "%s is not built yet", text_quote(text).text);
		return store_uint(field, base, word->value);
	}
	return qerr_set(err, -EINVAL, "%s is not known", text_quote(text).text);
}

/* What the kernel's dev_valid_name() takes. */
static bool ifname_char(unsigned char c)
{
	return c > ' ' && c < 0x7f && c != '/' && c != ':';
}

static bool label_char(unsigned char c)
{
	return isalnum(c) || c == '_' || c == '-';
}

static int read_name(const struct field *field, const char *text, bool (*allowed)(unsigned char),
	void *base, struct qerr *err)
{
	size_t len = strlen(text);

	if (!len)
		return qerr_set(err, -EINVAL, "\"\" is empty");
	if (len >= field->size)
		return qerr_set(err, -EINVAL, "%s is too long", text_quote(text).text);
	for (const char *c = text; *c; c++) {
		if (!allowed(*c))
			return qerr_set(err, -EINVAL, "%s is not a name", text_quote(text).text);
	}
	memcpy(member(field, base), text, len + 1);
	return 0;
}

static int read_ifname(const struct field *field, const char *text, void *base, struct qerr *err)
{
	if (!strcmp(text, ".") || !strcmp(text, ".."))
		return qerr_set(err, -EINVAL, "%s is not a name", text_quote(text).text);
	return read_name(field, text, ifname_char, base, err);
}

static int read_label(const struct field *field, const char *text, void *base, struct qerr *err)
{
	return read_name(field, text, label_char, base, err);
}

static bool hex_pair(const char *text, uint8_t *byte)
{
	char pair[3] = {text[0], text[0] ? text[1] : '\0'};

	if (!isxdigit((unsigned char)pair[0]) || !isxdigit((unsigned char)pair[1]))
		return false;
	*byte = (uint8_t)strtoul(pair, NULL, 16);
	return true;
}

static int read_mac(const struct field *field, const char *text, void *base, struct qerr *err)
{
	static const uint8_t none[6];
	const char *at = text;
	uint8_t mac[6];
	size_t i;

	for (i = 0; i < sizeof(mac) && hex_pair(at, &mac[i]); i++) {
		at += 2;
		if (*at != (i + 1 < sizeof(mac) ? ':' : '\0'))
			break;
		at += *at == ':';
	}
	if (i < sizeof(mac) || !memcmp(mac, none, sizeof(mac)))
		return qerr_set(err, -EINVAL, "%s is no MAC address", text_quote(text).text);
	memcpy(member(field, base), mac, sizeof(mac));
	return 0;
}

static bool parse_address(const char *text, struct in6_addr *addr)
{
	struct in_addr v4;

	if (inet_pton(AF_INET6, text, addr) == 1)
		return true;
	if (inet_pton(AF_INET, text, &v4) != 1)
		return false;
	memset(addr, 0, sizeof(*addr));
	addr->s6_addr[10] = addr->s6_addr[11] = 0xff;
	memcpy(&addr->s6_addr[12], &v4, sizeof(v4));
	return true;
}

/* Copy text[0..len) when it fits; the longest address with brackets has 47 characters. */
static bool copy_part(char buf[INET6_ADDRSTRLEN + 2], const char *text, size_t len)
{
	if (len >= INET6_ADDRSTRLEN + 2)
		return false;
	memcpy(buf, text, len);
	buf[len] = '\0';
	return true;
}

static int read_endpoint(const struct field *field, const char *text, void *base, struct qerr *err)
{
	const char *slash = strrchr(text, '/');
	struct policy_endpoint end = {};
	char host[INET6_ADDRSTRLEN + 2];
	uint64_t qpn;

	if (!slash)
		return qerr_set(err, -EINVAL, "%s has no /QPN", text_quote(text).text);
	if (!copy_part(host, text, slash - text) || !parse_address(host, &end.addr))
		return qerr_set(err, -EINVAL, "%s has no IPv4 or IPv6 address before the /",
			text_quote(text).text);
	if (units_parse_u64(UNITS_COUNT, slash + 1, &qpn, err))
		return -EINVAL;
	if (qpn < 2 || qpn > 0xffffff)
		return qerr_set(err, -EINVAL, "QPN %s is out of range", text_quote(slash + 1).text);
	end.qpn = qpn;
	memcpy(member(field, base), &end, sizeof(end));
	return 0;
}

/* "127.0.0.1" or "[::1]" in place; brackets go. */
static bool parse_listen_host(char *host)
{
	size_t len = strlen(host);
	struct in6_addr addr;
	struct in_addr v4;

	if (*host != '[')
		return inet_pton(AF_INET, host, &v4) == 1;
	if (host[len - 1] != ']')
		return false;
	host[len - 1] = '\0';
	memmove(host, host + 1, len - 1);
	return inet_pton(AF_INET6, host, &addr) == 1;
}

static int read_listen(const struct field *field, const char *text, void *base, struct qerr *err)
{
	const char *colon = strrchr(text, ':');
	struct policy_observe observe = {};
	char host[INET6_ADDRSTRLEN + 2];
	uint64_t port;

	if (!colon || !copy_part(host, text, colon - text) || !parse_listen_host(host))
		return qerr_set(
			err, -EINVAL, "%s is not an address and a port", text_quote(text).text);
	if (units_parse_u64(UNITS_COUNT, colon + 1, &port, err))
		return -EINVAL;
	if (port < 1 || port > 65535)
		return qerr_set(
			err, -EINVAL, "port %s is out of range", text_quote(colon + 1).text);
	snprintf(observe.host, sizeof(observe.host), "%s", host);
	observe.port = port;
	memcpy(member(field, base), &observe, sizeof(observe));
	return 0;
}

struct kind {
	int (*read)(const struct field *field, const char *text, void *base, struct qerr *err);
	const char *unit;    /* for the reference; NULL: the names of its units */
	const char *allowed; /* NULL: by min and max or words */
};

static const struct kind kinds[FIELD_KINDS_COUNT] = {
	[FIELD_RATE] = {read_whole, NULL, NULL},
	[FIELD_SIZE] = {read_whole, NULL, NULL},
	[FIELD_TIME] = {read_whole, NULL, NULL},
	[FIELD_PERCENT] = {read_share, NULL, NULL},
	[FIELD_SHARE] = {read_port_share, NULL, NULL},
	[FIELD_RATIO] = {read_share, "fraction or decimal", NULL},
	[FIELD_COUNT] = {read_whole, "number", NULL},
	[FIELD_WORD] = {read_word, "word", NULL},
	[FIELD_IFNAME] = {read_ifname, "name",
		"1 to 15 visible ASCII characters except '/' and ':'"},
	[FIELD_LABEL] = {read_label, "name", "1 to 31 letters, digits, '-' and '_'"},
	[FIELD_MAC] = {read_mac, "MAC address", "six bytes, as in 02:00:00:00:00:01"},
	[FIELD_ENDPOINT] = {read_endpoint, "ADDRESS/QPN",
		"ADDRESS/QPN with a QPN of 2 to 0xffffff"},
	[FIELD_LISTEN] = {read_listen, "ADDRESS:PORT",
		"ADDRESS:PORT, an IPv6 address in [], a port of 1 to 65535"},
	[FIELD_SET] = {read_set_member, "list of numbers", NULL},
	[FIELD_PORTS] = {read_port_member, "list of ports", NULL},
	[FIELD_MAP] = {NULL, "map", ""},
	[FIELD_LIST] = {NULL, "list of maps", NULL},
};

int field_read(const struct field *field, const char *text, void *base, struct qerr *err)
{
	struct qerr local;
	int ret;

	err = err ? err : &local;
	ret = kinds[field->kind].read(field, text, base, err);
	return ret ? add_allowed(field, ret, err) : 0;
}

/* The words, with left alternatives to follow them. */
static void allowed_words(const struct field *field, size_t left, char *buf, size_t size)
{
	for (const struct field_word *word = field->words; word->name; word++)
		left += !word->unbuilt;
	*buf = '\0';
	for (const struct field_word *word = field->words; word->name; word++) {
		if (!word->unbuilt)
			text_join(buf, size, word->name, --left);
	}
}

static void allowed_range(const struct field *field, char *buf, size_t size)
{
	char range[64];

	if (field->words) {
		snprintf(range, sizeof(range), "%s to %s", field->min, field->max);
		allowed_words(field, 1, buf, size);
		text_join(buf, size, range, 0);
		return;
	}
	snprintf(buf, size, "%s%s%s%s%s%s%s", field->zero ? field->zero : "",
		field->zero ? ", or " : "", field->above ? "above " : "", field->min,
		field->above ? " up to " : " to ", field->max,
		field->kind == FIELD_LIST ? " entries" : "");
}

void field_allowed(const struct field *field, char *buf, size_t size)
{
	if (kinds[field->kind].allowed)
		snprintf(buf, size, "%s", kinds[field->kind].allowed);
	else if (field->words && !field->min)
		allowed_words(field, 0, buf, size);
	else if (!strcmp(field->min, field->max))
		snprintf(buf, size, "%s", field->min);
	else
		allowed_range(field, buf, size);
}

const struct field *field_find(enum field_section section, const char *name)
{
	for (size_t i = 0; i < policy_fields_count; i++) {
		if (policy_fields[i].section == section && !strcmp(policy_fields[i].name, name))
			return &policy_fields[i];
	}
	return NULL;
}

void field_names(enum field_section section, char *buf, size_t size)
{
	size_t left = 0;

	for (size_t i = 0; i < policy_fields_count; i++)
		left += policy_fields[i].section == section;
	*buf = '\0';
	for (size_t i = 0; i < policy_fields_count; i++) {
		if (policy_fields[i].section == section)
			text_join(buf, size, policy_fields[i].name, --left);
	}
}

static const struct field *field_parent(enum field_section section)
{
	for (size_t i = 0; i < policy_fields_count; i++) {
		if (policy_fields[i].child == section && section != SECTION_TOP)
			return &policy_fields[i];
	}
	return NULL;
}

void field_path(const struct field *field, char *buf, size_t size)
{
	const struct field *parent = field_parent(field->section);
	size_t used;

	*buf = '\0';
	if (parent)
		field_path(parent, buf, size);
	used = strlen(buf);
	snprintf(buf + used, size - used, "%s%s%s", used ? "." : "", field->name,
		field->kind == FIELD_LIST ? "[]" : "");
}

const struct field *field_find_path(const char *path)
{
	char buf[64];

	for (size_t i = 0; i < policy_fields_count; i++) {
		field_path(&policy_fields[i], buf, sizeof(buf));
		if (!strcmp(buf, path))
			return &policy_fields[i];
	}
	return NULL;
}

void field_set_defaults(enum field_section section, void *base)
{
	for (size_t i = 0; i < policy_fields_count; i++) {
		const struct field *field = &policy_fields[i];

		if (field->section != section)
			continue;
		if (field->fallback)
			field_read(field, field->fallback, base, NULL);
		if (field->kind == FIELD_MAP)
			field_set_defaults(field->child, member(field, base));
	}
}

static const char *word_of(const struct field *field, uint64_t value)
{
	const struct field_word *word = field->words;

	while (word->name && word->value != value)
		word++;
	return word->name ? word->name : "";
}

/* 1/256, 5/1024 or 1: what presets have. */
static void format_ratio(double value, char *buf, size_t size)
{
	unsigned int num = value * 1024, den = 1024;

	for (; num && num % 2 == 0 && den > 1; num /= 2)
		den /= 2;
	if (den == 1)
		snprintf(buf, size, "%u", num);
	else
		snprintf(buf, size, "%u/%u", num, den);
}

static void format_share(const struct field *field, const void *base, char *buf, size_t size)
{
	double share;

	memcpy(&share, (const char *)base + field->offset, sizeof(share));
	if (field->kind == FIELD_RATIO)
		format_ratio(share, buf, size);
	else
		snprintf(buf, size, "%g%%", share * 100);
}

static void format_whole(const struct field *field, const void *base, char *buf, size_t size)
{
	const char *at = (const char *)base + field->offset;
	uint32_t u32;
	uint64_t u64;

	if (field->size == sizeof(u32)) {
		memcpy(&u32, at, sizeof(u32));
		u64 = u32;
	} else {
		memcpy(&u64, at, sizeof(u64));
	}
	if (!u64 && field->zero)
		snprintf(buf, size, "%s", field->zero);
	else if (field->words)
		snprintf(buf, size, "%s", word_of(field, u64));
	else
		units_format(units_of(field), u64, buf, size);
}

void field_format(const struct field *field, const void *base, char *buf, size_t size)
{
	if (field->kind == FIELD_PERCENT || field->kind == FIELD_RATIO)
		format_share(field, base, buf, size);
	else
		format_whole(field, base, buf, size);
}

static const char *default_text(const struct field *field)
{
	if (field->required)
		return "required";
	if (field->variants)
		return "by preset";
	return field->fallback ? field->fallback : "";
}

void policy_describe(FILE *out)
{
	char path[64], unit[64], allowed[256];

	fputs("| key | unit | default | allowed | meaning |\n", out);
	fputs("|---|---|---|---|---|\n", out);
	for (size_t i = 0; i < policy_fields_count; i++) {
		const struct field *field = &policy_fields[i];

		field_path(field, path, sizeof(path));
		field_allowed(field, allowed, sizeof(allowed));
		if (kinds[field->kind].unit)
			snprintf(unit, sizeof(unit), "%s", kinds[field->kind].unit);
		else
			units_names(units_of(field), unit, sizeof(unit));
		fprintf(out, "| `%s` | %s | %s | %s | %s |\n", path, unit, default_text(field),
			allowed, field->help);
	}
	presets_describe(out);
}
