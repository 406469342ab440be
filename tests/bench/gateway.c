// SPDX-License-Identifier: BSD-2-Clause
// Frames through a gateway as fast as one CPU takes them: made at the senders' devices, counted and
// dropped at the receiver's. Commands come on standard input, one a line, and each is answered with
// a line of JSON.
//
//     live|socket FRAMES QPS HEX...  from XDP or by a socket, each sender sends its frame FRAMES
//                                    times, to QPS QPs in turn from the one in the frame on; where
//                                    a frame is not RoCE, those numbers go into its payload
//     gate close|open|look           the gate of the gateway's first class
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bench/gate.h"
#include "bench/gateway_ends.skel.h"
#include "quench/abi.h"

enum {
	SENDERS_MAX = 2,
	FRAME_BYTES_MAX = 4096 + ETH_HEADER_BYTES,
	BTH_OFF = ETH_HEADER_BYTES + IPV4_MIN_BYTES + UDP_HEADER_BYTES,
	BURST = 64,	      /* NAPI's own: no ring of 256 on the way runs over */
	QUIET_NS = 100000000, /* nothing has come for so long: nothing will */
	POLL_NS = 200000,
};

#define SECOND_NS 1000000000ull

/* A device and the network namespace that it is in. */
struct place {
	int netns_fd;
	int ifindex;
};

struct sender {
	struct place place;
	struct gateway_ends_bpf *ends;
	int socket_fd;
	int cpu;
	struct run *run;
	uint8_t frame[FRAME_BYTES_MAX];
	size_t frame_bytes;
};

struct bench {
	struct sender senders[SENDERS_MAX];
	size_t senders_count;
	struct place receiver, gateway;
	volatile struct gateway_ends_bpf__bss *seen; /* counted at the receiver */
};

/* One measurement. */
struct run {
	void (*inject)(struct sender *sender, uint64_t frames);
	uint64_t frames; /* of each sender */
	uint32_t qps;
	size_t senders_count;
	pthread_barrier_t start;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + ts.tv_nsec;
}

static void enter(const struct place *place)
{
	if (setns(place->netns_fd, CLONE_NEWNET))
		error(1, errno, "cannot enter a network namespace");
}

/* From "NAMESPACE:DEVICE"; the calling thread is there afterwards. */
static struct place place_open(const char *text)
{
	struct place place;
	char *netns, *device;

	if (sscanf(text, "%m[^:]:%ms", &netns, &device) != 2)
		error(2, 0, "'%s' is not NAMESPACE:DEVICE", text);
	if (chdir("/run/netns"))
		error(1, errno, "/run/netns");
	place.netns_fd = open(netns, O_RDONLY | O_CLOEXEC);
	if (place.netns_fd < 0)
		error(1, errno, "%s", netns);
	enter(&place);
	place.ifindex = if_nametoindex(device);
	if (!place.ifindex)
		error(1, errno, "%s", text);
	free(netns);
	free(device);
	return place;
}

/* ---- programs ---- */

static struct gateway_ends_bpf *ends_load(void)
{
	struct gateway_ends_bpf *ends = gateway_ends_bpf__open_and_load();

	if (!ends)
		error(1, errno, "cannot load the BPF programs");
	return ends;
}

/* In the driver or not at all. It comes off when this process ends. */
static void attach(const struct place *place, const struct bpf_program *program)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);

	if (bpf_link_create(bpf_program__fd(program), place->ifindex, BPF_XDP, &opts) < 0)
		error(1, errno, "cannot attach %s", bpf_program__name(program));
}

/* ---- sending ---- */

static void inject_live(struct sender *sender, uint64_t frames)
{
	struct xdp_md ctx = {
		.data_end = sender->frame_bytes, .ingress_ifindex = sender->place.ifindex};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = sender->frame,
		.data_size_in = sender->frame_bytes, .ctx_in = &ctx, .ctx_size_in = sizeof(ctx),
		.repeat = frames, .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = BURST);

	if (bpf_prog_test_run_opts(bpf_program__fd(sender->ends->progs.inject), &opts))
		error(1, errno, "cannot inject frames of %zu bytes", sender->frame_bytes);
}

/* Write the QPN and PSN of the next frame, as the program inject does. */
static void number_frame(struct gateway_ends_bpf__bss *bss, uint8_t *frame)
{
	struct wire_bth bth;

	if (!bss->start_ns)
		bss->start_ns = now_ns();
	memcpy(&bth, (uint8_t *)bss->headers + BTH_OFF, sizeof(bth));
	bth.ecn_dqpn = WIRE_HTONL(WIRE_NTOHL(bth.ecn_dqpn) + bss->qp);
	bth.ack_psn = WIRE_HTONL(bss->psn & BTH_PSN_MASK);
	memcpy(frame + BTH_OFF, &bth, sizeof(bth));
	if (++bss->qp < bss->qps)
		return;
	bss->qp = 0;
	bss->psn++;
}

static void inject_socket(struct sender *sender, uint64_t frames)
{
	static _Thread_local uint8_t room[BURST][FRAME_BYTES_MAX];
	struct mmsghdr messages[BURST] = {};
	struct iovec parts[BURST];
	unsigned int i, burst;

	for (i = 0; i < BURST; i++) {
		memcpy(room[i], sender->frame, sender->frame_bytes);
		parts[i] = (struct iovec){.iov_base = room[i], .iov_len = sender->frame_bytes};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
	}
	for (; frames; frames -= burst) {
		burst = frames < BURST ? frames : BURST;
		for (i = 0; i < burst; i++)
			number_frame(sender->ends->bss, room[i]);
		if (sendmmsg(sender->socket_fd, messages, burst, 0) != (int)burst)
			error(1, errno, "cannot send frames of %zu bytes", sender->frame_bytes);
	}
}

/* Past all queues and hooks of the sender, straight to the driver. */
static int socket_open(const struct place *place)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = place->ifindex};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: receives nothing */

	if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof(to)) ||
		setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &(int){1}, sizeof(int)))
		error(1, errno, "cannot open a packet socket");
	return fd;
}

/* ---- a run ---- */

/* A CPU of its own, which nobody takes away where the system grants that. */
static void take_cpu(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		error(1, errno, "CPU %d", cpu);
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
}

static void *send_all(void *arg)
{
	struct sender *sender = arg;

	take_cpu(sender->cpu);
	enter(&sender->place);
	pthread_barrier_wait(&sender->run->start);
	sender->run->inject(sender, sender->run->frames);
	return NULL;
}

static void send_from_all(struct bench *bench, struct run *run)
{
	pthread_t threads[SENDERS_MAX];
	size_t i;

	pthread_barrier_init(&run->start, NULL, run->senders_count);
	for (i = 0; i < run->senders_count; i++) {
		bench->senders[i].run = run;
		if (pthread_create(&threads[i], NULL, send_all, &bench->senders[i]))
			error(1, 0, "cannot start a thread");
	}
	for (i = 0; i < run->senders_count; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&run->start);
}

/* Until all have come, or none comes any more. */
static void wait_for_arrivals(const struct bench *bench)
{
	volatile struct gateway_ends_bpf__bss *seen = bench->seen;
	uint64_t before = 0, now = 0, since_ns = now_ns();

	while (!seen->end_ns && now_ns() - since_ns < QUIET_NS) {
		now = seen->roce_frames + seen->other_frames;
		if (now != before)
			since_ns = now_ns();
		before = now;
		nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
	}
}

/* From the first frame to the last arrival; 0 when some have not come. */
static uint64_t run_time_ns(const struct bench *bench, const struct run *run)
{
	uint64_t start_ns = UINT64_MAX;

	for (size_t i = 0; i < run->senders_count; i++)
		if (bench->senders[i].ends->bss->start_ns < start_ns)
			start_ns = bench->senders[i].ends->bss->start_ns;
	return bench->seen->end_ns ? bench->seen->end_ns - start_ns : 0;
}

/* ---- commands ---- */

static uint64_t next_number(const char *what)
{
	const char *text = strtok(NULL, " \n");
	char *end;
	uint64_t value;

	errno = 0;
	value = text ? strtoull(text, &end, 10) : 0;
	if (!value || errno || *end)
		error(2, 0, "%s: '%s' is no number above 0", what, text ?: "");
	return value;
}

static void set_frame(struct sender *sender, const char *hex, uint32_t qps)
{
	struct gateway_ends_bpf__bss *bss = sender->ends->bss;
	size_t bytes = strlen(hex) / 2;

	if (strlen(hex) % 2 || bytes < sizeof(bss->headers) || bytes > FRAME_BYTES_MAX)
		error(2, 0, "'%.20s...' is no frame of %zu to %d bytes", hex, sizeof(bss->headers),
			FRAME_BYTES_MAX);
	for (size_t i = 0; i < bytes; i++)
		if (sscanf(hex + 2 * i, "%2hhx", &sender->frame[i]) != 1)
			error(2, 0, "'%.20s...' is not hexadecimal", hex);
	sender->frame_bytes = bytes;
	memcpy(bss->headers, sender->frame, sizeof(bss->headers));
	bss->qps = qps;
	bss->qp = 0;
	bss->start_ns = 0;
}

static void command_run(struct bench *bench, void (*inject)(struct sender *, uint64_t))
{
	struct run run = {.inject = inject};
	volatile struct gateway_ends_bpf__bss *seen = bench->seen;
	char *hex;

	run.frames = next_number("frames");
	run.qps = next_number("QPs");
	while ((hex = strtok(NULL, " \n"))) {
		if (run.senders_count == bench->senders_count)
			error(2, 0, "a frame without a sender");
		set_frame(&bench->senders[run.senders_count++], hex, run.qps);
	}
	if (!run.senders_count)
		error(2, 0, "there is no frame to send");
	seen->roce_frames = seen->roce_bytes = seen->other_frames = seen->other_bytes = 0;
	seen->expected = run.frames * run.senders_count;
	seen->end_ns = 0;
	send_from_all(bench, &run);
	wait_for_arrivals(bench);
	printf("{\"ns\": %" PRIu64 ", \"roce_frames\": %llu, \"roce_bytes\": %llu, "
	       "\"other_frames\": %llu, \"other_bytes\": %llu}\n",
		run_time_ns(bench, &run), seen->roce_frames, seen->roce_bytes, seen->other_frames,
		seen->other_bytes);
}

static void command_live(struct bench *bench)
{
	command_run(bench, inject_live);
}

static void command_socket(struct bench *bench)
{
	command_run(bench, inject_socket);
}

static void command_gate(struct bench *bench)
{
	static struct tc_object gate = {.kind = TC_OTHER};
	const char *what = strtok(NULL, " \n") ?: "";
	int ifindex = bench->gateway.ifindex;
	struct tc_qdisc_stats stats = {};
	struct qerr err = {};
	struct rtnl *nl;

	if (!ifindex)
		error(2, 0, "gate needs -g");
	enter(&bench->gateway);
	if (rtnl_open(&nl, &err))
		error(1, 0, "%s", err.text);
	if (!strcmp(what, "close"))
		gate_set(nl, ifindex, gate = gate_read(nl, ifindex), true);
	else if (!strcmp(what, "open"))
		gate_set(nl, ifindex, gate, false);
	else if (strcmp(what, "look"))
		error(2, 0, "gate '%s': close, open or look", what);
	if (tc_stats(nl, ifindex, TREE_HANDLE(TREE_GATE), &stats, &err))
		error(1, 0, "%s", err.text);
	rtnl_close(nl);
	printf("{\"frames_held\": %u, \"frames_sent\": %" PRIu64 "}\n", stats.qlen, stats.packets);
}

static const struct command {
	const char *name;
	void (*call)(struct bench *bench);
} commands[] = {
	{"live", command_live},
	{"socket", command_socket},
	{"gate", command_gate},
};

static void obey(struct bench *bench, char *line)
{
	const char *name = strtok(line, " \n") ?: "";

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].call(bench);
	error(2, 0, "'%s' is no command", name);
}

/* ---- setting up ---- */

/* The last CPUs first: the first has most of the machine's other work. */
static int cpu_of(size_t sender)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		error(1, errno, "sched_getaffinity");
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
		if (CPU_ISSET(cpu, &cpus) && !sender--)
			return cpu;
	error(1, 0, "there is no CPU for each sender");
	return -1;
}

static void add_sender(struct bench *bench, const char *text)
{
	struct sender *sender = &bench->senders[bench->senders_count];

	if (bench->senders_count == SENDERS_MAX)
		error(2, 0, "more than %d senders", SENDERS_MAX);
	sender->cpu = cpu_of(bench->senders_count++);
	sender->place = place_open(text);
	sender->socket_fd = socket_open(&sender->place);
	sender->ends = ends_load();
}

static void set_up(struct bench *bench, struct gateway_ends_bpf *ends, int option, const char *text)
{
	struct place place;

	switch (option) {
	case 's':
		return add_sender(bench, text);
	case 'e':
		place = place_open(text);
		attach(&place, ends->progs.empty);
		close(place.netns_fd);
		return;
	case 'g':
		bench->gateway = place_open(text);
		return;
	case 'r':
		bench->receiver = place_open(text);
		attach(&bench->receiver, ends->progs.count);
	}
}

int main(int argc, char **argv)
{
	static struct bench bench;
	struct gateway_ends_bpf *ends = ends_load();
	size_t size = 0;
	char *line = NULL;
	int option;

	while ((option = getopt(argc, argv, "s:e:g:r:")) != -1)
		set_up(&bench, ends, option, optarg);
	if (!bench.senders_count || !bench.receiver.ifindex || optind < argc)
		error(2, 0,
			"usage: gateway -s SENDER [-s SENDER] -r RECEIVER [-g PORT_WITH_GATE] "
			"[-e PORT_FOR_EMPTY_PROGRAM]..., each NAMESPACE:DEVICE");
	bench.seen = ends->bss;
	setlinebuf(stdout);
	while (getline(&line, &size, stdin) > 0)
		obey(&bench, line);
	free(line);
	return 0;
}
