/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The operations of the base transport header: which are defined, which extended headers follow,
 * which are answers. Layouts: IBTA vol. 1 table 35 and chapter 9, annexes 14 (XRC) and 19.
 */
#ifndef QUENCH_WIRE_OPCODE_H
#define QUENCH_WIRE_OPCODE_H

#include <linux/types.h>

/* Transport in the upper three bits, operation in the lower five. */
enum {
	OP_RC = 0x00,
	OP_UC = 0x20,
	OP_RD = 0x40,
	OP_UD = 0x60,
	OP_XRC = 0xa0,
	OP_TRANSPORT_MASK = 0xe0,

	OP_RC_SEND_FIRST = 0x00,
	OP_RC_SEND_ONLY = 0x04,
	OP_RC_WRITE_FIRST = 0x06,
	OP_RC_WRITE_MIDDLE = 0x07,
	OP_RC_WRITE_LAST = 0x08,
	OP_RC_WRITE_ONLY = 0x0a,
	OP_RC_READ_REQUEST = 0x0c,
	OP_RC_READ_RESPONSE_FIRST = 0x0d,
	OP_RC_READ_RESPONSE_MIDDLE = 0x0e,
	OP_RC_READ_RESPONSE_LAST = 0x0f,
	OP_RC_READ_RESPONSE_ONLY = 0x10,
	OP_RC_ACK = 0x11,
	OP_RC_ATOMIC_ACK = 0x12,
	OP_UD_SEND_ONLY = 0x64,
	OP_CNP = 0x81,
};

/* What an operation is, and the extended headers behind its BTH, in the order in which they come.
 */
enum wire_opcode_flags {
	OPF_KNOWN = 1 << 0,
	OPF_RESPONSE = 1 << 1, /* answers a request: its PSN is the requester's */
	OPF_ACK = 1 << 2,      /* carries no data */

	OPF_RDETH = 1 << 3,
	OPF_DETH = 1 << 4,
	OPF_XRCETH = 1 << 5,
	OPF_FETH = 1 << 6,
	OPF_RETH = 1 << 7,
	OPF_ATOMICETH = 1 << 8,
	OPF_AETH = 1 << 9,
	OPF_ATOMICACKETH = 1 << 10,
	OPF_IMMDT = 1 << 11,
	OPF_IETH = 1 << 12,
};

enum {
	AETH_BYTES = 4,
	RETH_BYTES = 16,
	DETH_BYTES = 8,
	RDETH_BYTES = 4,
};

/* What a frame does for its user: the bits of flow.operations. The names are those of the JSON key.
 */
#define WIRE_OPERATIONS(X)                                                                         \
	X(SEND, "send")                                                                            \
	X(WRITE, "write")                                                                          \
	X(READ_REQUEST, "read_request")                                                            \
	X(READ_RESPONSE, "read_response")                                                          \
	X(ACK, "ack")                                                                              \
	X(ATOMIC, "atomic")                                                                        \
	X(OTHER, "other")

enum wire_operation {
#define X(id, name) OPERATION_##id,
	WIRE_OPERATIONS(X)
#undef X
		OPERATION_COUNT
};

struct wire_opcode {
	__u16 flags;	/* enum wire_opcode_flags; 0: not defined */
	__u8 ext_bytes; /* of all extended headers */
	__u8 operation; /* 1 << enum wire_operation */
};

#define OP_EXT_BYTES(x)                                                                            \
	((((x)&OPF_RDETH) ? RDETH_BYTES : 0) + (((x)&OPF_DETH) ? DETH_BYTES : 0) +                 \
		(((x)&OPF_XRCETH) ? 4 : 0) + (((x)&OPF_FETH) ? 4 : 0) +                            \
		(((x)&OPF_RETH) ? RETH_BYTES : 0) + (((x)&OPF_ATOMICETH) ? 28 : 0) +               \
		(((x)&OPF_AETH) ? AETH_BYTES : 0) + (((x)&OPF_ATOMICACKETH) ? 8 : 0) +             \
		(((x)&OPF_IMMDT) ? 4 : 0) + (((x)&OPF_IETH) ? 4 : 0))

#define OP_ROW(does, x)                                                                            \
	{                                                                                          \
		.flags = OPF_KNOWN | (x), .ext_bytes = OP_EXT_BYTES(x),                            \
		.operation = 1 << OPERATION_##does                                                 \
	}

/* clang-format off */
/* SEND and RDMA WRITE of transport t, whose requests start with the headers q. */
#define OP_ROWS_WRITE(t, q)                                                                        \
	[(t) + 0x00 ... (t) + 0x02] = OP_ROW(SEND, q),		  /* first, middle, last */        \
	[(t) + 0x03] = OP_ROW(SEND, (q) | OPF_IMMDT),		  /* last with immediate */        \
	[(t) + 0x04] = OP_ROW(SEND, q),				  /* only */                       \
	[(t) + 0x05] = OP_ROW(SEND, (q) | OPF_IMMDT),                                              \
	[(t) + 0x06] = OP_ROW(WRITE, (q) | OPF_RETH),		  /* first */                      \
	[(t) + 0x07 ... (t) + 0x08] = OP_ROW(WRITE, q),		  /* middle, last */               \
	[(t) + 0x09] = OP_ROW(WRITE, (q) | OPF_IMMDT),                                             \
	[(t) + 0x0a] = OP_ROW(WRITE, (q) | OPF_RETH),		  /* only */                       \
	[(t) + 0x0b] = OP_ROW(WRITE, (q) | OPF_RETH | OPF_IMMDT)

/* RDMA READ, ACK and atomics; responses start with the headers p. */
#define OP_ROWS_READ(t, q, p)                                                                      \
	[(t) + 0x0c] = OP_ROW(READ_REQUEST, (q) | OPF_RETH),                                       \
	[(t) + 0x0d] = OP_ROW(READ_RESPONSE, (p) | OPF_AETH | OPF_RESPONSE), /* first */           \
	[(t) + 0x0e] = OP_ROW(READ_RESPONSE, (p) | OPF_RESPONSE), /* middle */                     \
	[(t) + 0x0f ... (t) + 0x10] =				  /* last, only */                 \
		OP_ROW(READ_RESPONSE, (p) | OPF_AETH | OPF_RESPONSE),                              \
	[(t) + 0x11] = OP_ROW(ACK, (p) | OPF_AETH | OPF_RESPONSE | OPF_ACK),                       \
	[(t) + 0x12] =						  /* answers an atomic */          \
		OP_ROW(ACK, (p) | OPF_AETH | OPF_ATOMICACKETH | OPF_RESPONSE | OPF_ACK),           \
	[(t) + 0x13 ... (t) + 0x14] = OP_ROW(ATOMIC, (q) | OPF_ATOMICETH)

#define OP_ROWS_INVALIDATE(t, q)                                                                   \
	[(t) + 0x16 ... (t) + 0x17] = OP_ROW(SEND, (q) | OPF_IETH) /* last, only */

#define WIRE_OPCODES                                                                               \
	{                                                                                          \
		OP_ROWS_WRITE(OP_RC, 0), OP_ROWS_READ(OP_RC, 0, 0), OP_ROWS_INVALIDATE(OP_RC, 0),  \
		[OP_RC + 0x1c] = OP_ROW(OTHER, OPF_FETH | OPF_RETH), /* FLUSH */                   \
		[OP_RC + 0x1d] = OP_ROW(WRITE, OPF_RETH),	     /* ATOMIC WRITE */            \
		OP_ROWS_WRITE(OP_UC, 0),                                                           \
		OP_ROWS_WRITE(OP_RD, OPF_RDETH | OPF_DETH),                                        \
		OP_ROWS_READ(OP_RD, OPF_RDETH | OPF_DETH, OPF_RDETH),                              \
		[OP_RD + 0x15] = OP_ROW(OTHER, OPF_RDETH | OPF_DETH), /* RESYNC */                 \
		[OP_RD + 0x1c] = OP_ROW(OTHER, OPF_RDETH | OPF_DETH),                              \
		[OP_UD + 0x04] = OP_ROW(SEND, OPF_DETH),	      /* only */                   \
		[OP_UD + 0x05] = OP_ROW(SEND, OPF_DETH | OPF_IMMDT),                               \
		[OP_CNP] = OP_ROW(OTHER, 0),                                                       \
		OP_ROWS_WRITE(OP_XRC, OPF_XRCETH), OP_ROWS_READ(OP_XRC, OPF_XRCETH, 0),            \
		OP_ROWS_INVALIDATE(OP_XRC, OPF_XRCETH),                                            \
	}
/* clang-format on */

/* AETH syndrome: bits 6-5 say ACK, RNR NAK or NAK; the lower five which. */
enum {
	AETH_TYPE_MASK = 0xe0,
	AETH_CODE_MASK = 0x1f,
	AETH_ACK = 0x00,
	AETH_RNR_NAK = 0x20,
	AETH_NAK = 0x60,
	AETH_NAK_PSN_SEQUENCE = 0x60,
	AETH_NAK_INVALID_REQUEST = 0x61,
	AETH_NAK_REMOTE_ACCESS = 0x62,
	AETH_NAK_REMOTE_OPERATIONAL = 0x63,
	AETH_NAK_INVALID_RD_REQUEST = 0x64,
	AETH_CREDIT_NONE = 0x1f, /* no end-to-end credits */
};

#endif
