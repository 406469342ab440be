// SPDX-License-Identifier: BSD-2-Clause
// The JSON document of `quench analyze`.
#include <stdlib.h>
#include <string.h>

#include "analyze/iwarp.h"
#include "cli/analyze_report.h"
#include "cli/report.h"

static void set_count(json_t *doc, const char *key, uint64_t count)
{
	json_object_set_new(doc, key, json_integer((json_int_t)count));
}

static int by_bytes(const void *a, const void *b)
{
	const struct analyze_flow *x = *(struct analyze_flow *const *)a;
	const struct analyze_flow *y = *(struct analyze_flow *const *)b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x < y ? -1 : x > y;
}

struct analyze_flow **analyze_busiest(const struct analyze *a, size_t *count)
{
	struct analyze_flow **flows = calloc(a->flows.count + 1, sizeof(*flows));

	*count = 0;
	if (!flows)
		return NULL;
	for (uint32_t i = 0; i < a->flows.count; i++)
		if (analyze_flow_at(a, i)->packets)
			flows[(*count)++] = analyze_flow_at(a, i);
	qsort(flows, *count, sizeof(*flows), by_bytes);
	return flows;
}

uint64_t analyze_rate_bps(const struct analyze_flow *flow)
{
	uint64_t time_ns = flow->last_ns > flow->first_ns ? flow->last_ns - flow->first_ns : 0;

	return time_ns ? (uint64_t)((double)flow->bytes * 8e9 / (double)time_ns) : 0;
}

static json_t *frames_json(const struct analyze *a)
{
	json_t *doc = json_object();

	set_count(doc, "total", a->frames);
	for (uint32_t kind = 0; kind < WIRE_KIND_COUNT; kind++)
		set_count(doc, analyze_kind_name(kind), a->kinds[kind]);
	return doc;
}

static json_t *icrc_json(const struct analyze *a)
{
	json_t *doc = json_object();

	set_count(doc, "checked", a->icrc[ICRC_OK] + a->icrc[ICRC_BAD]);
	set_count(doc, "ok", a->icrc[ICRC_OK]);
	set_count(doc, "bad", a->icrc[ICRC_BAD]);
	set_count(doc, "unverifiable", a->icrc[ICRC_UNVERIFIABLE]);
	return doc;
}

static json_t *capture_json(const struct analyze *a, const struct analyze_source *source)
{
	uint64_t time_ns = a->last_ns > a->first_ns ? a->last_ns - a->first_ns : 0;
	json_t *doc = json_object();

	json_object_set_new(doc, source->is_port ? "port" : "file", cli_text_json(source->name));
	json_object_set_new(doc, "link", json_string(source->link));
	json_object_set_new(doc, "complete", json_boolean(source->complete));
	json_object_set_new(doc, "speed_bps",
		source->speed_bps ? json_integer(source->speed_bps) : json_null());
	set_count(doc, "bytes", a->bytes);
	set_count(doc, "cut", a->cut);
	set_count(doc, "lost", a->evidence[FINDING_CAPTURE_LOST].count);
	set_count(doc, "start_ns", a->first_ns);
	json_object_set_new(doc, "duration_s", json_real((double)time_ns / 1e9));
	return doc;
}

static json_t *cm_json(const struct analyze *a)
{
	json_t *doc = json_object();

	for (uint32_t i = 0; i < CM_MESSAGE_COUNT; i++)
		set_count(doc, analyze_cm_name(i), a->cm[i]);
	return doc;
}

static json_t *tunnels_json(const struct analyze *a)
{
	json_t *doc = json_object();

	for (int tunnel = TUNNEL_NONE + 1; tunnel < TUNNEL_END; tunnel++)
		set_count(doc, analyze_tunnel_name(tunnel), a->tunnels[tunnel]);
	return doc;
}

static json_t *address_json(const __be32 addr[4])
{
	char text[ANALYZE_ADDRESS_BYTES];

	return json_string(analyze_address(addr, text));
}

/* Who it is about: the same keys in every list. */
static json_t *key_json(const struct flow_key *key)
{
	json_t *doc = json_object();

	json_object_set_new(doc, "src", address_json(key->src));
	json_object_set_new(doc, "dst", address_json(key->dst));
	set_count(doc, "dst_qpn", key->dst_qpn);
	return doc;
}

static const char *const ecn_names[] = {"not_ect", "ect1", "ect0", "ce"};

/* What was seen: `quench flows` has the same lists, and no counts. */
static json_t *ecn_json(const uint64_t frames[4])
{
	json_t *list = json_array();

	for (int i = 0; i < 4; i++)
		if (frames[i])
			json_array_append_new(list, json_string(ecn_names[i]));
	return list;
}

static json_t *ecn_frames_json(const uint64_t frames[4])
{
	json_t *doc = json_object();

	for (int i = 0; i < 4; i++)
		set_count(doc, ecn_names[i], frames[i]);
	return doc;
}

static json_t *flow_tunnels_json(const struct analyze_flow *flow)
{
	json_t *list = json_array();

	for (int tunnel = TUNNEL_NONE + 1; tunnel < TUNNEL_END; tunnel++)
		if (flow->tunnels >> tunnel & 1)
			json_array_append_new(list, json_string(analyze_tunnel_name(tunnel)));
	return list;
}

static json_t *dscps_json(const struct analyze_flow *flow)
{
	json_t *list = json_array();

	for (int i = 0; i < 64; i++)
		if (flow->dscps >> i & 1)
			json_array_append_new(list, json_integer(i));
	return list;
}

static json_t *operations_json(const struct analyze_flow *flow)
{
	json_t *list = json_array();

	for (int i = 0; i < OPERATION_COUNT; i++)
		if (flow->operations[i])
			json_array_append_new(list, json_string(operation_name(i)));
	return list;
}

static json_t *operation_frames_json(const struct analyze_flow *flow)
{
	json_t *doc = json_object();

	for (int i = 0; i < OPERATION_COUNT; i++)
		if (flow->operations[i])
			set_count(doc, operation_name(i), flow->operations[i]);
	return doc;
}

/* NAKs by what they say; the key is the finding's code without its "nak_". */
static json_t *naks_json(const struct analyze_flow *flow)
{
	static const enum finding_id ids[] = {
		FINDING_NAK_PSN_SEQUENCE,
		FINDING_NAK_INVALID_REQUEST,
		FINDING_NAK_REMOTE_ACCESS,
		FINDING_NAK_REMOTE_OPERATIONAL,
		FINDING_NAK_INVALID_RD_REQUEST,
		FINDING_NAK_RESERVED,
	};
	json_t *doc = json_object();

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		if (flow->noted[ids[i]])
			set_count(doc, finding_code(ids[i]) + strlen("nak_"), flow->noted[ids[i]]);
	return doc;
}

static json_t *number_or_null(uint64_t number)
{
	return number ? json_integer((json_int_t)number) : json_null();
}

static json_t *flow_json(const struct analyze_flow *flow)
{
	json_t *doc = key_json(&flow->key);

	json_object_set_new(doc, "peer_qpn", number_or_null(flow->peer_qpn));
	json_object_set_new(
		doc, "pair_source", json_string(flow_pair_source_name(flow->pair_source)));
	set_count(doc, "packets", flow->packets);
	set_count(doc, "bytes", flow->bytes);
	set_count(doc, "ce", flow->ce);
	set_count(doc, "cnp", flow->cnp);
	set_count(doc, "nak", flow->nak);
	json_object_set_new(doc, "naks", naks_json(flow));
	set_count(doc, "rnr", flow->noted[FINDING_RNR_NAK]);
	set_count(doc, "retransmissions", flow->noted[FINDING_RETRANSMISSION]);
	set_count(doc, "psn_gaps", flow->noted[FINDING_PSN_GAP]);
	set_count(doc, "psns_missing", flow->psns_missing);
	set_count(doc, "out_of_order", flow->noted[FINDING_OUT_OF_ORDER]);
	set_count(doc, "duplicates", flow->noted[FINDING_DUPLICATE]);
	json_object_set_new(doc, "rate_bps", number_or_null(analyze_rate_bps(flow)));
	json_object_set_new(doc, "path_mtu", number_or_null(flow->path_mtu_bytes));
	json_object_set_new(doc, "ecn", ecn_json(flow->data_ecn));
	json_object_set_new(doc, "ecn_frames", ecn_frames_json(flow->data_ecn));
	json_object_set_new(doc, "outer_ecn_frames",
		flow->tunnels ? ecn_frames_json(flow->outer_ecn) : json_null());
	json_object_set_new(doc, "tunnels", flow_tunnels_json(flow));
	json_object_set_new(doc, "dscp", dscps_json(flow));
	json_object_set_new(doc, "operations", operations_json(flow));
	json_object_set_new(doc, "operation_frames", operation_frames_json(flow));
	set_count(doc, "first_frame", flow->first_frame);
	return doc;
}

static json_t *flows_json(const struct analyze *a)
{
	json_t *list = json_array();
	size_t count;
	struct analyze_flow **flows = analyze_busiest(a, &count);

	for (size_t i = 0; flows && i < count; i++)
		json_array_append_new(list, flow_json(flows[i]));
	free(flows);
	return list;
}

/* What the start frame said that came this way; null when none did. */
static json_t *mpa_json(const struct analyze_iwarp *way)
{
	json_t *doc;

	if (way->start == MPA_NONE)
		return json_null();
	doc = json_object();
	json_object_set_new(
		doc, "frame", json_string(way->start == MPA_REQUEST ? "request" : "reply"));
	json_object_set_new(doc, "markers", json_boolean(way->terms.flags & MPA_MARKERS));
	json_object_set_new(doc, "crc", json_boolean(way->terms.flags & MPA_CRC));
	json_object_set_new(doc, "reject", json_boolean(way->terms.flags & MPA_REJECT));
	set_count(doc, "revision", way->terms.revision);
	return doc;
}

static json_t *opcodes_json(const struct analyze_iwarp *way)
{
	json_t *doc = json_object();

	for (uint32_t i = 0; i < RDMAP_OPCODE_COUNT; i++)
		if (way->opcodes[i])
			set_count(doc, iwarp_opcode_name(i), way->opcodes[i]);
	return doc;
}

static json_t *iwarp_json(const struct analyze *a)
{
	json_t *list = json_array(), *doc;

	for (uint32_t i = 0; i < a->iwarp.count; i++) {
		const struct analyze_iwarp *way = table_at(&a->iwarp, i);

		doc = json_object();
		json_object_set_new(doc, "src", address_json(way->key.src));
		json_object_set_new(doc, "dst", address_json(way->key.dst));
		set_count(doc, "src_port", way->key.dst_qpn >> 16);
		set_count(doc, "dst_port", way->key.dst_qpn & 0xffff);
		set_count(doc, "packets", way->packets);
		set_count(doc, "bytes", way->bytes);
		json_object_set_new(doc, "start", mpa_json(way));
		json_object_set_new(doc, "opcodes", opcodes_json(way));
		json_array_append_new(list, doc);
	}
	return list;
}

/* Who was told to slow down, by QP, whether or not its data was seen. */
static json_t *cnps_json(const struct analyze *a)
{
	json_t *list = json_array(), *doc;

	for (uint32_t i = 0; i < a->flows.count; i++) {
		const struct analyze_flow *flow = analyze_flow_at(a, i);

		if (!flow->cnp_carried)
			continue;
		doc = key_json(&flow->key);
		set_count(doc, "count", flow->cnp_carried);
		json_object_set_new(doc, "interval_min_ns",
			flow->cnp_carried > 1 ? json_integer((json_int_t)flow->cnp_interval_min_ns)
					      : json_null());
		json_array_append_new(list, doc);
	}
	return list;
}

static json_t *pause_row_json(const struct pause_row *row, bool speed_known)
{
	json_t *doc = json_object();

	set_count(doc, "xoff", row->xoff);
	set_count(doc, "xon", row->xon);
	set_count(doc, "longest_ns", row->longest_ns);
	json_object_set_new(doc, "paused_ns",
		speed_known ? json_integer((json_int_t)row->paused_ns) : json_null());
	return doc;
}

static json_t *pauser_json(const struct pauser *p, bool speed_known)
{
	json_t *doc = json_object(), *priorities = json_object();
	char text[18], key[2];

	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", p->mac[0], p->mac[1],
		p->mac[2], p->mac[3], p->mac[4], p->mac[5]);
	json_object_set_new(doc, "src", json_string(text));
	set_count(doc, "pfc", p->pfc_frames);
	set_count(doc, "pause", p->link_frames);
	for (int i = 0; i < PAUSE_PRIORITIES; i++) {
		if (!p->row[i].xoff && !p->row[i].xon)
			continue;
		snprintf(key, sizeof(key), "%d", i);
		json_object_set_new(priorities, key, pause_row_json(&p->row[i], speed_known));
	}
	json_object_set_new(doc, "priorities", priorities);
	if (p->link_frames)
		json_object_set_new(doc, "link", pause_row_json(&p->row[PAUSE_LINK], speed_known));
	return doc;
}

static json_t *pausers_json(const struct analyze *a)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < a->pausers.count; i++)
		json_array_append_new(list, pauser_json(table_at(&a->pausers, i), a->quantum_ps));
	return list;
}

static json_t *finding_json(const struct analyze *a, enum finding_id id)
{
	const struct evidence *e = &a->evidence[id];
	json_t *doc = json_object(), *frames = json_array();
	char text[ANALYZE_TEXT_BYTES];

	analyze_finding_text(a, id, text, sizeof(text));
	for (uint32_t i = 0; i < e->frames_count; i++)
		json_array_append_new(frames, json_integer((json_int_t)e->frames[i]));
	json_object_set_new(doc, "code", json_string(finding_code(id)));
	json_object_set_new(doc, "severity", json_string(severity_name(finding_severity(id))));
	json_object_set_new(doc, "text", json_string(text));
	set_count(doc, "count", e->count);
	json_object_set_new(doc, "frames", frames);
	return doc;
}

static json_t *findings_json(const struct analyze *a)
{
	json_t *list = json_array();

	for (int severity = 0; severity < SEVERITY_COUNT; severity++)
		for (int id = 0; id < FINDING_COUNT; id++)
			if (a->evidence[id].count && (int)finding_severity(id) == severity)
				json_array_append_new(list, finding_json(a, id));
	return list;
}

json_t *analyze_json(const struct analyze *a, const struct analyze_source *source)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "capture",
		capture_json(a, source), "frames", frames_json(a), "tunnels", tunnels_json(a),
		"icrc", icrc_json(a), "cm", cm_json(a), "iwarp", iwarp_json(a), "flows",
		flows_json(a), "cnps", cnps_json(a), "missed", (json_int_t)a->missed, "pause",
		pausers_json(a), "findings", findings_json(a));
}
