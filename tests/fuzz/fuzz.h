/* SPDX-License-Identifier: BSD-2-Clause */
/* For the fuzz targets: what must hold, said aloud before the fuzzer is told. */
#ifndef QUENCH_TESTS_FUZZ_H
#define QUENCH_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

#endif
