/* SPDX-License-Identifier: BSD-2-Clause */
/* What verdict.bpf.c leaves for the test that ran it. */
#ifndef QUENCH_TESTS_VERDICT_H
#define QUENCH_TESTS_VERDICT_H

#include "quench/wire_cm.h"

enum { PACKET_MAX = 2048 };

struct verdict {
	struct wire_frame frame;
	__u32 icrc; /* least significant byte first on the wire; 0 without a BTH */
	__u8 packet[PACKET_MAX];
};

/* What a program that the kernel called said last. */
struct hook_verdict {
	struct wire_frame frame;
	__u32 cls;  /* of the policy, or CLASS_NONE */
	__u32 seen; /* frames */
};

#endif
