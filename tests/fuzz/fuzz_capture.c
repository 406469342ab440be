// SPDX-License-Identifier: BSD-2-Clause
// A capture file for the reader and the analysis; each frame once as it is, once with a right ICRC.
#include "fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "analyze/analyze.h"
#include "capture/capture.h"
#include "quench/build.h"

enum { FLOWS = 64, COPY_BYTES = 4096, SPARE_BYTES = 4, ALIGN_BYTES = 2, IWARP_PORT = 3260 };

static void check_row(void *arg, const struct series_row *row)
{
	uint64_t *rows = arg;

	fuzz_expect(row->time_ns % row->interval_ns == 0, "a row begins an interval");
	fuzz_expect(row->sample.packets >= row->sample.ce, "CE frames are frames");
	++*rows;
}

static volatile uint8_t byte;

static void check_frame(const struct analyze_frame *frame)
{
	fuzz_expect(frame->link < FRAME_LINK_COUNT, "link");
	fuzz_expect(frame->len <= frame->wire_len, "what was captured was on the wire");
	for (uint32_t i = 0; i < frame->len; i++) /* the bytes are there */
		byte = frame->data[i];
}

static void check_analysis(const struct analyze *a, uint64_t frames)
{
	char text[ANALYZE_TEXT_BYTES];
	uint64_t kinds = 0, icrcs = 0;

	for (int i = 0; i < WIRE_KIND_COUNT; i++)
		kinds += a->kinds[i];
	for (int i = 0; i < ICRC_VERDICT_COUNT; i++)
		icrcs += a->icrc[i];
	fuzz_expect(a->frames == frames && kinds == frames && icrcs == frames, "counts add up");
	fuzz_expect(a->flows.count <= FLOWS && a->hosts.count <= FLOWS && a->iwarp.count <= FLOWS,
		"tables are bounded");
	for (int i = 0; i < FINDING_COUNT; i++) {
		analyze_finding_text(a, i, text, sizeof(text));
		fuzz_expect(!text[0] == !a->evidence[i].count, "a finding has a text");
	}
}

/* The same frame with a right ICRC, where it has one: what is behind that check is reached too. */
static void take_mended(
	struct analyze *a, const struct analyze_frame *frame, const struct analyze_seen *was)
{
	static _Alignas(4) uint8_t room[COPY_BYTES + SPARE_BYTES];
	uint8_t *copy = room + (frame->link == FRAME_ETHERNET ? ALIGN_BYTES : 0);
	const struct wire_frame *f = &was->wire;
	struct analyze_frame mended = *frame;
	struct analyze_seen seen;
	uint32_t icrc;

	if (frame->len > COPY_BYTES)
		return;
	mended.data = memcpy(copy, frame->data, frame->len);
	if (was->icrc == ICRC_BAD && f->l3 != L3_LRH) {
		icrc = wire_icrc(copy, f);
		for (int i = 0; i < ICRC_BYTES; i++)
			copy[f->icrc_off + i] = icrc >> 8 * i;
	}
	analyze_take(a, &mended, &seen);
}

static uint64_t take_all(struct analyze *a, struct capture *capture)
{
	struct analyze_frame frame;
	struct analyze_seen seen;
	struct qerr err = {};
	enum capture_step step;

	while ((step = capture_next(capture, &frame, &err)) == CAPTURE_FRAME) {
		check_frame(&frame);
		analyze_take(a, &frame, &seen);
		take_mended(a, &frame, &seen);
	}
	fuzz_expect((step == CAPTURE_FAILED) == !!err.text[0], "a failure is told, and only that");
	return a->frames;
}

static void analyze_descriptor(int fd, struct analyze *a)
{
	struct capture *capture;
	struct qerr err = {};
	uint64_t frames;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (capture_open_file(path, &capture, &err)) {
		fuzz_expect(!!err.text[0], "a refusal says why");
		return;
	}
	frames = take_all(a, capture);
	capture_close(capture);
	analyze_finish(a);
	check_analysis(a, frames);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t rows = 0;
	const struct analyze_config config = {.secret = 1,
		.flows_max = FLOWS,
		.interval_ns = 1000000,
		.emit = check_row,
		.emit_arg = &rows,
		.iwarp_ports = {IWARP_PORT}};
	struct analyze *a = analyze_new(&config);
	int fd = memfd_create("capture", MFD_CLOEXEC);

	fuzz_expect(a && fd >= 0, "memory");
	fuzz_expect(write(fd, data, size) == (ssize_t)size, "room");
	analyze_descriptor(fd, a);
	close(fd);
	analyze_free(a);
	return 0;
}
