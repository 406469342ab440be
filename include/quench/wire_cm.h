/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Connection management messages on QP 1. Offsets: IBTA vol. 1, 12.6. */
#ifndef QUENCH_WIRE_CM_H
#define QUENCH_WIRE_CM_H

#include "quench/wire.h"

/* Attribute IDs. */
enum {
	CM_REQ = 0x10,
	CM_MRA = 0x11,
	CM_REJ = 0x12,
	CM_REP = 0x13,
	CM_RTU = 0x14,
	CM_DREQ = 0x15,
	CM_DREP = 0x16,
	CM_LAP = 0x19,
};
enum { MAD_CLASS_CM = 0x07, MAD_ATTRIBUTE_OFFSET = 16, MAD_HEADER_BYTES = 24 };

/* What the pair learner needs of a CM message. IDs are opaque 32-bit names of one host. */
struct wire_cm {
	__u16 attribute; /* CM_* */
	__u16 reason;	 /* REJ */
	__u32 local_id;	 /* the sender's communication ID */
	__u32 remote_id; /* the receiver's; 0 in a REQ */
	__u32 qpn;	 /* REQ, REP: the sender's QPN; DREQ, LAP: the receiver's; others: 0 */
	__u32 psn;	 /* REQ, REP: starting PSN of the sender */
};

/*
 * Read the CM message whose MAD starts at mad (72 bytes of it are read). Returns false when it is
 * not a CM message that says something about a connection.
 */
WIRE_INLINE bool wire_read_cm(const __u8 *mad, struct wire_cm *cm)
{
	const __u8 *m = mad + MAD_HEADER_BYTES;

	__builtin_memset(cm, 0, sizeof(*cm));
	if (mad[1] != MAD_CLASS_CM)
		return false;
	cm->attribute = mad[MAD_ATTRIBUTE_OFFSET] << 8 | mad[MAD_ATTRIBUTE_OFFSET + 1];
	cm->local_id = wire_be32_at(m);
	if (cm->attribute != CM_REQ)
		cm->remote_id = wire_be32_at(m + 4);
	switch (cm->attribute) {
	case CM_REQ:
		cm->qpn = wire_be32_at(m + 32) >> 8;
		cm->psn = wire_be32_at(m + 44) >> 8;
		return true;
	case CM_REP:
		cm->qpn = wire_be32_at(m + 12) >> 8;
		cm->psn = wire_be32_at(m + 20) >> 8;
		return true;
	case CM_DREQ:
		cm->qpn = wire_be32_at(m + 8) >> 8;
		return true;
	case CM_LAP:
		cm->qpn = wire_be32_at(m + 12) >> 8;
		return true;
	case CM_REJ:
		cm->reason = m[10] << 8 | m[11];
		return true;
	case CM_RTU:
	case CM_DREP:
	case CM_MRA:
		return true;
	}
	return false;
}

#endif
