// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The parser once more, for frames whose headers do not lie in the linear part: from a copy.
#define WIRE_BUFFER_BYTES 256
#include "far.bpf.h"

_Static_assert(WIRE_BUFFER_BYTES == FAR_HEADERS_BYTES, "what is copied is what is parsed");
_Static_assert(sizeof(((struct far_headers *)0)->bytes) >= WIRE_BUFFER_BYTES + WIRE_SLACK_BYTES,
	"the longest header at the last place");

int far_first(const struct far_headers *far, const struct conf *conf, struct wire_frame *f)
{
	struct wire_cursor c;

	if (!far || !conf || !f)
		return WIRE_OTHER;
	c = wire_cursor(far->bytes, far->bytes + far->count, 0);
	wire_frame_init(f);
	return wire_parse_first(&c, &conf->udp_ports, f);
}

int far_rest(const struct far_headers *far, const struct conf *conf, struct wire_frame *f)
{
	struct wire_cursor c;

	if (!far || !conf || !f)
		return WIRE_OTHER;
	c = wire_cursor(far->bytes, far->bytes + far->count, f->rest_off);
	return wire_parse_rest(&c, &conf->udp_ports, f);
}
