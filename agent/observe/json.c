// SPDX-License-Identifier: BSD-2-Clause
// The JSON documents of the commands that print state.
#include <arpa/inet.h>
#include <string.h>

#include "observe/snapshot.h"
#include "observe/warnings.h"

const char *snapshot_role_name(enum port_role role)
{
	static const char *const names[] = {"gateway", "host", "nic", "monitor"};

	return names[role];
}

const char *snapshot_xdp_name(enum xdp_mode mode)
{
	static const char *const names[] = {"none", "native", "generic"};

	return names[mode];
}

static json_t *class_json(const struct policy_class *cls)
{
	static const char *const kinds[] = {"lossless", "semi-lossless", "lossy"};
	json_t *doc =
		json_pack("{s:s, s:i, s:s, s:I}", "name", cls->name, "priority", cls->priority,
			"kind", kinds[cls->kind], "limit_bytes", (json_int_t)cls->limit_bytes);

	if (cls->ecn.present)
		json_object_set_new(doc, "ecn",
			json_pack("{s:I, s:I, s:f}", "kmin_bytes", (json_int_t)cls->ecn.kmin_bytes,
				"kmax_bytes", (json_int_t)cls->ecn.kmax_bytes, "pmax",
				cls->ecn.pmax));
	return doc;
}

static json_t *seconds_json(uint64_t ns, uint64_t since_ns, uint64_t now_ns)
{
	return json_real((ns + (since_ns && since_ns < now_ns ? now_ns - since_ns : 0)) / 1e9);
}

/* Priority flow control of one class at one port: the peer's pauses, then ours. */
static json_t *pfc_json(const struct snapshot *s, const struct snapshot_port *port, size_t c)
{
	const struct gate_counters *gate = &port->gates[c];
	uint8_t priority = s->classes[c].priority;

	return json_pack("{s:s, s:i, s:b, s:b, s:I, s:o, s:b, s:I, s:b, s:b, s:I, s:o}", "class",
		s->classes[c].name, "priority", priority, "obeyed", port->obeyed >> priority & 1,
		"paused", gate->paused_since_ns != 0, "xoff_received",
		(json_int_t)port->stats.xoff_received[priority], "paused_seconds",
		seconds_json(gate->paused_ns, gate->paused_since_ns, s->now_ns), "storm",
		port->stormed >> c & 1, "storms", (json_int_t)gate->storms, "sends",
		port->pausing >> c & 1, "pausing", gate->xoff_since_ns != 0, "xoff_sent",
		(json_int_t)port->stats.xoff_sent[priority], "pausing_seconds",
		seconds_json(gate->xoff_ns, gate->xoff_since_ns, s->now_ns));
}

static json_t *port_json(const struct snapshot *snapshot, const struct snapshot_port *port)
{
	json_t *occupancy = json_object(), *pfc = json_array();

	for (size_t c = 0; c < snapshot->classes_count; c++) {
		json_object_set_new(occupancy, snapshot->classes[c].name,
			json_integer(port->occupancy_bytes[c]));
		json_array_append_new(pfc, pfc_json(snapshot, port, c));
	}
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}",
		"name", port->name, "role", snapshot_role_name(port->role), "state",
		port->gone ? "gone" : "up", "xdp_mode", snapshot_xdp_name(port->xdp),
		"occupancy_bytes", occupancy, "qdiscs_found", (json_int_t)port->state.found,
		"ce_marked", (json_int_t)port->stats.ce_marked, "cnp_sent",
		(json_int_t)port->stats.cnp_sent, "cnp_received",
		(json_int_t)port->stats.cnp_received, "qp_classes",
		(json_int_t)port->qp_classes_taken, "qps_limited", (json_int_t)port->qps_limited,
		"dropped", (json_int_t)port->queue_drops, "pfc", pfc, "warnings",
		warnings_json(snapshot, port));
}

json_t *snapshot_status_json(const struct snapshot *snapshot)
{
	json_t *ports = json_array(), *classes = json_array();
	uint64_t limited = 0;

	for (size_t p = 0; p < snapshot->ports_count; p++) {
		json_array_append_new(ports, port_json(snapshot, &snapshot->ports[p]));
		limited += snapshot->ports[p].qps_limited;
	}
	for (size_t c = 0; c < snapshot->classes_count; c++)
		json_array_append_new(classes, class_json(&snapshot->classes[c]));
	return json_pack("{s:i, s:s, s:o, s:o, s:I, s:{s:s, s:I, s:s}}", "version", 1, "instance",
		snapshot->instance, "ports", ports, "classes", classes, "qps_limited",
		(json_int_t)limited, "policy", "path", snapshot->policy_path, "loaded_at",
		(json_int_t)snapshot->policy_loaded_at, "result", snapshot->policy_result);
}

static json_t *address_json(const __be32 addr[4])
{
	static const __u8 mapped[12] = {[10] = 0xff, [11] = 0xff};
	char text[INET6_ADDRSTRLEN];

	if (!memcmp(addr, mapped, sizeof(mapped)))
		inet_ntop(AF_INET, &addr[3], text, sizeof(text));
	else
		inet_ntop(AF_INET6, addr, text, sizeof(text));
	return json_string(text);
}

/* The names whose bits are set. */
static json_t *names_json(const char *const *names, size_t count, unsigned int bits)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		if (bits >> i & 1)
			json_array_append_new(list, json_string(names[i]));
	return list;
}

/* What tells a sick flow from a sound one. */
static json_t *health_json(const struct flow *flow)
{
	static const char *const codes[NAK_CODES] = {"psn_sequence", "invalid_request",
		"remote_access", "remote_operational", "invalid_rd_request"};
	static const char *const ecn[] = {"not_ect", "ect1", "ect0", "ce"};
	static const char *const operations[] = {
#define X(id, name) name,
		WIRE_OPERATIONS(X)
#undef X
	};
	json_t *naks = json_object();

	for (size_t i = 0; i < NAK_CODES; i++)
		json_object_set_new(naks, codes[i], json_integer(flow->naks[i]));
	return json_pack("{s:o, s:I, s:[i], s:i, s:o, s:o}", "naks", naks, "rnr",
		(json_int_t)flow->rnr, "dscp", flow->tos >> 2, "packet_bytes_max", flow->bytes_max,
		"ecn", names_json(ecn, sizeof(ecn) / sizeof(ecn[0]), flow->ecn_seen), "operations",
		names_json(operations, OPERATION_COUNT, flow->operations));
}

json_t *snapshot_flow_json(const struct snapshot_flow *f)
{
	static const char *const sources[] = {"unknown", "cm", "policy", "answers", "netlink"};
	json_t *doc = json_pack("{s:o, s:o, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "src",
		address_json(f->key.src), "dst", address_json(f->key.dst), "dst_qpn",
		(json_int_t)f->key.dst_qpn, "pair_source", sources[f->pair.source], "packets",
		(json_int_t)flow_packets(&f->flow), "bytes", (json_int_t)flow_bytes(&f->flow), "ce",
		(json_int_t)f->flow.ce, "cnp", (json_int_t)f->flow.cnp, "nak",
		(json_int_t)f->flow.nak, "retransmissions", (json_int_t)f->flow.retransmissions,
		"psn_gaps", (json_int_t)f->flow.psn_gaps);

	json_object_set_new(
		doc, "peer_qpn", f->pair.peer_qpn ? json_integer(f->pair.peer_qpn) : json_null());
	json_object_set_new(doc, "rate_bps", f->rate_bps ? json_integer(f->rate_bps) : json_null());
	json_object_set_new(doc, "class", f->cls ? json_string(f->cls->name) : json_null());
	json_object_update_new(doc, health_json(&f->flow));
	return doc;
}

/* Segments by the opcode of the FPDU that they begin with. */
static json_t *segments_json(const struct iwarp_way *way)
{
	static const char *const names[RDMAP_OPCODE_COUNT] = {
#define X(number, name, is_tagged) [number] = name,
		RDMAP_OPCODES(X)
#undef X
	};
	json_t *doc = json_object();

	for (size_t i = 0; i < RDMAP_OPCODE_COUNT; i++)
		if (way->opcodes[i])
			json_object_set_new(doc, names[i], json_integer(way->opcodes[i]));
	return doc;
}

json_t *snapshot_iwarp_json(const struct flow_key *key, const struct iwarp_way *way)
{
	return json_pack("{s:o, s:o, s:i, s:i, s:I, s:I, s:o}", "src", address_json(key->src),
		"dst", address_json(key->dst), "src_port", (int)(key->dst_qpn >> 16), "dst_port",
		(int)(key->dst_qpn & 0xffff), "packets", (json_int_t)way->packets, "bytes",
		(json_int_t)way->bytes, "segments", segments_json(way));
}
