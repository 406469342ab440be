// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The parser once more, for frames whose headers do not lie in the linear part: from a copy.
#define WIRE_BUFFER_BYTES 256
#include "far.bpf.h"

_Static_assert(WIRE_BUFFER_BYTES == FAR_HEADERS_BYTES, "what is copied is what is parsed");
_Static_assert(sizeof(((struct far_headers *)0)->bytes) >= WIRE_BUFFER_BYTES + WIRE_SLACK_BYTES,
	"the longest header at the last place");

int frame_parse_far(const struct far_headers *far, const struct conf *conf, struct wire_frame *f)
{
	if (!far || !conf || !f)
		return WIRE_OTHER;
	wire_frame_init(f);
	return wire_parse_ports(far->bytes, far->bytes + far->count, &conf->udp_ports, f);
}
