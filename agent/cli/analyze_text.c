// SPDX-License-Identifier: BSD-2-Clause
// The summary of `quench analyze` that a person reads.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "analyze/iwarp.h"
#include "cli/analyze_report.h"

enum { FLOWS_SHOWN = 20, IWARP_SHOWN = 20, CNPS_SHOWN = 10, PAUSERS_SHOWN = 10 };

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void print_head(FILE *out, const struct analyze *a, const struct analyze_source *source)
{
	uint64_t time_ns = a->last_ns > a->first_ns ? a->last_ns - a->first_ns : 0;
	time_t start = a->first_ns / 1000000000;
	char text[64] = "";
	struct tm tm;

	if (a->frames && localtime_r(&start, &tm))
		strftime(text, sizeof(text), ", from %F %T", &tm);
	fprintf(out, "%s: %s, %" PRIu64 " frame%s, %" PRIu64 " bytes in %.6f s%s%s\n", source->name,
		source->link, a->frames, a->frames == 1 ? "" : "s", a->bytes, seconds(time_ns),
		text, source->complete ? "" : ", NOT READ TO ITS END");
}

/* "name count, name count": what there is of it. */
struct list {
	FILE *out;
	const char *title;
	bool begun;
};

static void list_add(struct list *list, const char *name, uint64_t count)
{
	if (!count)
		return;
	if (list->begun)
		fprintf(list->out, ", ");
	else
		fprintf(list->out, "%-8s", list->title);
	fprintf(list->out, "%s %" PRIu64, name, count);
	list->begun = true;
}

static void list_end(struct list *list)
{
	if (list->begun)
		fputc('\n', list->out);
}

static void print_counts(FILE *out, const struct analyze *a)
{
	struct list frames = {out, "frames", false}, icrc = {out, "ICRC", false};
	struct list cm = {out, "CM", false}, tunnels = {out, "tunnels", false};

	for (uint32_t kind = 0; kind < WIRE_KIND_COUNT; kind++)
		list_add(&frames, analyze_kind_name(kind), a->kinds[kind]);
	list_end(&frames);
	for (int tunnel = TUNNEL_NONE + 1; tunnel < TUNNEL_END; tunnel++)
		list_add(&tunnels, analyze_tunnel_name(tunnel), a->tunnels[tunnel]);
	list_end(&tunnels);
	list_add(&icrc, "ok", a->icrc[ICRC_OK]);
	list_add(&icrc, "BAD", a->icrc[ICRC_BAD]);
	list_add(&icrc, "unverifiable", a->icrc[ICRC_UNVERIFIABLE]);
	list_end(&icrc);
	for (uint32_t i = 0; i < CM_MESSAGE_COUNT; i++)
		list_add(&cm, analyze_cm_name(i), a->cm[i]);
	list_end(&cm);
}

static void print_operations(FILE *out, const struct analyze_flow *flow)
{
	const char *between = "";

	for (int i = 0; i < OPERATION_COUNT; i++) {
		if (!flow->operations[i])
			continue;
		fprintf(out, "%s%s %" PRIu64, between, operation_name(i), flow->operations[i]);
		between = ", ";
	}
}

static void print_peer(FILE *out, const struct analyze_flow *flow)
{
	if (flow->pair_source)
		fprintf(out, " 0x%06x %-4s", flow->peer_qpn,
			flow_pair_source_name(flow->pair_source));
	else
		fprintf(out, " %8s %-4s", "-", "-");
}

static void print_flow(FILE *out, const struct analyze_flow *flow)
{
	char src[ANALYZE_ADDRESS_BYTES], dst[ANALYZE_ADDRESS_BYTES];

	fprintf(out, "%-24s %-24s 0x%06x", analyze_address(flow->key.src, src),
		analyze_address(flow->key.dst, dst), flow->key.dst_qpn);
	print_peer(out, flow);
	fprintf(out,
		" %9" PRIu64 " %12" PRIu64 " %9.2f %7" PRIu64 " %7" PRIu64 " %5" PRIu64
		" %5u %5u  ",
		flow->packets, flow->bytes, (double)analyze_rate_bps(flow) / 1e6, flow->ce,
		flow->cnp, flow->nak, flow->noted[FINDING_RETRANSMISSION],
		flow->noted[FINDING_PSN_GAP]);
	print_operations(out, flow);
	fputc('\n', out);
}

static int print_flows(FILE *out, const struct analyze *a)
{
	size_t count;
	struct analyze_flow **flows = analyze_busiest(a, &count);

	if (!flows)
		return -ENOMEM;
	if (count)
		fprintf(out, "\n%-24s %-24s %8s %8s %-4s %9s %12s %9s %7s %7s %5s %5s %5s  %s\n",
			"from", "to", "QPN", "peer QPN", "pair", "packets", "bytes", "Mbit/s", "CE",
			"CNP", "NAK", "retx", "gaps", "operations");
	for (size_t i = 0; i < count && i < FLOWS_SHOWN; i++)
		print_flow(out, flows[i]);
	if (count > FLOWS_SHOWN)
		fprintf(out, "... and %zu more flows: --json has all\n", count - FLOWS_SHOWN);
	free(flows);
	return 0;
}

/* "request, markers, crc": what the start frame that came this way says. */
static const char *mpa_text(const struct analyze_iwarp *way, char *buf, size_t size)
{
	static const char *const frames[] = {
		[MPA_NONE] = "-", [MPA_REQUEST] = "request", [MPA_REPLY] = "reply"};
	uint16_t flags = way->start ? way->terms.flags : 0;

	snprintf(buf, size, "%s%s%s%s", frames[way->start], flags & MPA_MARKERS ? ",markers" : "",
		flags & MPA_CRC ? ",crc" : "", flags & MPA_REJECT ? ",reject" : "");
	return buf;
}

static void print_iwarp_way(FILE *out, const struct analyze_iwarp *way)
{
	char src[ANALYZE_ADDRESS_BYTES], dst[ANALYZE_ADDRESS_BYTES], mpa[32];
	const char *between = "";

	fprintf(out, "%-24s %-24s %5u %5u %9" PRIu64 " %12" PRIu64 " %-25s ",
		analyze_address(way->key.src, src), analyze_address(way->key.dst, dst),
		way->key.dst_qpn >> 16, way->key.dst_qpn & 0xffff, way->packets, way->bytes,
		mpa_text(way, mpa, sizeof(mpa)));
	for (uint32_t i = 0; i < RDMAP_OPCODE_COUNT; i++) {
		if (!way->opcodes[i])
			continue;
		fprintf(out, "%s%s %" PRIu64, between, iwarp_opcode_name(i), way->opcodes[i]);
		between = ", ";
	}
	fputc('\n', out);
}

static void print_iwarp(FILE *out, const struct analyze *a)
{
	uint32_t shown = 0;

	for (uint32_t i = 0; i < a->iwarp.count; i++) {
		const struct analyze_iwarp *way = table_at(&a->iwarp, i);

		if (!way->packets || shown++ >= IWARP_SHOWN)
			continue;
		if (shown == 1)
			fprintf(out, "\n%-24s %-24s %5s %5s %9s %12s %-25s %s\n", "iWARP from",
				"to", "port", "port", "packets", "bytes", "MPA start", "opcodes");
		print_iwarp_way(out, way);
	}
	if (shown > IWARP_SHOWN)
		fprintf(out, "... and %u more directions of iWARP connections: --json has all\n",
			shown - IWARP_SHOWN);
}

static void print_cnps(FILE *out, const struct analyze *a)
{
	char src[ANALYZE_ADDRESS_BYTES], dst[ANALYZE_ADDRESS_BYTES];
	uint32_t shown = 0;

	for (uint32_t i = 0; i < a->flows.count && shown < CNPS_SHOWN; i++) {
		const struct analyze_flow *flow = analyze_flow_at(a, i);

		if (!flow->cnp_carried)
			continue;
		if (!shown++)
			fprintf(out, "\n%-24s %-24s %8s %9s %16s\n", "CNPs from", "to", "QPN",
				"CNPs", "least interval");
		fprintf(out, "%-24s %-24s 0x%06x %9" PRIu64, analyze_address(flow->key.src, src),
			analyze_address(flow->key.dst, dst), flow->key.dst_qpn, flow->cnp_carried);
		if (flow->cnp_carried > 1)
			fprintf(out, " %13.1f us\n", (double)flow->cnp_interval_min_ns / 1e3);
		else
			fprintf(out, " %16s\n", "-");
	}
}

static void print_pause_row(FILE *out, const struct pauser *p, int i, bool speed_known)
{
	const struct pause_row *row = &p->row[i];
	char priority[8] = "link";

	if (i < PAUSE_PRIORITIES)
		snprintf(priority, sizeof(priority), "%d", i);
	fprintf(out, "%02x:%02x:%02x:%02x:%02x:%02x %11s %9" PRIu64 " %9" PRIu64 " %11.3f ms",
		p->mac[0], p->mac[1], p->mac[2], p->mac[3], p->mac[4], p->mac[5], priority,
		row->xoff, row->xon, seconds(row->longest_ns) * 1e3);
	if (speed_known)
		fprintf(out, " %11.3f ms", seconds(row->paused_ns) * 1e3);
	fputc('\n', out);
}

static void print_pauses(FILE *out, const struct analyze *a)
{
	if (a->pausers.count)
		fprintf(out, "\n%-17s %11s %9s %9s %14s%s\n", "pauses from", "priority", "XOFF",
			"XON", "longest", a->quantum_ps ? "         paused" : "");
	for (uint32_t i = 0; i < a->pausers.count && i < PAUSERS_SHOWN; i++) {
		const struct pauser *p = table_at(&a->pausers, i);

		for (int row = 0; row < PAUSE_ROWS; row++)
			if (p->row[row].xoff || p->row[row].xon)
				print_pause_row(out, p, row, a->quantum_ps);
	}
}

static void print_finding(FILE *out, const struct analyze *a, enum finding_id id)
{
	const struct evidence *e = &a->evidence[id];
	char text[ANALYZE_TEXT_BYTES];

	analyze_finding_text(a, id, text, sizeof(text));
	fprintf(out, "  %-8s %s: %s", severity_name(finding_severity(id)), finding_code(id), text);
	for (uint32_t i = 0; i < e->frames_count; i++)
		fprintf(out, "%s%" PRIu64,
			i		       ? ", "
			: e->frames_count == 1 ? "; frame "
					       : "; frames ",
			e->frames[i]);
	fprintf(out, "%s\n", e->count > FINDING_FRAMES_MAX && e->frames_count ? ", ..." : "");
}

static void print_findings(FILE *out, const struct analyze *a)
{
	bool any = false;

	for (int severity = 0; severity < SEVERITY_COUNT; severity++)
		for (int id = 0; id < FINDING_COUNT; id++) {
			if (!a->evidence[id].count || (int)finding_severity(id) != severity)
				continue;
			if (!any)
				fprintf(out, "\nfindings\n");
			any = true;
			print_finding(out, a, id);
		}
	if (!any)
		fprintf(out, "\nno findings\n");
}

int analyze_print(FILE *out, const struct analyze *a, const struct analyze_source *source)
{
	print_head(out, a, source);
	print_counts(out, a);
	if (print_flows(out, a))
		return -ENOMEM;
	print_iwarp(out, a);
	print_cnps(out, a);
	print_pauses(out, a);
	print_findings(out, a);
	return 0;
}
