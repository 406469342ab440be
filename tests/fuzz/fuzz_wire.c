// SPDX-License-Identifier: BSD-2-Clause
// Frames for the parser. The first byte says which tag was taken off before: 0 none, else one with
// the PCP of its lower three bits, as skb->vlan_tci has it. The rest is the frame.
#include "fuzz/fuzz.h"
#include "fuzz/wire_copied.h"
#include "quench/build.h"
#include "vectors/promises.h"

enum { ALIGN_BYTES = 2, MAD_READ_BYTES = 72, FRAME_BYTES_MAX = 0xffff };

static void frame_start(struct wire_frame *f, uint8_t tag)
{
	wire_frame_init(f);
	if (!tag)
		return;
	f->tags = 1;
	f->pcp = tag & 7;
}

/* A third tag that lies in the bytes is told from its own counter, not from the flow's. */
static const char *frame_breaks(struct wire_frame f, size_t len)
{
	if (f.kind == WIRE_TOO_MANY_TAGS && f.tags == WIRE_TAGS_MAX + 1)
		f.tags--;
	return broken_promise(&f, len);
}

/* What those do who rely on the promises: read the ICRC's bytes, and the CM message. */
static void use_frame(const uint8_t *frame, size_t len, const struct wire_frame *f)
{
	size_t mad = f->bth_off + BTH_BYTES + DETH_BYTES;
	struct wire_cm cm;

	if (has_bth(f) && f->icrc_off + (size_t)ICRC_BYTES <= len)
		wire_icrc(frame, f);
	if (f->kind == WIRE_CM && mad + MAD_READ_BYTES <= len && wire_read_cm(frame + mad, &cm))
		fuzz_expect(cm.qpn <= BTH_QPN_MASK && cm.psn <= BTH_PSN_MASK, "CM: 24 bits");
}

/* The parser for headers in a copy says the same of as much as it is given. */
static void compare_copied(const uint8_t *frame, size_t len, uint8_t tag)
{
	struct wire_frame plain, copied;

	len = len < COPIED_BYTES ? len : COPIED_BYTES;
	frame_start(&plain, tag);
	frame_start(&copied, tag);
	wire_parse(frame, frame + len, &plain);
	wire_parse_copied(frame, len, &copied);
	fuzz_expect(!memcmp(&plain, &copied, sizeof(plain)), "copied headers parse alike");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len = size ? size - 1 : 0;
	struct wire_frame f;
	const char *broken;
	uint8_t *room, *frame;

	if (!size || len > FRAME_BYTES_MAX)
		return -1;
	room = malloc(ALIGN_BYTES + len);
	if (!room)
		return -1;
	frame = room + ALIGN_BYTES;
	memcpy(frame, data + 1, len);
	frame_start(&f, data[0]);
	fuzz_expect(wire_parse(frame, frame + len, &f) == f.kind, "returns the kind");
	broken = frame_breaks(f, len);
	fuzz_expect(!broken, broken);
	use_frame(frame, len, &f);
	compare_copied(frame, len, data[0]);
	free(room);
	return 0;
}
