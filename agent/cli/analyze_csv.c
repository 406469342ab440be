// SPDX-License-Identifier: BSD-2-Clause
// The CSV files of `quench analyze`: the time series, and a line a frame.
#include <inttypes.h>

#include "cli/analyze_report.h"

/* Seconds with all their nanoseconds: a double has not room for both. */
static void print_time(FILE *out, uint64_t time_ns)
{
	fprintf(out, "%" PRIu64 ".%09" PRIu64, time_ns / 1000000000, time_ns % 1000000000);
}

void analyze_csv_header(FILE *out)
{
	fputs("time_s,flow,src,dst,dst_qpn,packets,bytes,rate_bps,ce,cnp,xoff\n", out);
}

void analyze_csv_row(void *arg, const struct series_row *row)
{
	const struct flow_sample *s = &row->sample;
	char src[ANALYZE_ADDRESS_BYTES] = "", dst[ANALYZE_ADDRESS_BYTES] = "";
	FILE *out = arg;

	print_time(out, row->time_ns);
	if (row->record)
		fprintf(out, ",%u,%s,%s,%u", row->flow, analyze_address(row->record->key.src, src),
			analyze_address(row->record->key.dst, dst), row->record->key.dst_qpn);
	else
		fprintf(out, ",%u,,,", row->flow);
	fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%.0f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
		s->packets, s->bytes, (double)s->bytes * 8e9 / (double)row->interval_ns, s->ce,
		s->cnp, row->xoff);
}

void analyze_frames_header(FILE *out)
{
	fputs("frame,time_s,kind,src,dst,opcode,dst_qpn,psn,ecn,dscp,icrc,tunnel\n", out);
}

void analyze_frames_row(
	FILE *out, const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	static const char *const verdicts[ICRC_VERDICT_COUNT] = {
#define X(id, name) [ICRC_##id] = name,
		ICRC_VERDICTS(X)
#undef X
	};
	const struct wire_frame *f = &seen->wire;
	char src[ANALYZE_ADDRESS_BYTES], dst[ANALYZE_ADDRESS_BYTES];

	fprintf(out, "%" PRIu64 ",", frame->number);
	print_time(out, frame->time_ns);
	fprintf(out, ",%s", analyze_kind_name(f->kind));
	if (seen->icrc == ICRC_NONE)
		fputs(",,,,,,,", out);
	else
		fprintf(out, ",%s,%s,%u,%u,%u,%u,%u", analyze_address(f->key.src, src),
			analyze_address(f->key.dst, dst), f->opcode, f->key.dst_qpn, f->psn,
			wire_roce_tos(f) & ECN_MASK, wire_roce_tos(f) >> 2);
	fprintf(out, ",%s,%s\n", verdicts[seen->icrc],
		f->tunnel ? analyze_tunnel_name(f->tunnel) : "");
}
