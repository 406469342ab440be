/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs share that put a frame on a cable and time the answer. */
#ifndef CONTROL_LATENCY_H
#define CONTROL_LATENCY_H

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { FRAME_BYTES_MAX = 2048, SAMPLES_MAX = 1000000 };

struct frame {
	uint8_t bytes[FRAME_BYTES_MAX];
	size_t length;
};

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* For a random part of the time at most, so that no sample is in step with anything. */
static inline void pause_at_most(uint64_t most_ns)
{
	struct timespec ts = {.tv_nsec = (long)(random() % most_ns)};

	nanosleep(&ts, NULL);
}

static inline uint64_t read_number(const char *text, uint64_t max)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || !value || value > max)
		errx(2, "'%s' is no number from 1 to %llu", text, (unsigned long long)max);
	return value;
}

static inline void frame_read_hex(struct frame *frame, const char *hex)
{
	frame->length = strlen(hex) / 2;
	if (strlen(hex) % 2 || frame->length < ETH_HLEN || frame->length > FRAME_BYTES_MAX)
		errx(2, "'%.20s...' is no frame", hex);
	for (size_t i = 0; i < frame->length; i++)
		if (sscanf(hex + 2 * i, "%2hhx", &frame->bytes[i]) != 1)
			errx(2, "'%.20s...' is not hexadecimal", hex);
}

/*
 * A socket whose frames go straight to the driver of the device, past all queues. It receives what
 * arrives there if protocol (an ETH_P_ value) is not 0.
 */
static inline int cable_open(const char *device, uint16_t protocol)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = (int)if_nametoindex(device)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), on = 1;

	if (!at.sll_ifindex)
		err(1, "%s", device);
	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) ||
		setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) ||
		bind(fd, (struct sockaddr *)&at, sizeof(at)))
		err(1, "cannot open a packet socket at %s", device);
	return fd;
}

static inline void cable_send(int fd, const struct frame *frame)
{
	if (send(fd, frame->bytes, frame->length, 0) != (ssize_t)frame->length)
		err(1, "cannot send");
}

/* Ask the kernel to say when each frame arrived or left, by CLOCK_REALTIME. */
static inline void stamps_on(int fd)
{
	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &(int){1}, sizeof(int)))
		err(1, "cannot have frames stamped");
}

static inline uint64_t stamp_ns(struct msghdr *message)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(message);
	struct timespec ts;

	for (; c; c = CMSG_NXTHDR(message, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
			memcpy(&ts, CMSG_DATA(c), sizeof(ts));
			return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
		}
	errx(1, "a frame without a stamp");
}

static inline int latency_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The smallest that p per cent of all are not above. */
static inline double percentile_us(const uint64_t *sorted_ns, size_t n, unsigned int p)
{
	return (double)sorted_ns[(n * p + 99) / 100 - 1] / 1000;
}

/* Print p50, p99 and the largest as JSON; sorts them. */
static inline void latencies_print(uint64_t *ns, size_t n)
{
	qsort(ns, n, sizeof(*ns), latency_compare);
	printf("{\"p50_us\": %.3f, \"p99_us\": %.3f, \"max_us\": %.3f}\n", percentile_us(ns, n, 50),
		percentile_us(ns, n, 99), percentile_us(ns, n, 100));
}

#endif
