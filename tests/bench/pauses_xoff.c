// SPDX-License-Identifier: BSD-2-Clause
// From the frame that fills a queue past its mark to the XOFF on the wire, by the kernel's stamps
// of one capture at the port that both pass: that of the frame as the driver hands it to the stack,
// behind XDP, and that of the XOFF as the stack hands it to the driver, behind its queue. Frames go
// one by one toward a gate that its peer keeps closed meanwhile; which of them crosses the mark is
// known. Where the gate closed too late for that, the sample says nothing and is taken again; few
// may be so. p50, p99 and the largest as JSON on standard output.
#include "control_latency.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

enum {
	PATIENCE_MS = 30,  /* nothing on the way takes so long */
	AGAIN_PERCENT = 1, /* of all samples, at most, and a few */
	AGAIN_LEAST = 10,
	CLOSE_NS = 2000000, /* more than a gate takes to close */
	GAP_NS = 50000,	    /* between two frames: none shares a stamp with the next */
	TIMES_OFF = ETH_HLEN + 4,
	TIMES_BYTES = 16,
};

struct bench {
	int capture, sender, peer;
	struct frame data, xoff, xon;
	unsigned int crossing; /* the how-maniest frame */
};

/* A socket of cable_open at NAMESPACE:DEVICE; this process is there afterwards. */
static int cable_open_in(const char *place, uint16_t protocol)
{
	char path[512], *device;
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", place);
	device = strrchr(path, ':');
	if (!device)
		errx(2, "'%s' is not NAMESPACE:DEVICE", place);
	*device++ = '\0';
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		err(1, "%s", path);
	close(fd);
	return cable_open(device, protocol);
}

struct seen {
	bool is_pfc, is_xoff;
	uint64_t ns;
};

/* The next frame of the capture; false when none comes. */
static bool next_frame(const struct bench *bench, struct seen *seen)
{
	static const uint8_t no_times[TIMES_BYTES];
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
	struct pollfd ready = {.fd = bench->capture, .events = POLLIN};
	uint8_t bytes[FRAME_BYTES_MAX];
	struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};

	if (poll(&ready, 1, PATIENCE_MS) <= 0)
		return false;
	if (recvmsg(bench->capture, &message, 0) < TIMES_OFF + TIMES_BYTES)
		err(1, "cannot receive");
	seen->is_pfc = bytes[12] == ETH_P_PAUSE >> 8 && bytes[13] == (ETH_P_PAUSE & 0xff);
	seen->is_xoff = seen->is_pfc && memcmp(bytes + TIMES_OFF, no_times, TIMES_BYTES);
	seen->ns = stamp_ns(&message);
	return true;
}

/* From the frame that crossed to the XOFF; 0 if it was not that one, or none. */
static uint64_t crossing_to_xoff_ns(const struct bench *bench)
{
	unsigned int frames = 0;
	uint64_t crossed_ns = 0;
	struct seen seen;

	while (next_frame(bench, &seen)) {
		if (seen.is_xoff)
			return crossed_ns && seen.ns > crossed_ns ? seen.ns - crossed_ns : 0;
		if (!seen.is_pfc && ++frames == bench->crossing)
			crossed_ns = seen.ns;
	}
	return 0;
}

/* Let the queue drain: until XON, or until all is quiet. */
static void wait_for_xon(const struct bench *bench)
{
	struct seen seen;

	while (next_frame(bench, &seen) && (!seen.is_pfc || seen.is_xoff))
		;
}

static void wait_ns(uint64_t ns)
{
	nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* One sample; 0 if it says nothing. */
static uint64_t sample(const struct bench *bench)
{
	uint64_t took_ns;

	cable_send(bench->peer, &bench->xoff);
	wait_ns(CLOSE_NS);
	for (unsigned int i = 0; i < bench->crossing; i++) {
		cable_send(bench->sender, &bench->data);
		wait_ns(GAP_NS);
	}
	took_ns = crossing_to_xoff_ns(bench);
	cable_send(bench->peer, &bench->xon);
	wait_for_xon(bench);
	return took_ns;
}

int main(int argc, char **argv)
{
	static uint64_t latencies_ns[SAMPLES_MAX];
	struct bench bench = {};
	size_t samples, n = 0, again = 0;

	if (argc != 9)
		errx(2, "usage: pauses_xoff CAPTURE SENDER PEER SAMPLES CROSSING DATA_HEX "
			"XOFF_HEX XON_HEX, the first three NAMESPACE:DEVICE");
	bench.capture = cable_open_in(argv[1], ETH_P_ALL);
	if (setsockopt(bench.capture, SOL_PACKET, PACKET_IGNORE_OUTGOING, &(int){0}, sizeof(int)))
		err(1, "%s", argv[1]);
	stamps_on(bench.capture);
	bench.sender = cable_open_in(argv[2], 0);
	bench.peer = cable_open_in(argv[3], 0);
	samples = read_number(argv[4], SAMPLES_MAX);
	bench.crossing = read_number(argv[5], 1000);
	frame_read_hex(&bench.data, argv[6]);
	frame_read_hex(&bench.xoff, argv[7]);
	frame_read_hex(&bench.xon, argv[8]);
	while (n < samples) {
		latencies_ns[n] = sample(&bench);
		if (latencies_ns[n])
			n++;
		else if (++again > AGAIN_LEAST + samples * AGAIN_PERCENT / 100)
			errx(1, "%zu samples in vain beside %zu good ones", again, n);
	}
	latencies_print(latencies_ns, samples);
	return 0;
}
