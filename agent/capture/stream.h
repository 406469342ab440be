/* SPDX-License-Identifier: BSD-2-Clause */
/* A stdio stream over a descriptor, inflated on the way if it holds gzip: libpcap reads streams. */
#ifndef QUENCH_CAPTURE_STREAM_H
#define QUENCH_CAPTURE_STREAM_H

#include <stdio.h>

struct stream;

/*
 * Look at the first bytes of fd and give a stream of what it holds. The stream owns fd, and
 * *stream, which is valid until it is closed. What a pipe has is given at once, however little.
 * NULL with errno; fd is then closed.
 */
FILE *stream_open(int fd, struct stream **stream);

/* What is wrong with the compressed data; NULL if nothing is. */
const char *stream_error(const struct stream *stream);

#endif
