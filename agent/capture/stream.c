// SPDX-License-Identifier: BSD-2-Clause
// The stream: a cookie of stdio's that reads, and inflates with zlib.
#include "capture/stream.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum {
	INPUT_BYTES = 256 * 1024,
	MAGIC_BYTES = 2,
	GZIP_WINDOW = 15 + 16, /* of inflateInit2(): the largest, behind a gzip header */
};

struct stream {
	int fd;
	bool inflates;
	bool in_member; /* a gzip member has begun and not ended */
	const char *error;
	z_stream zlib;
	uint8_t *pos; /* what has been read and not yet given on */
	size_t held;
	uint8_t input[INPUT_BYTES];
};

static ssize_t read_some(int fd, void *buf, size_t size)
{
	ssize_t n;

	do
		n = read(fd, buf, size);
	while (n < 0 && errno == EINTR);
	return n;
}

static ssize_t read_plain(struct stream *s, char *buf, size_t size)
{
	size_t n = s->held < size ? s->held : size;

	if (!n)
		return read_some(s->fd, buf, size);
	memcpy(buf, s->pos, n);
	s->pos += n;
	s->held -= n;
	return n;
}

static int fail(struct stream *s, const char *error)
{
	s->error = error;
	errno = EIO;
	return -1;
}

/* Another member may follow the one that ended; what is no member is no longer ours. */
static bool next_member(struct stream *s)
{
	if (s->in_member)
		return true;
	if (s->held < 1 || s->pos[0] != 0x1f || inflateReset(&s->zlib) != Z_OK)
		return false;
	s->in_member = true;
	return true;
}

static const char *zlib_error(const struct stream *s, int code)
{
	if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR)
		return NULL;
	return code == Z_MEM_ERROR ? "out of memory" : s->zlib.msg ?: "the gzip data are damaged";
}

/* Inflate what is held; returns the bytes made, which may be none: also before an error. */
static size_t inflate_held(struct stream *s, char *buf, size_t size)
{
	int code;

	s->zlib.next_in = s->pos;
	s->zlib.avail_in = s->held;
	s->zlib.next_out = (uint8_t *)buf;
	s->zlib.avail_out = size;
	code = inflate(&s->zlib, Z_NO_FLUSH);
	s->pos = s->zlib.next_in;
	s->held = s->zlib.avail_in;
	s->in_member = code != Z_STREAM_END;
	s->error = zlib_error(s, code);
	return size - s->zlib.avail_out;
}

/* Read on. 1; 0 at the end; -1 on an error, as an end inside a member is. */
static int refill(struct stream *s)
{
	ssize_t n = read_some(s->fd, s->input, INPUT_BYTES);

	s->pos = s->input;
	s->held = n > 0 ? n : 0;
	if (!n && s->in_member)
		return fail(s, "the gzip data end early");
	return n > 0 ? 1 : n;
}

/* What zlib still holds comes first: the input may be at its end already. */
static ssize_t read_gzip(struct stream *s, char *buf, size_t size)
{
	while (!s->error) {
		size_t made = s->in_member ? inflate_held(s, buf, size) : 0;
		int more = 1;

		if (made)
			return made;
		if (!s->error && !s->held)
			more = refill(s);
		if (more <= 0)
			return more;
		if (!s->error && !next_member(s))
			return 0;
	}
	return fail(s, s->error);
}

static ssize_t read_stream(void *cookie, char *buf, size_t size)
{
	struct stream *s = cookie;

	return s->inflates ? read_gzip(s, buf, size) : read_plain(s, buf, size);
}

static int close_stream(void *cookie)
{
	struct stream *s = cookie;

	if (s->inflates)
		inflateEnd(&s->zlib);
	close(s->fd);
	free(s);
	return 0;
}

/* Fetch at least the magic number, if there is so much. */
static int peek(struct stream *s)
{
	ssize_t n = 1;

	s->pos = s->input;
	while (s->held < MAGIC_BYTES && n > 0) {
		n = read_some(s->fd, s->input + s->held, INPUT_BYTES - s->held);
		if (n < 0)
			return -errno;
		s->held += n;
	}
	return 0;
}

static int start(struct stream *s)
{
	int code = peek(s);

	if (code)
		return code;
	s->inflates = s->held >= MAGIC_BYTES && s->input[0] == 0x1f && s->input[1] == 0x8b;
	s->in_member = s->inflates;
	if (s->inflates && inflateInit2(&s->zlib, GZIP_WINDOW) != Z_OK) {
		s->inflates = false;
		return -ENOMEM;
	}
	return 0;
}

FILE *stream_open(int fd, struct stream **out)
{
	const cookie_io_functions_t functions = {.read = read_stream, .close = close_stream};
	struct stream *s = calloc(1, sizeof(*s));
	FILE *file = NULL;
	int code;

	if (!s) {
		close(fd);
		return NULL;
	}
	s->fd = fd;
	code = start(s);
	if (!code)
		file = fopencookie(s, "rb", functions);
	if (file) {
		setvbuf(file, NULL, _IOFBF, INPUT_BYTES);
		*out = s;
		return file;
	}
	close_stream(s);
	errno = code ? -code : ENOMEM;
	return NULL;
}

const char *stream_error(const struct stream *s)
{
	return s->error;
}
