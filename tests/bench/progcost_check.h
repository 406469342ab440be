/* SPDX-License-Identifier: BSD-2-Clause */
/* What a call must leave behind: progcost gives no figure for frames that went another way. */
#ifndef PROGCOST_CHECK_H
#define PROGCOST_CHECK_H

#include "progcost_setup.h"

enum { RECORDS_READ = 1000 }; /* behind a walk over more flows than that */

struct seen {
	struct port_stats stats;
	struct flow record;
	__u64 verdicts; /* of the filter */
};

static __u64 filter_verdicts(const struct bench *b)
{
	int cpus = libbpf_num_possible_cpus(), cpu;
	struct {
		__u64 frames, bytes;
	} *each = calloc(cpus, sizeof(*each));
	__u64 sum = 0;

	if (!each || bpf_map_lookup_elem(map_fd(b, "xdp_stats_map"), &b->verdict, each))
		err(1, "xdp_stats_map");
	for (cpu = 0; cpu < cpus; cpu++)
		sum += each[cpu].frames;
	free(each);
	return sum;
}

/* The record of a flow, in the map that the bench names. */
static struct flow read_record(const struct bench *b, __u32 qpn)
{
	struct flow_key key = {0};
	struct qp record = {0}; /* begins with a flow; that of minimal begins as a flow does */

	flow_key_put(&key, b, qpn);
	if (bpf_map_lookup_elem(map_fd(b, b->map), &key, &record))
		errx(1, "%s: no record of QPN %#x", b->key, qpn);
	return record.flow;
}

static struct seen look(const struct bench *b)
{
	struct seen seen = {0};

	if (is_quench(b))
		seen.stats =
			stats_sum(bpf_object__find_map_by_name(objects[b->object], "port_stats"),
				SLOT_MEASURED);
	if (b->object == FILTER)
		seen.verdicts = filter_verdicts(b);
	if (b->map && !b->flows)
		seen.record = read_record(b, records[b->sample].dst_qpn);
	return seen;
}

/* Each of count counters has grown by so much a frame. */
static void check_growth(const struct bench *b, const char *what, const void *before,
	const void *after, const void *per_frame, size_t count, __u64 frames_run)
{
	const __u64 *old = before, *now = after, *add = per_frame;
	size_t i;

	for (i = 0; i < count; i++)
		if (now[i] - old[i] != add[i] * frames_run)
			errx(1, "%s: %s: counter %zu grew by %llu, not %llu", b->key, what, i,
				now[i] - old[i], add[i] * frames_run);
}

static void check_seen(const struct bench *b, const struct seen *before, const struct seen *after,
	__u64 frames_run)
{
	const struct frame *f = &frames[b->sample];
	const __u64 one = 1;
	struct flow record = b->record;

	record.bytes = record.packets * (f->icrc_off + ICRC_BYTES - f->l3_off);
	if (is_quench(b))
		check_growth(b, "port_stats", &before->stats, &after->stats, &b->stats,
			sizeof(b->stats) / sizeof(__u64), frames_run);
	check_growth(b, "flow", &before->record, &after->record, &record,
		offsetof(struct flow, last_ns) / sizeof(__u64), frames_run);
	if (b->object == FILTER)
		check_growth(b, "filter", &before->verdicts, &after->verdicts, &one, 1, frames_run);
}

/* Back the way that the walker came: every flow has had a packet a lap, in order. */
static void check_walked(const struct bench *b)
{
	__u32 step = walker->bss->walk.step, flow = b->walked.flow, i;
	__u32 lap = b->walked.lap + 1, left = b->walked.frames;
	struct flow record;
	__u64 packets;

	for (i = 0; i < b->flows && i < RECORDS_READ; i++) {
		flow = (flow + b->flows - step) % b->flows;
		if (!left--)
			lap--;
		record = read_record(b, records[b->sample].dst_qpn + flow);
		packets = b->elsewhere ? record.packets_elsewhere : record.packets;
		if (packets != lap || record.psn_gaps || record.retransmissions)
			errx(1, "%s: flow %u: %llu packets, not %u; %llu gaps, %llu steps back",
				b->key, flow, packets, lap, record.psn_gaps,
				record.retransmissions);
	}
}

static int count_event(void *count, void *data, size_t bytes)
{
	const struct event *event = data;

	(void)bytes;
	*(int *)count += event->type == EVENT_CNP;
	return 0;
}

/* Empty the ring, as the agent does. */
static void check_events(const struct bench *b, int want)
{
	struct ring_buffer *ring;
	int count = 0;

	if (!is_quench(b))
		return;
	ring = ring_buffer__new(map_fd(b, "events"), count_event, &count, NULL);
	if (!ring)
		err(1, "events");
	ring_buffer__consume(ring);
	ring_buffer__free(ring);
	if (count != want)
		errx(1, "%s: %d events, not %d", b->key, count, want);
}

#endif
