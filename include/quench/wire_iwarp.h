/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * iWARP in the payload of a TCP segment: what MPA's start frames agree on (RFC 5044, 6581), and the
 * FPDUs after them, with the headers of DDP and RDMAP (RFC 5041, 5040, 7306).
 */
#ifndef QUENCH_WIRE_IWARP_H
#define QUENCH_WIRE_IWARP_H

#include "quench/wire.h"

/* RDMAP's opcodes, and whether DDP tags their buffers. The names are those of the JSON keys. */
#define RDMAP_OPCODES(X)                                                                           \
	X(0, "write", true)                                                                        \
	X(1, "read_request", false)                                                                \
	X(2, "read_response", true)                                                                \
	X(3, "send", false)                                                                        \
	X(4, "send_invalidate", false)                                                             \
	X(5, "send_solicited", false)                                                              \
	X(6, "send_solicited_invalidate", false)                                                   \
	X(7, "terminate", false)                                                                   \
	X(8, "immediate", false)                                                                   \
	X(9, "immediate_solicited", false)                                                         \
	X(10, "atomic_request", false)                                                             \
	X(11, "atomic_response", false)

enum {
	RDMAP_OPCODE_COUNT = 12,

	MPA_START_BYTES = 20, /* before the private data */
	MPA_MARKERS = 0x8000, /* the sender of the start frame wants to receive them */
	MPA_CRC = 0x4000,
	MPA_REJECT = 0x2000,
	MPA_MARKER_BYTES = 4,
	MPA_MARKER_INTERVAL_BYTES = 512, /* of the TCP stream, markers counted */

	FPDU_LENGTH_BYTES = 2,
	FPDU_CRC_BYTES = 4,
	FPDU_ALIGN_BYTES = 4,
	DDP_TAGGED = 0x8000,
	DDP_LAST = 0x4000,
	DDP_RDMAP_FIXED = 0x3ff0, /* both versions and all that is reserved */
	DDP_RDMAP_VERSIONS = 0x0140,
	RDMAP_OPCODE_MASK = 0x000f,
	DDP_TAGGED_BYTES = 14, /* DDP's header, in which RDMAP's is one byte */
	DDP_UNTAGGED_BYTES = 18,
};

/* What a start frame says, behind its key. */
struct wire_mpa_terms {
	__u16 flags; /* MPA_MARKERS, MPA_CRC, MPA_REJECT */
	__u8 revision;
	__u8 zero;
	__u16 private_bytes;
};

struct wire_fpdu {
	__u32 bytes;	   /* from its length to its CRC, without the markers within */
	__u16 ulpdu_bytes; /* DDP's header and the payload */
	__u8 opcode;	   /* RDMAP's, below RDMAP_OPCODE_COUNT */
	bool tagged, last;
};

WIRE_INLINE __u16 wire_be16_at(const __u8 *p)
{
	return p[0] << 8 | p[1];
}

/* Read a start frame, of which the first bytes are there; false when it is none or cut too short.
 */
WIRE_INLINE bool wire_read_mpa_terms(const __u8 *payload, __u32 bytes, struct wire_mpa_terms *out)
{
	if (bytes < MPA_START_BYTES || wire_mpa_start(payload) == MPA_NONE)
		return false;
	*out = (struct wire_mpa_terms){
		.flags = wire_be16_at(payload + MPA_KEY_BYTES) & ~0xff,
		.revision = payload[MPA_KEY_BYTES + 1],
		.private_bytes = wire_be16_at(payload + MPA_KEY_BYTES + 2),
	};
	return true;
}

/* Read requests and the like travel in untagged buffers, writes and read responses in tagged ones.
 */
WIRE_INLINE bool wire_rdmap_is_tagged(__u8 opcode)
{
	static const bool tagged[RDMAP_OPCODE_COUNT] = {
#define X(number, name, is_tagged) [number] = is_tagged,
		RDMAP_OPCODES(X)
#undef X
	};

	return opcode < RDMAP_OPCODE_COUNT && tagged[opcode];
}

/*
 * Read the FPDU that starts at payload, of which bytes are there: its length and DDP's first two
 * bytes are enough, for it may go on in the next segment. False, and *out as it was, when none
 * starts there: a reserved bit is set, a version or the opcode is unknown, the opcode contradicts
 * the tagged bit, or the length leaves no room for DDP's header. Of random bytes, one in some 2,700
 * passes for a start.
 */
WIRE_INLINE bool wire_read_fpdu(const __u8 *payload, __u32 bytes, struct wire_fpdu *out)
{
	__u16 length, control;
	__u8 opcode;
	bool tagged;

	if (bytes < FPDU_LENGTH_BYTES + 2)
		return false;
	length = wire_be16_at(payload);
	control = wire_be16_at(payload + FPDU_LENGTH_BYTES);
	opcode = control & RDMAP_OPCODE_MASK;
	tagged = control & DDP_TAGGED;
	if ((control & DDP_RDMAP_FIXED) != DDP_RDMAP_VERSIONS || opcode >= RDMAP_OPCODE_COUNT ||
		tagged != wire_rdmap_is_tagged(opcode) ||
		length < (tagged ? DDP_TAGGED_BYTES : DDP_UNTAGGED_BYTES))
		return false;
	*out = (struct wire_fpdu){
		.bytes = ((FPDU_LENGTH_BYTES + length + FPDU_ALIGN_BYTES - 1) &
				 ~(FPDU_ALIGN_BYTES - 1)) +
			 FPDU_CRC_BYTES,
		.ulpdu_bytes = length,
		.opcode = opcode,
		.tagged = tagged,
		.last = control & DDP_LAST,
	};
	return true;
}

#endif
