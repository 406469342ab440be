/* SPDX-License-Identifier: BSD-2-Clause */
/* `rcpeer icrc`: says of each frame on standard input, one line of hex each, what its ICRC should
 * be. */
#ifndef RCPEER_ICRC_H
#define RCPEER_ICRC_H

#include "rcpeer_frame.h"
#include <ctype.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	FRAME_BYTES_MAX = 16384,
	FRAME_ALIGN_BYTES = 2, /* puts the headers behind Ethernet on a multiple of four */
};

static const char *const wire_kind_names[] = {
#define X(id, name) name,
	WIRE_KINDS(X)
#undef X
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes read into out; -1 when the text is not whole bytes of hex, or too many. */
static int hex_read(const char *text, __u8 *out, int out_bytes)
{
	int n = 0, hi, lo;

	while (isspace((unsigned char)*text))
		text++;
	for (; *text && !isspace((unsigned char)*text); text += 2) {
		hi = hex_digit(text[0]);
		lo = hi < 0 ? -1 : hex_digit(text[1]);
		if (lo < 0 || n == out_bytes)
			return -1;
		out[n++] = hi << 4 | lo;
	}
	while (isspace((unsigned char)*text))
		text++;
	return *text ? -1 : n;
}

static void icrc_print(const __u8 *frame, unsigned int len)
{
	struct wire_frame f;
	__u32 icrc; /* stored little-endian: printed as the bytes lie on the wire */

	wire_frame_init(&f);
	wire_parse(frame, frame + len, &f);
	if (!frame_has_icrc(&f, len)) {
		printf("%s - - bad\n", wire_kind_names[f.kind]);
		return;
	}
	icrc = icrc_of_frame(frame, &f);
	printf("%s 0x%02x %08x %s\n", wire_kind_names[f.kind], f.opcode, __builtin_bswap32(icrc),
		icrc == icrc_on_wire(frame, &f) ? "ok" : "bad");
}

/* Returns the exit code: 1 when a line was not hex. */
static int icrc_run(void)
{
	static __u8 buffer[FRAME_ALIGN_BYTES + FRAME_BYTES_MAX] __attribute__((aligned(8)));
	__u8 *frame = buffer + FRAME_ALIGN_BYTES;
	char *line = NULL;
	size_t room = 0;
	int number, len, rc = 0;

	for (number = 1; getline(&line, &room, stdin) >= 0; number++) {
		len = hex_read(line, frame, FRAME_BYTES_MAX);
		if (len < 0) {
			warnx("standard input:%d: not a frame in hex", number);
			rc = 1;
		} else if (len > 0) {
			icrc_print(frame, len);
		}
	}
	free(line);
	return fflush(stdout) ? 1 : rc;
}

#endif
