// SPDX-License-Identifier: BSD-2-Clause
// The parser with the cursor that counts instead of pointing.
#define WIRE_BUFFER_BYTES 256
#include "quench/wire.h"

#include "fuzz/wire_copied.h"

#include <stdlib.h>
#include <string.h>

void wire_parse_copied(const uint8_t *frame, size_t len, struct wire_frame *f)
{
	uint8_t *copy = calloc(1, COPIED_BYTES + WIRE_SLACK_BYTES);

	if (!copy)
		abort();
	memcpy(copy, frame, len);
	wire_parse(copy, copy + len, f);
	free(copy);
}
