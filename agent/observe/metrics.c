// SPDX-License-Identifier: BSD-2-Clause
// The Prometheus text: one row a metric, four line shapes.
#include <inttypes.h>
#include <stddef.h>

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

static void write_occupancy(const struct snapshot *snapshot, bool max, FILE *out)
{
	const char *name = max ? "quench_occupancy_max_bytes" : "quench_occupancy_bytes";

	write_head(out, name, "gauge",
		max ? "The deepest that a frame has found a class's queues."
		    : "Bytes waiting in a class's queues.");
	for (size_t p = 0; p < snapshot->ports_count; p++) {
		const struct snapshot_port *port = &snapshot->ports[p];

		for (size_t c = 0; c < snapshot->classes_count; c++)
			fprintf(out, "%s{port=\"%s\",priority=\"%u\",side=\"egress\"} %u\n", name,
				port->name, snapshot->classes[c].priority,
				max ? port->state.depth_max_bytes[c] : port->occupancy_bytes[c]);
	}
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
	write_occupancy(snapshot, false, out);
	write_occupancy(snapshot, true, out);
	for (size_t i = 0; i < sizeof(port_values) / sizeof(port_values[0]); i++)
		write_port_value_row(&port_values[i], snapshot, out);
	write_one(out, "quench_pairs", "gauge", "QP pairs that are known.", snapshot->pairs);
	write_one(out, "quench_cnp_handled_total", "counter", "CNPs that changed a rate.",
		snapshot->counters.cnps_handled);
	write_one(out, "quench_cnp_unenforced_total", "counter",
		"CNPs for QPs that have no class of their own.",
		snapshot->counters.cnps_unenforced);
	write_one(out, "quench_starts_total", "counter",
		"Agents that have worked with the counters shown here.", snapshot->counters.starts);
	write_one(out, "quench_netlink_ops_total", "counter", "Rate changes sent to the kernel.",
		snapshot->counters.rate_changes);
	write_one(out, "quench_netlink_errors_total", "counter",
		"Rate changes that the kernel refused.", snapshot->counters.netlink_errors);
}
