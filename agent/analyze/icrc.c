// SPDX-License-Identifier: BSD-2-Clause
// The invariant CRC: headers masked into a small buffer, the rest read where it lies.
#include "analyze/icrc.h"

#include <libdeflate.h>
#include <string.h>

#include "analyze/infiniband.h"
#include "quench/build.h"

enum { HEADER_CHUNK_BYTES = 64, BTH_RESV8A_OFFSET = 4 };

/* The CRC over the headers, from the IP header or GRH through the BTH, as the ICRC sees them. */
static uint32_t crc_headers(const uint8_t *frame, const struct wire_frame *f, uint32_t end)
{
	const enum wire_l3 l3 = (enum wire_l3)wire_roce_l3(f);
	const uint32_t start = wire_roce_l3_off(f);
	const uint32_t l4 = f->l4_off - start, bth = f->bth_off - start;
	uint8_t masked[HEADER_CHUNK_BYTES];
	uint32_t crc = ~ICRC_SEED, at = start;

	while (at < end) {
		uint32_t n = 0;

		for (; n < sizeof(masked) && at < end; n++, at++)
			masked[n] = wire_icrc_byte(l3, l4, bth, at - start, frame[at]);
		crc = libdeflate_crc32(crc, masked, n);
	}
	return crc;
}

/* The same over LRH and BTH: of the LRH only the virtual lane may change (IBTA vol. 1, 7.8.1). */
static uint32_t crc_local(const uint8_t *frame)
{
	enum { VIRTUAL_LANE = 0xf0 };
	uint8_t masked[LRH_BYTES + BTH_BYTES];

	memcpy(masked, frame, sizeof(masked));
	masked[0] |= VIRTUAL_LANE;
	masked[LRH_BYTES + BTH_RESV8A_OFFSET] = 0xff;
	return libdeflate_crc32(0, masked, sizeof(masked));
}

enum icrc_verdict icrc_judge(const struct analyze_frame *frame, const struct wire_frame *f)
{
	const uint32_t headers_end = f->bth_off + BTH_BYTES;
	const uint8_t *wire = frame->data + f->icrc_off;
	uint32_t crc, carried;

	if ((uint32_t)f->icrc_off + ICRC_BYTES > frame->len)
		return ICRC_UNVERIFIABLE;
	crc = f->l3 == L3_LRH ? crc_local(frame->data) : crc_headers(frame->data, f, headers_end);
	crc = libdeflate_crc32(crc, frame->data + headers_end, f->icrc_off - headers_end);
	carried = wire[0] | wire[1] << 8 | wire[2] << 16 | (uint32_t)wire[3] << 24;
	return crc == carried ? ICRC_OK : ICRC_BAD;
}
