// SPDX-License-Identifier: BSD-2-Clause
// The Prometheus text: one row a metric, four line shapes.
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "observe/snapshot.h"

static const char *const kind_names[] = {
#define X(id, name) name,
	WIRE_KINDS(X)
#undef X
};

static const char *const suppressed_names[] = {
#define X(id, name) name,
	CNP_SUPPRESSED(X)
#undef X
};

static const char *const tunnel_names[] = {
#define X(id, name) name,
	WIRE_TUNNELS(X)
#undef X
};

static const char *const priority_names[] = {"0", "1", "2", "3", "4", "5", "6", "7"};

static const char *const ignored_names[] = {
#define X(id, name) name,
	PAUSE_IGNORED(X)
#undef X
};

static const char *const unsent_names[] = {
#define X(id, name) name,
	PAUSE_SUPPRESSED(X)
#undef X
};

static const char *const drop_names[] = {
#define X(id, name) name,
	PORT_DROPS(X)
#undef X
};

/* Counters of a port: `count` of them from offset on, told apart by a label when there are more. */
static const struct port_metric {
	const char *name, *help;
	size_t offset;
	size_t count;
	const char *label;
	const char *const *values;
} port_metrics[] = {
#define ONE(field) offsetof(struct port_stats, field), 1, NULL, NULL
#define MANY(field, label, names)                                                                  \
	offsetof(struct port_stats, field), sizeof(names) / sizeof(names[0]), label, names
	{"quench_frames_total", "Frames that arrived, by what they are.",
		MANY(frames, "kind", kind_names)},
	{"quench_roce_tunnelled_total", "RoCE frames that arrived in a tunnel, by its kind.",
		MANY(tunnels, "tunnel", tunnel_names)},
	{"quench_ce_inside_total", "RoCE frames in a tunnel that arrived with CE set inside.",
		ONE(ce_inside)},
	{"quench_trust_disagrees_total",
		"RoCE frames whose DSCP and VLAN priority mean different classes.",
		ONE(trust_disagrees)},
	{"quench_headers_far_total", "Frames whose headers did not lie in the linear part.",
		ONE(headers_far)},
	{"quench_ce_received_total", "RoCE frames that arrived with CE set.", ONE(ce_received)},
	{"quench_ce_marked_total", "Frames that quench marked CE on their way out.",
		ONE(ce_marked)},
	{"quench_cnp_sent_total", "CNPs that quench made and sent.", ONE(cnp_sent)},
	{"quench_cnp_received_total", "CNPs that arrived.", ONE(cnp_received)},
	{"quench_cnp_unknown_pair_total", "CNPs that arrived for a QP that is not known.",
		ONE(cnp_unknown_pair)},
	{"quench_cnp_suppressed_total", "CNPs that were due and not sent.",
		MANY(cnp_suppressed, "reason", suppressed_names)},
	{"quench_drops_total", "Frames that quench dropped itself.",
		MANY(drops, "reason", drop_names)},
	{"quench_depth_unknown_total", "Frames queued without knowing the depth.",
		ONE(depth_unknown)},
	{"quench_flows_full_total", "Frames of flows that the flow table had no room for.",
		ONE(flows_full)},
	{"quench_qp_moves_total", "Times that a QP's frames changed to another queue.",
		ONE(qp_moves)},
	{"quench_qp_unenforced_total", "Data frames of QPs that found no free QP class.",
		ONE(qp_unenforced)},
	{"quench_xoff_received_total",
		"PFC frames seen by XDP that asked for a pause, obeyed or not.",
		MANY(xoff_received, "priority", priority_names)},
	{"quench_xon_received_total", "PFC frames seen by XDP that ended a pause.",
		MANY(xon_received, "priority", priority_names)},
	{"quench_xoff_sent_total", "PFC frames sent that ask for a pause, or for more of it.",
		MANY(xoff_sent, "priority", priority_names)},
	{"quench_xon_sent_total", "PFC frames sent that end a pause.",
		MANY(xon_sent, "priority", priority_names)},
	{"quench_pfc_ignored_total", "PFC frames, or priorities in them, without effect.",
		MANY(pause_ignored, "reason", ignored_names)},
	{"quench_xoff_suppressed_total", "XOFFs that were due and not sent.",
		MANY(pause_suppressed, "reason", unsent_names)},
	{"quench_multicast_kept_out_total",
		"Broadcast and multicast frames kept out of lossless classes.", ONE(kept_out)},
	{"quench_ring_drops_total", "Events lost because the ring was full.", ONE(ring_drops)},
#undef ONE
#undef MANY
};

static void write_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label value may hold anything: backslash, quote and newline are escaped. */
static void write_label(FILE *out, const char *key, const char *value)
{
	fprintf(out, "%s=\"", key);
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			fputc('\\', out);
		if (*value == '\n')
			fputs("\\n", out);
		else
			fputc(*value, out);
	}
	fputc('"', out);
}

static void write_port_value(FILE *out, const char *name, const char *port, const char *label,
	const char *value, uint64_t n)
{
	fprintf(out, "%s{", name);
	write_label(out, "port", port);
	if (label) {
		fputc(',', out);
		write_label(out, label, value);
	}
	fprintf(out, "} %" PRIu64 "\n", n);
}

static void write_port_metric(
	const struct port_metric *metric, const struct snapshot *snapshot, FILE *out)
{
	write_head(out, metric->name, "counter", metric->help);
	for (size_t p = 0; p < snapshot->ports_count; p++) {
		const struct snapshot_port *port = &snapshot->ports[p];
		const __u64 *n = (const __u64 *)((const char *)&port->stats + metric->offset);

		for (size_t i = 0; i < metric->count; i++)
			write_port_value(out, metric->name, port->name, metric->label,
				metric->values ? metric->values[i] : NULL, n[i]);
	}
}

static uint32_t occupancy_now(const struct snapshot_port *port, size_t cls)
{
	return port->occupancy_bytes[cls];
}

static uint32_t occupancy_max(const struct snapshot_port *port, size_t cls)
{
	return port->state.depth_max_bytes[cls];
}

static uint32_t paused_max(const struct snapshot_port *port, size_t cls)
{
	return port->state.leaf_max_bytes[cls];
}

/* Bytes in queues, by port and class. */
static const struct {
	const char *name, *help, *side;
	uint32_t (*bytes)(const struct snapshot_port *port, size_t cls);
} occupancies[] = {
	{"quench_occupancy_bytes", "Bytes waiting in a class's queues.", "egress", occupancy_now},
	{"quench_occupancy_max_bytes", "The deepest that a frame has found a class's queues.",
		"egress", occupancy_max},
	{"quench_headroom_max_bytes",
		"The deepest that the queue of one ingress port was once its XOFF mark was passed.",
		"egress", paused_max},
};

static void write_occupancies(const struct snapshot *s, FILE *out)
{
	for (size_t i = 0; i < sizeof(occupancies) / sizeof(occupancies[0]); i++) {
		write_head(out, occupancies[i].name, "gauge", occupancies[i].help);
		for (size_t p = 0; p < s->ports_count; p++)
			for (size_t c = 0; c < s->classes_count; c++)
				fprintf(out, "%s{port=\"%s\",priority=\"%u\",side=\"%s\"} %u\n",
					occupancies[i].name, s->ports[p].name,
					s->classes[c].priority, occupancies[i].side,
					occupancies[i].bytes(&s->ports[p], c));
	}
}

/* What the NIC itself has seen, where its driver says so. */
static void write_nic_pauses(const struct snapshot *s, bool sent, FILE *out)
{
	const char *name = sent ? "quench_nic_xoff_sent_total" : "quench_nic_xoff_received_total";

	write_head(out, name, "counter",
		sent ? "PFC frames sent, as the NIC's driver counts them."
		     : "PFC frames received, as the NIC's driver counts them: those too that no "
		       "program sees.");
	for (size_t p = 0; p < s->ports_count; p++) {
		const struct nic_pauses *nic = &s->ports[p].nic_pauses;

		for (size_t i = 0; nic->known && i < NIC_PRIORITIES; i++)
			write_port_value(out, name, s->ports[p].name, "priority", priority_names[i],
				sent ? nic->sent[i] : nic->received[i]);
	}
}

/* ---- gates: a row for each port and class ---- */

/* Counters, in seconds where they are times. */
static const struct gate_metric {
	const char *name, *help;
	size_t offset;
	size_t since_offset; /* of when what is not counted yet began; 0: nothing is */
} gate_metrics[] = {
#define AT(field) offsetof(struct gate_counters, field)
	{"quench_pauses_total", "Times that a peer's pause closed the gate.", AT(pauses), 0},
	{"quench_paused_seconds_total",
		"How long the gate was closed, a pause that lasts included.", AT(paused_ns),
		AT(paused_since_ns)},
	{"quench_pausing_seconds_total", "How long the peer was asked to pause.", AT(xoff_ns),
		AT(xoff_since_ns)},
	{"quench_pause_escaped_bytes_total", "Bytes that left after the gate was closed.",
		AT(escaped_bytes), 0},
	{"quench_gate_kicks_lost_total", "Times that an opened gate did not run by itself.",
		AT(kicks_lost), 0},
	{"quench_pause_storms_total", "Pause storms that the watchdog found.", AT(storms), 0},
	{"quench_pause_restores_total", "Pause storms that ended.", AT(restores), 0},
#undef AT
};

/* Buckets double from unit_ns on; the last one has no bound. */
static const struct gate_histogram {
	const char *name, *help;
	size_t offset, sum_offset;
	uint64_t unit_ns;
} gate_histograms[] = {
#define AT(field) offsetof(struct gate_counters, field)
	{"quench_pause_seconds", "Pauses by their length.", AT(lengths), AT(paused_ns), 10000},
	{"quench_pause_reaction_seconds", "From a PFC frame's arrival to the closed gate.",
		AT(reactions), AT(reaction_ns), 1000},
#undef AT
};

static uint64_t gate_value(const struct gate_counters *gate, size_t offset)
{
	return *(const __u64 *)((const char *)gate + offset);
}

static void write_gate_labels(FILE *out, const char *name, const char *suffix,
	const struct snapshot_port *port, const struct policy_class *cls)
{
	fprintf(out, "%s%s{", name, suffix);
	write_label(out, "port", port->name);
	fprintf(out, ",priority=\"%u\"", cls->priority);
}

static void write_gate_metric(const struct gate_metric *metric, const struct snapshot *s, FILE *out)
{
	write_head(out, metric->name, "counter", metric->help);
	for (size_t p = 0; p < s->ports_count; p++)
		for (size_t c = 0; c < s->classes_count; c++) {
			const struct gate_counters *gate = &s->ports[p].gates[c];
			uint64_t n = gate_value(gate, metric->offset), since;

			write_gate_labels(out, metric->name, "", &s->ports[p], &s->classes[c]);
			since = metric->since_offset ? gate_value(gate, metric->since_offset) : 0;
			n += since && since < s->now_ns ? s->now_ns - since : 0;
			if (metric->since_offset)
				fprintf(out, "} %.9f\n", n / 1e9);
			else
				fprintf(out, "} %" PRIu64 "\n", n);
		}
}

static void write_gate_buckets(const struct gate_histogram *h, const struct snapshot_port *port,
	const struct policy_class *cls, const struct gate_counters *gate, FILE *out)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < PAUSE_BUCKETS; i++) {
		sum += gate_value(gate, h->offset + i * sizeof(__u64));
		write_gate_labels(out, h->name, "_bucket", port, cls);
		if (i + 1 < PAUSE_BUCKETS)
			fprintf(out, ",le=\"%.9g\"} %" PRIu64 "\n", (double)(h->unit_ns << i) / 1e9,
				sum);
		else
			fprintf(out, ",le=\"+Inf\"} %" PRIu64 "\n", sum);
	}
	write_gate_labels(out, h->name, "_sum", port, cls);
	fprintf(out, "} %.9f\n", gate_value(gate, h->sum_offset) / 1e9);
	write_gate_labels(out, h->name, "_count", port, cls);
	fprintf(out, "} %" PRIu64 "\n", sum);
}

static void write_gate_histogram(
	const struct gate_histogram *h, const struct snapshot *s, FILE *out)
{
	write_head(out, h->name, "histogram", h->help);
	for (size_t p = 0; p < s->ports_count; p++)
		for (size_t c = 0; c < s->classes_count; c++)
			write_gate_buckets(
				h, &s->ports[p], &s->classes[c], &s->ports[p].gates[c], out);
}

static void write_gates(const struct snapshot *s, FILE *out)
{
	for (size_t i = 0; i < sizeof(gate_metrics) / sizeof(gate_metrics[0]); i++)
		write_gate_metric(&gate_metrics[i], s, out);
	for (size_t i = 0; i < sizeof(gate_histograms) / sizeof(gate_histograms[0]); i++)
		write_gate_histogram(&gate_histograms[i], s, out);
}

/* One value a port. */
static const struct port_value {
	const char *name, *type, *help;
	size_t offset; /* of a uint64_t in struct snapshot_port */
} port_values[] = {
#define AT(field) offsetof(struct snapshot_port, field)
	{"quench_queue_drops_total", "counter",
		"Frames that our qdiscs dropped, class_limit included.", AT(queue_drops)},
	{"quench_qp_classes", "gauge", "QP classes that are taken.", AT(qp_classes_taken)},
	{"quench_qps_limited", "gauge", "QPs that DCQCN holds below line rate.", AT(qps_limited)},
	{"quench_tags_hidden", "gauge",
		"1: the NIC takes off VLAN tags that the policy goes by first.", AT(tags_hidden)},
	{"quench_xdp_native", "gauge",
		"1: the kernel reports our XDP program in native mode; 0: generic or none.",
		AT(xdp_native)},
#undef AT
};

static void write_port_value_row(
	const struct port_value *row, const struct snapshot *snapshot, FILE *out)
{
	write_head(out, row->name, row->type, row->help);
	for (size_t p = 0; p < snapshot->ports_count; p++) {
		const struct snapshot_port *port = &snapshot->ports[p];

		write_port_value(out, row->name, port->name, NULL, NULL,
			*(const uint64_t *)((const char *)port + row->offset));
	}
}

static void write_roce_classes(const struct snapshot *s, FILE *out)
{
	static const char name[] = "quench_roce_frames_total";

	write_head(out, name, "counter", "RoCE frames that arrived, by the policy's class.");
	for (size_t p = 0; p < s->ports_count; p++) {
		const struct snapshot_port *port = &s->ports[p];

		for (size_t c = 0; c < s->classes_count; c++)
			write_port_value(out, name, port->name, "class", s->classes[c].name,
				port->stats.roce_class[c]);
		write_port_value(out, name, port->name, "class", "(none)",
			port->stats.roce_class[CLASSES_MAX]);
	}
}

static void write_one(
	FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
	write_head(out, name, type, help);
	fprintf(out, "%s %" PRIu64 "\n", name, value);
}

void snapshot_write_metrics(const struct snapshot *snapshot, FILE *out)
{
	for (size_t i = 0; i < sizeof(port_metrics) / sizeof(port_metrics[0]); i++)
		write_port_metric(&port_metrics[i], snapshot, out);
	write_roce_classes(snapshot, out);
	write_occupancies(snapshot, out);
	write_gates(snapshot, out);
	write_nic_pauses(snapshot, false, out);
	write_nic_pauses(snapshot, true, out);
	for (size_t i = 0; i < sizeof(port_values) / sizeof(port_values[0]); i++)
		write_port_value_row(&port_values[i], snapshot, out);
	write_one(out, "quench_policy_last_reload_successful", "gauge",
		"1: the policy in force is what its file said when it was last read.",
		!strcmp(snapshot->policy_result, "ok"));
	write_one(out, "quench_policy_loaded_timestamp_seconds", "gauge",
		"When the policy in force was read.", snapshot->policy_loaded_at);
	write_one(out, "quench_pairs", "gauge", "QP pairs that are known.", snapshot->pairs);
	write_one(out, "quench_cnp_handled_total", "counter", "CNPs that changed a rate.",
		snapshot->counters.cnps_handled);
	write_one(out, "quench_cnp_unenforced_total", "counter",
		"CNPs for QPs that have no class of their own.",
		snapshot->counters.cnps_unenforced);
	write_one(out, "quench_cnp_too_soon_total", "counter",
		"CNPs ignored: closer to the QP's last than dcqcn.cnp_spacing.",
		snapshot->counters.cnps_too_soon);
	write_one(out, "quench_starts_total", "counter",
		"Agents that have worked with the counters shown here.", snapshot->counters.starts);
	write_one(out, "quench_netlink_ops_total", "counter", "Rate changes sent to the kernel.",
		snapshot->counters.rate_changes);
	write_one(out, "quench_netlink_errors_total", "counter",
		"Rate changes that the kernel refused.", snapshot->counters.netlink_errors);
}
