/* SPDX-License-Identifier: BSD-2-Clause */
/* Native InfiniBand packets, as captures of type InfiniBand and ERF hold them. */
#ifndef QUENCH_ANALYZE_INFINIBAND_H
#define QUENCH_ANALYZE_INFINIBAND_H

#include "quench/wire.h"

enum { LRH_BYTES = 8 };

/*
 * As wire_parse(), for a packet that starts with its local route header (IBTA vol. 1, 7.7): LRH,
 * perhaps GRH, BTH; the VCRC behind the ICRC is not looked at. What makes sense is of kind
 * INFINIBAND, with bth_off 0 when it is a raw packet. Without a GRH, addresses are LIDs.
 */
int infiniband_parse(const void *data, const void *end, struct wire_frame *f);

/* Is this address of a key a LID? Which, then. */
bool infiniband_is_lid(const __be32 addr[4], __u16 *lid);

#endif
