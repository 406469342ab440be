/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser as bpf/far.bpf.c builds it, compiled for the host. */
#ifndef QUENCH_TESTS_WIRE_COPIED_H
#define QUENCH_TESTS_WIRE_COPIED_H

#include <stddef.h>
#include <stdint.h>

enum { COPIED_BYTES = 256 };

struct wire_frame;

/* Parse the len bytes, COPIED_BYTES at most, from a copy of them with the slack that it needs. */
void wire_parse_copied(const uint8_t *frame, size_t len, struct wire_frame *f);

#endif
