// SPDX-License-Identifier: BSD-2-Clause
// Send given frames by a device as fast as the kernel takes them, or at a given rate, and report as
// JSON on standard output. They go straight to the driver: no queue and no hook of the sender's
// own. The three bytes at an offset can count up, so that each frame is of another QP.
#include <arpa/inet.h>
#include <errno.h>
#include <error.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

enum { FRAMES_MAX = 64, FRAME_BYTES_MAX = 9216, BURST = 64 };
#define SECOND_NS 1000000000ull

struct blast {
	int fd;
	uint64_t count;	  /* frames to send; 0: no limit */
	uint64_t time_ns; /* how long to send; 0: no limit */
	uint64_t rate;	  /* frames in a second; 0: as many as possible */
	size_t frames_count;
	uint64_t counting; /* the three bytes there count up from frame to frame; 0: none do */
	struct iovec frames[FRAMES_MAX]; /* sent in turn */
	uint64_t sent, refused;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + ts.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec ts = {.tv_sec = ns / SECOND_NS, .tv_nsec = ns % SECOND_NS};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static uint64_t read_number(const char *text, const char *what)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text == '-')
		error(2, 0, "%s: '%s' is no number", what, text);
	return value;
}

static void add_frame(struct blast *blast, const char *hex)
{
	size_t length = strlen(hex) / 2;
	uint8_t *frame = malloc(FRAME_BYTES_MAX);

	if (blast->frames_count == FRAMES_MAX)
		error(2, 0, "more than %d frames", FRAMES_MAX);
	if (!frame)
		error(1, 0, "out of memory");
	if (strlen(hex) % 2 || length < 14 || length > FRAME_BYTES_MAX)
		error(2, 0, "'%.20s...' is no frame of 14 to %d bytes", hex, FRAME_BYTES_MAX);
	for (size_t i = 0; i < length; i++)
		if (sscanf(hex + 2 * i, "%2hhx", &frame[i]) != 1)
			error(2, 0, "'%.20s...' is not hexadecimal", hex);
	blast->frames[blast->frames_count++] = (struct iovec){.iov_base = frame, .iov_len = length};
}

static void open_device(struct blast *blast, const char *device)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(device)};

	if (!to.sll_ifindex)
		error(1, errno, "%s", device);
	blast->fd =
		socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: receives nothing */
	if (blast->fd < 0 || bind(blast->fd, (struct sockaddr *)&to, sizeof(to)) ||
		setsockopt(blast->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &(int){1}, sizeof(int)))
		error(1, errno, "cannot open a packet socket at %s", device);
}

/* The frame at that place of the sequence, made in the given copy if any of its bytes count. */
static struct iovec *nth_frame(struct blast *blast, uint64_t n, struct iovec *copy)
{
	struct iovec *frame = &blast->frames[n % blast->frames_count];
	uint8_t *bytes;

	if (!blast->counting)
		return frame;
	bytes = memcpy(copy->iov_base, frame->iov_base, frame->iov_len);
	copy->iov_len = frame->iov_len;
	for (int i = 0; i < 3; i++)
		bytes[blast->counting + i] = n >> (16 - 8 * i);
	return copy;
}

/* One burst; the kernel's answer to a frame that the driver has no room for is ENOBUFS. */
static void send_burst(struct blast *blast, unsigned int count)
{
	static uint8_t room[BURST][FRAME_BYTES_MAX];
	struct mmsghdr messages[BURST] = {};
	struct iovec copies[BURST];
	int done;

	for (unsigned int i = 0; i < count; i++) {
		copies[i].iov_base = room[i];
		messages[i].msg_hdr.msg_iov = nth_frame(blast, blast->sent + i, &copies[i]);
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	done = sendmmsg(blast->fd, messages, count, 0);
	if (done > 0)
		blast->sent += done;
	else if (errno == ENOBUFS || errno == EAGAIN)
		blast->refused++;
	else if (errno != EINTR)
		error(1, errno, "cannot send");
}

/* How many frames may go out now; waits when it is none. */
static uint64_t frames_due(const struct blast *blast, uint64_t start_ns)
{
	uint64_t due = blast->count ? blast->count - blast->sent : BURST, allowed;

	if (due > BURST)
		due = BURST;
	if (!blast->rate)
		return due;
	allowed = (now_ns() - start_ns) * blast->rate / SECOND_NS + 1;
	if (allowed <= blast->sent) {
		sleep_until(start_ns + blast->sent * SECOND_NS / blast->rate);
		return 0;
	}
	return allowed - blast->sent < due ? allowed - blast->sent : due;
}

static uint64_t send_all(struct blast *blast)
{
	uint64_t start_ns = now_ns(), due;

	while (!stopped && (!blast->count || blast->sent < blast->count) &&
		(!blast->time_ns || now_ns() - start_ns < blast->time_ns)) {
		due = frames_due(blast, start_ns);
		if (due)
			send_burst(blast, due);
	}
	return now_ns() - start_ns;
}

int main(int argc, char **argv)
{
	const char *device = NULL;
	struct blast blast = {};
	uint64_t took_ns;
	int option;

	while ((option = getopt(argc, argv, "d:n:t:r:c:")) != -1) {
		if (option == 'd')
			device = optarg;
		else if (option == 'n')
			blast.count = read_number(optarg, "-n");
		else if (option == 't')
			blast.time_ns = read_number(optarg, "-t") * 1000000;
		else if (option == 'r')
			blast.rate = read_number(optarg, "-r");
		else if (option == 'c')
			blast.counting = read_number(optarg, "-c");
		else
			optind = argc;
	}
	for (int i = optind; i < argc; i++)
		add_frame(&blast, argv[i]);
	for (size_t i = 0; i < blast.frames_count && blast.counting; i++)
		if (blast.counting + 3 > blast.frames[i].iov_len)
			error(2, 0, "-c: no three bytes at %" PRIu64 " of frame %zu",
				blast.counting, i);
	if (!device || !blast.frames_count)
		error(2, 0,
			"usage: blast -d DEVICE [-n FRAMES] [-t MILLISECONDS] [-r FRAMES_A_SECOND] "
			"[-c OFFSET] HEX...");
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	prctl(PR_SET_TIMERSLACK, 1); /* or a rate comes out in lumps */
	open_device(&blast, device);
	took_ns = send_all(&blast);
	printf("{\"frames_sent\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"seconds\": %.6f}\n",
		blast.sent, blast.refused, took_ns / 1e9);
	return 0;
}
