// SPDX-License-Identifier: BSD-2-Clause
// From a CE frame in to the CNP out: data frames marked CE go one by one on the cable to a port
// that answers them, and the kernel stamps each CNP as it arrives at this end. The clock starts
// before the frame is handed to the driver. p50, p99 and the largest as JSON on standard output.
#include "control_latency.h"

#include <poll.h>

#include "quench/wire.h"

enum { PATIENCE_MS = 2000, PAUSE_NS = 200000 };

struct bench {
	int cable;
	struct frame data;
};

static bool is_cnp(uint8_t *bytes, size_t length)
{
	struct wire_frame f;

	wire_frame_init(&f);
	wire_parse(bytes, bytes + length, &f);
	return f.kind == WIRE_CNP;
}

/* When the next CNP arrived; other frames, as ICMP about the port that nobody listens at, go by. */
static uint64_t next_cnp_ns(int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
	static uint8_t room[2 + FRAME_BYTES_MAX]; /* so that the IP header is aligned */
	struct iovec iov = {.iov_base = room + 2, .iov_len = FRAME_BYTES_MAX};
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	struct msghdr message;
	ssize_t length;

	do {
		if (poll(&ready, 1, PATIENCE_MS) <= 0)
			errx(1, "no CNP within %d ms", PATIENCE_MS);
		message = (struct msghdr){.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control)};
		length = recvmsg(fd, &message, 0);
		if (length < 0)
			err(1, "cannot receive");
	} while (!is_cnp(room + 2, length));
	return stamp_ns(&message);
}

static uint64_t sample(const struct bench *bench)
{
	uint64_t sent_ns = clock_ns(CLOCK_REALTIME), arrived_ns;

	cable_send(bench->cable, &bench->data);
	arrived_ns = next_cnp_ns(bench->cable);
	if (arrived_ns < sent_ns)
		errx(1, "the CNP came before its cause: somebody set the clock");
	pause_at_most(PAUSE_NS);
	return arrived_ns - sent_ns;
}

int main(int argc, char **argv)
{
	static uint64_t latencies_ns[SAMPLES_MAX];
	struct bench bench = {};
	size_t samples;

	if (argc != 4)
		errx(2, "usage: control_cnp DEVICE SAMPLES CE_FRAME_HEX");
	bench.cable = cable_open(argv[1], ETH_P_IP);
	samples = read_number(argv[2], SAMPLES_MAX);
	frame_read_hex(&bench.data, argv[3]);
	stamps_on(bench.cable);
	for (size_t i = 0; i < samples; i++)
		latencies_ns[i] = sample(&bench);
	latencies_print(latencies_ns, samples);
	return 0;
}
