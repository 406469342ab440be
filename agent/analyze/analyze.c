// SPDX-License-Identifier: BSD-2-Clause
// The analysis, frame by frame: kind, ICRC, flow, CNPs, pauses; what a flow does is in follow.c.
#include "analyze/analyze.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/follow.h"
#include "analyze/infiniband.h"
#include "analyze/iwarp.h"
#include "analyze/pairing.h"
#include "quench/class.h"

enum {
	CNP_INTERVAL_SANE_NS = 4000, /* NVIDIA's default of min_time_between_cnps */
	QUANTUM_BITS = 512,
};

/* Parsing and kinds */

static int parse_infiniband(
	const void *data, const void *end, const struct wire_ports *ports, struct wire_frame *f)
{
	(void)ports;
	return infiniband_parse(data, end, f);
}

static int parse_foreign(
	const void *data, const void *end, const struct wire_ports *ports, struct wire_frame *f)
{
	(void)data;
	(void)end;
	(void)ports;
	return wire_done(f, WIRE_OTHER);
}

/* What reads the bytes, by what they start with. */
static int (*const parsers[FRAME_LINK_COUNT])(
	const void *, const void *, const struct wire_ports *, struct wire_frame *) = {
	[FRAME_ETHERNET] = wire_parse_ports,
	[FRAME_INFINIBAND] = parse_infiniband,
	[FRAME_FOREIGN] = parse_foreign,
};

static const char *const kind_names[WIRE_KIND_COUNT] = {
#define X(id, name) [WIRE_##id] = name,
	WIRE_KINDS(X)
#undef X
};

const char *analyze_kind_name(uint32_t kind)
{
	return kind_names[kind];
}

const char *analyze_tunnel_name(uint32_t tunnel)
{
	static const char *const names[TUNNEL_END] = {
#define X(id, name) [TUNNEL_##id] = name,
		WIRE_TUNNELS(X)
#undef X
	};

	return names[tunnel];
}

static uint64_t since(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

void analyze_note(struct analyze *a, enum finding_id id, uint64_t frame, struct analyze_flow *flow)
{
	evidence_note(&a->evidence[id], frame, 0);
	if (flow)
		flow->noted[id]++;
}

static void miss(struct analyze *a, const struct analyze_frame *frame)
{
	a->missed++;
	analyze_note(a, FINDING_TABLES_FULL, frame->number, NULL);
}

/* Flows */

/* Both RoCE versions between the same two MAC addresses. */
static void note_version(
	struct analyze *a, const struct analyze_frame *frame, const struct wire_frame *f)
{
	static const uint8_t none[6];
	const uint8_t *x = frame->data, *y = frame->data + 6;
	struct analyze_link_pair key = {}, *pair;
	bool swap = memcmp(x, y, 6) > 0, v2 = f->l3 != L3_GRH;

	if (frame->link != FRAME_ETHERNET || f->tunnel || !memcmp(x, none, 6) ||
		!memcmp(y, none, 6))
		return;
	memcpy(key.mac, swap ? y : x, 6);
	memcpy(key.mac + 6, swap ? x : y, 6);
	pair = table_add(&a->macs, &key);
	if (!pair || pair->frame[v2])
		return;
	pair->frame[v2] = frame->number;
	if (!pair->frame[!v2])
		return;
	analyze_note(a, FINDING_V1_BESIDE_V2, pair->frame[!v2], NULL);
	evidence_cite(&a->evidence[FINDING_V1_BESIDE_V2], frame->number);
}

static void start_flow(struct analyze *a, struct analyze_flow *flow)
{
	struct analyze_host host = {}, *found;

	flow->started = 1;
	pairing_start(a, flow);
	memcpy(host.src, flow->key.src, sizeof(host.src));
	memcpy(host.dst, flow->key.dst, sizeof(host.dst));
	found = table_add(&a->hosts, &host);
	flow->host = found ? table_index(&a->hosts, found) : HOST_NONE;
}

/* The frame's flow, made if need be; NULL when there is no room. */
static struct analyze_flow *get_flow(
	struct analyze *a, const struct analyze_frame *frame, const struct wire_frame *f)
{
	struct analyze_flow *flow = table_add(&a->flows, &f->key);

	if (!flow) {
		miss(a, frame);
		return NULL;
	}
	if (!flow->started)
		start_flow(a, flow);
	return flow;
}

struct analyze_host *analyze_host(struct analyze *a, const struct analyze_flow *flow)
{
	return flow->host == HOST_NONE ? &a->other_hosts : table_at(&a->hosts, flow->host);
}

const struct analyze_host *analyze_host_back(
	const struct analyze *a, const struct analyze_flow *flow)
{
	struct analyze_host key = {};

	memcpy(key.src, flow->key.dst, sizeof(key.src));
	memcpy(key.dst, flow->key.src, sizeof(key.dst));
	return table_find(&a->hosts, &key);
}

static void count_frame(struct analyze *a, struct analyze_flow *flow,
	const struct analyze_frame *frame, const struct wire_frame *f)
{
	uint32_t bytes = f->icrc_off + ICRC_BYTES - wire_roce_l3_off(f);
	struct flow_sample *sample = series_sample(&a->series, flow);
	uint8_t tos = wire_roce_tos(f), l3 = wire_roce_l3(f);
	bool ce = wire_is_ce(tos);

	if (!flow->packets++) {
		flow->first_frame = frame->number;
		flow->first_ns = frame->time_ns;
	}
	if (frame->time_ns > flow->last_ns)
		flow->last_ns = frame->time_ns;
	flow->bytes += bytes;
	flow->ce += ce;
	flow->operations[operation_of(f->opcode)]++;
	flow->dscps |= 1ull << (tos >> 2);
	if (f->tunnel)
		flow->tunnels |= 1 << f->tunnel;
	analyze_host(a, flow)->packets++;
	sample->packets++;
	sample->bytes += bytes;
	sample->ce += ce;
	a->series.whole.packets++;
	a->series.whole.bytes += bytes;
	a->series.whole.ce += ce;
	if (!(flow->versions >> l3 & 1)) {
		flow->versions |= 1 << l3;
		note_version(a, frame, f);
	}
}

/* What the policy makes of it. */
static void note_class(struct analyze *a, struct analyze_flow *flow,
	const struct analyze_frame *frame, const struct wire_frame *f)
{
	uint8_t cls = frame_class(&a->policy->conf, &a->policy->port, f);

	if (cls == CLASS_NONE && !flow->unclassed_frame)
		flow->unclassed_frame = frame->number;
	if (cls < CLASSES_MAX && a->policy->lossy >> cls & 1 && !flow->lossy_frame)
		flow->lossy_frame = frame->number;
	if (frame_disagrees(&a->policy->conf, f))
		analyze_note(a, FINDING_TRUST_DISAGREES, frame->number, flow);
}

static void count_data(struct analyze *a, struct analyze_flow *flow,
	const struct analyze_frame *frame, const struct wire_frame *f)
{
	uint8_t ecn = wire_roce_tos(f) & ECN_MASK;

	if (f->tunnel)
		flow->outer_ecn[f->tos & ECN_MASK]++;
	if (!flow->data_ecn[ecn]++)
		flow->data_ecn_frame[ecn] = frame->number;
	if (a->policy)
		note_class(a, flow, frame, f);
}

/* What a kind of frame adds */

static void take_roce(
	struct analyze *a, const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	const struct wire_frame *f = &seen->wire;
	struct analyze_flow *flow;

	if (seen->icrc == ICRC_BAD) /* what it says of QPs and PSNs may be the damage */
		return;
	flow = get_flow(a, frame, f);
	if (!flow)
		return;
	count_frame(a, flow, frame, f);
	if (operation_is_data(operation_of(f->opcode)))
		count_data(a, flow, frame, f);
	follow_frame(a, flow, frame, seen);
}

static void take_cnp(
	struct analyze *a, const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	struct analyze_flow *flow, *about;
	uint64_t interval_ns;

	if (!wire_cnp_is_whole(&seen->wire)) {
		analyze_note(a, FINDING_CNP_ODD, frame->number, NULL);
		return;
	}
	flow = seen->icrc == ICRC_BAD ? NULL : get_flow(a, frame, &seen->wire);
	if (!flow)
		return;
	interval_ns = since(flow->cnp_last_ns, frame->time_ns);
	if (flow->cnp_carried++ && interval_ns < CNP_INTERVAL_SANE_NS)
		analyze_note(a, FINDING_CNP_FAST, frame->number, flow);
	if (flow->cnp_carried == 2 ||
		(flow->cnp_carried > 2 && interval_ns < flow->cnp_interval_min_ns))
		flow->cnp_interval_min_ns = interval_ns;
	flow->cnp_last_ns = frame->time_ns;
	analyze_host(a, flow)->cnps++;
	a->series.whole.cnp++;
	about = analyze_reverse(a, flow);
	if (about)
		series_sample(&a->series, about)->cnp++;
}

static void take_cm(
	struct analyze *a, const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	const struct wire_frame *f = &seen->wire;
	uint32_t mad_off = f->bth_off + BTH_BYTES + DETH_BYTES;
	struct wire_cm cm;
	uint32_t message;
	bool connects;

	if (seen->icrc == ICRC_BAD || mad_off + MAD_BYTES > f->icrc_off ||
		mad_off + MAD_BYTES > frame->len)
		return;
	connects = wire_read_cm(frame->data + mad_off, &cm);
	message = (uint32_t)cm.attribute - CM_ATTRIBUTE_FIRST; /* wraps for what is none */
	if (message < CM_MESSAGE_COUNT)
		a->cm[message]++;
	if (cm.attribute == CM_REJ)
		analyze_note(a, FINDING_CM_REJECT, frame->number, NULL);
	if (connects)
		pairing_learn_cm(a, f, &cm, frame->time_ns);
}

static void take_pause(
	struct analyze *a, const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	struct evidence *storms = &a->evidence[FINDING_PAUSE_STORM];
	struct pauser key = {}, *pauser;
	struct wire_mac_control control;
	struct pause_effect effect;

	memcpy(key.mac, frame->data + 6, 6);
	memcpy(&control, frame->data + seen->wire.mac_control_off, sizeof(control));
	pauser = table_add(&a->pausers, &key);
	if (!pauser) {
		miss(a, frame);
		return;
	}
	effect = pause_take(
		pauser, &control, seen->wire.kind == WIRE_PFC, frame->time_ns, a->quantum_ps);
	a->series.xoff += effect.xoffs;
	for (uint32_t i = 0; i < effect.storms; i++)
		evidence_note(storms, frame->number, 0);
	if (seen->wire.kind == WIRE_PAUSE)
		analyze_note(a, FINDING_LINK_PAUSE_BESIDE_PFC, frame->number, NULL);
}

/* An IPv6 fragment: where its UDP header is, 0 when it is not the first of a datagram. */
static uint32_t ipv6_first_udp(const uint8_t *l3, uint32_t room)
{
	uint32_t at = IPV6_HEADER_BYTES;
	uint8_t next = l3[6];

	for (int i = 0; i < IPV6_HEADERS_MAX && at + 8 <= room; i++) {
		if (next == IPV6_FRAGMENT)
			return l3[at] == IP_PROTO_UDP && !l3[at + 2] && l3[at + 3] < 8 ? at + 8 : 0;
		next = l3[at];
		at += 8 + l3[at + 1] * 8;
	}
	return 0;
}

static uint32_t ipv4_first_udp(const uint8_t *l3)
{
	bool first = !((l3[6] << 8 | l3[7]) & 0x1fff);

	return first && l3[9] == IP_PROTO_UDP ? (l3[0] & 0x0f) * 4 : 0;
}

/* Is it the first fragment of a datagram to the RoCE port? */
static bool starts_roce(
	const struct analyze *a, const struct analyze_frame *frame, const struct wire_frame *f)
{
	const uint8_t *l3 = frame->data + wire_roce_l3_off(f);
	uint32_t room = frame->len - wire_roce_l3_off(f);
	uint32_t udp = wire_roce_l3(f) == L3_IPV4 ? ipv4_first_udp(l3) : ipv6_first_udp(l3, room);

	return udp && room >= udp + 4 && wire_be16_at(l3 + udp + 2) == WIRE_NTOHS(a->ports.roce);
}

static void take_fragment(
	struct analyze *a, const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	if (starts_roce(a, frame, &seen->wire))
		analyze_note(a, FINDING_ROCE_FRAGMENT, frame->number, NULL);
}

static void take_iwarp(
	struct analyze *a, const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	if (!iwarp_take(a, frame, &seen->wire))
		miss(a, frame);
}

/* What goes to QPs 0 and 1 is management, and belongs to no flow. */
static void take_infiniband(
	struct analyze *a, const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	if (!seen->wire.bth_off)
		return;
	if (seen->wire.opcode == OP_UD_SEND_ONLY && seen->wire.key.dst_qpn == QPN_CM)
		take_cm(a, frame, seen);
	if (seen->wire.key.dst_qpn > QPN_CM)
		take_roce(a, frame, seen);
}

/* One row a kind; a kind without one is counted and no more. */
static const struct kind_rule {
	void (*take)(struct analyze *, const struct analyze_frame *, const struct analyze_seen *);
	bool carries_icrc;
	bool is_finding;
	uint8_t finding; /* that each such frame is, with is_finding */
} kind_rules[WIRE_KIND_COUNT] = {
	[WIRE_ROCEV2] = {.take = take_roce, .carries_icrc = true},
	[WIRE_ROCEV1] = {.take = take_roce, .carries_icrc = true},
	[WIRE_CNP] = {.take = take_cnp, .carries_icrc = true},
	[WIRE_CM] = {.take = take_cm, .carries_icrc = true},
	[WIRE_IWARP] = {.take = take_iwarp},
	[WIRE_INFINIBAND] = {.take = take_infiniband, .carries_icrc = true},
	[WIRE_PFC] = {.take = take_pause},
	[WIRE_PAUSE] = {.take = take_pause},
	[WIRE_MAC_CONTROL] = {.is_finding = true, .finding = FINDING_MAC_CONTROL},
	[WIRE_MACSEC] = {.is_finding = true, .finding = FINDING_MACSEC},
	[WIRE_UNKNOWN_OPCODE] = {.carries_icrc = true,
		.is_finding = true,
		.finding = FINDING_UNKNOWN_OPCODE},
	[WIRE_FRAGMENT] = {.take = take_fragment},
	[WIRE_TOO_MANY_TAGS] = {.is_finding = true, .finding = FINDING_TOO_MANY_TAGS},
	[WIRE_TOO_MANY_HEADERS] = {.is_finding = true, .finding = FINDING_TOO_MANY_HEADERS},
	[WIRE_MALFORMED] = {.is_finding = true, .finding = FINDING_MALFORMED},
};

static void take_icrc(
	struct analyze *a, const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	struct analyze_flow *flow;

	a->icrc[seen->icrc]++;
	/* what has no known opcode may be no RoCE at all */
	if (seen->icrc == ICRC_BAD && seen->wire.kind != WIRE_UNKNOWN_OPCODE) {
		flow = table_find(&a->flows, &seen->wire.key);
		analyze_note(a, FINDING_ICRC_BAD, frame->number, flow);
	}
	if (seen->icrc == ICRC_UNVERIFIABLE && frame->len >= frame->wire_len)
		analyze_note(a, FINDING_SHORT_FRAME, frame->number, NULL);
}

static void count_capture(struct analyze *a, const struct analyze_frame *frame)
{
	if (!a->frames++)
		a->first_ns = frame->time_ns;
	a->bytes += frame->wire_len;
	if (frame->time_ns > a->last_ns)
		a->last_ns = frame->time_ns;
	if (frame->len >= frame->wire_len)
		return;
	a->cut++;
	evidence_note(&a->evidence[FINDING_SNAPLEN], frame->number, frame->len);
}

/* Say what the frame is; a TCP segment may be known by its connection. */
static void recognize(struct analyze *a, const struct analyze_frame *frame, struct wire_frame *f)
{
	wire_frame_init(f);
	parsers[frame->link](frame->data, frame->data + frame->len, &a->ports, f);
	if (f->kind == WIRE_OTHER && f->tcp_payload_off && iwarp_is(a, f))
		f->kind = WIRE_IWARP;
}

void analyze_take(struct analyze *a, const struct analyze_frame *frame, struct analyze_seen *seen)
{
	const struct kind_rule *rule;

	count_capture(a, frame);
	series_advance(&a->series, &a->flows, frame->time_ns);
	recognize(a, frame, &seen->wire);
	rule = &kind_rules[seen->wire.kind];
	a->kinds[seen->wire.kind]++;
	a->tunnels[seen->wire.tunnel]++;
	seen->icrc = rule->carries_icrc && seen->wire.bth_off ? icrc_judge(frame, &seen->wire)
							      : ICRC_NONE;
	if (rule->take)
		rule->take(a, frame, seen);
	take_icrc(a, frame, seen);
	if (rule->is_finding)
		analyze_note(a, rule->finding, frame->number, NULL);
}

void analyze_lost(struct analyze *a, uint64_t frames)
{
	a->evidence[FINDING_CAPTURE_LOST].count += frames;
}

const char *analyze_cm_name(uint32_t message)
{
	static const char *const names[CM_MESSAGE_COUNT] = {
#define X(attribute, name) [(attribute)-CM_ATTRIBUTE_FIRST] = name,
		CM_MESSAGES(X)
#undef X
	};

	return names[message];
}

/* Making one */

static uint32_t at_most(uint32_t value, uint32_t limit)
{
	return value < limit ? value : limit;
}

static int make_tables(struct analyze *a, uint32_t flows_max, uint64_t secret)
{
	const struct {
		struct table *table;
		uint32_t max;
		size_t entry_bytes, key_bytes;
	} rows[] = {
		{&a->flows, flows_max, sizeof(struct analyze_flow), sizeof(struct flow_key)},
		{&a->hosts, ANALYZE_HOSTS_MAX, sizeof(struct analyze_host), 32},
		{&a->macs, ANALYZE_HOSTS_MAX, sizeof(struct analyze_link_pair), 16},
		{&a->iwarp, ANALYZE_IWARP_MAX, sizeof(struct analyze_iwarp),
			sizeof(struct flow_key)},
		{&a->pausers, ANALYZE_PAUSERS_MAX, sizeof(struct pauser), 8},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int code = table_init(rows[i].table, at_most(rows[i].max, flows_max),
			rows[i].entry_bytes, rows[i].key_bytes, secret);

		if (code)
			return code;
	}
	return 0;
}

struct analyze *analyze_new(const struct analyze_config *config)
{
	uint32_t flows_max = config->flows_max ?: ANALYZE_FLOWS_MAX;
	struct analyze *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->pairs = pairs_new(
		at_most(ANALYZE_HANDSHAKES_MAX, flows_max), at_most(ANALYZE_PAIRS_MAX, flows_max));
	a->recent = calloc(ANALYZE_RECENT_REQUESTS, sizeof(*a->recent));
	a->policy = config->policy;
	a->ports = config->ports ? *config->ports : (struct wire_ports)WIRE_PORTS_DEFAULT;
	memcpy(a->iwarp_ports, config->iwarp_ports, sizeof(a->iwarp_ports));
	if (config->speed_bps)
		a->quantum_ps = QUANTUM_BITS * 1000000000000ull / config->speed_bps;
	if (!a->pairs || !a->recent || make_tables(a, flows_max, config->secret) ||
		series_init(&a->series, config->interval_ns, config->emit, config->emit_arg,
			flows_max)) {
		analyze_free(a);
		return NULL;
	}
	return a;
}

void analyze_free(struct analyze *a)
{
	if (!a)
		return;
	pairs_free(a->pairs);
	free(a->recent);
	table_free(&a->flows);
	table_free(&a->hosts);
	table_free(&a->macs);
	table_free(&a->iwarp);
	table_free(&a->pausers);
	series_free(&a->series);
	free(a);
}
