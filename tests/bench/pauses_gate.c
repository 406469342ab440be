// SPDX-License-Identifier: BSD-2-Clause
// From a pause frame in to the gate closed: XOFFs go one by one on the cable to an agent's host,
// each until this process has read the kernel's notification that the gate is closed, which follows
// the change itself. The clock starts before the frame is handed to the driver. With "spin" this
// process never sleeps: where the agent has a CPU of its own, its wake-up is then not in the
// figures. Each XOFF finds the gate open and the agent at rest. p50, p99 and the largest as JSON on
// standard output.
#include "control_latency.h"
#include "control_news.h"

enum { PATIENCE_MS = 900, PAUSE_NS = 200000, CLOSED_BYTES_PER_S = 4000 };

struct bench {
	int cable;
	struct frame xoff, xon;
	int news; /* what the kernel says of queues */
	bool spin;
};

enum gate_state { GATE_UNKNOWN, GATE_OPEN, GATE_CLOSED };

/* What a notification says of the gate of class 0. */
static enum gate_state state_of(const struct nlmsghdr *nlh)
{
	const struct tcmsg *tcm = mnl_nlmsg_get_payload(nlh);
	const struct tc_tbf_qopt *tbf;

	if (nlh->nlmsg_type != RTM_NEWQDISC || tcm->tcm_handle != TREE_HANDLE(TREE_GATE))
		return GATE_UNKNOWN;
	tbf = news_option(nlh, TCA_TBF_PARMS);
	if (!tbf)
		return GATE_UNKNOWN;
	return tbf->rate.rate == CLOSED_BYTES_PER_S ? GATE_CLOSED : GATE_OPEN;
}

/* Until the kernel says that the gate is so; the time then. */
static uint64_t wait_for(const struct bench *bench, enum gate_state wanted)
{
	uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + PATIENCE_MS * 1000000ull, now_ns;
	_Alignas(struct nlmsghdr) char message[8192];
	enum gate_state state;
	ssize_t length;

	do {
		length =
			recv(bench->news, message, sizeof(message), bench->spin ? MSG_DONTWAIT : 0);
		now_ns = clock_ns(CLOCK_MONOTONIC);
		if (length < 0 && errno != EAGAIN)
			err(1, "cannot listen to the kernel");
		if (now_ns > end_ns)
			errx(1, "the gate does not %s", wanted == GATE_CLOSED ? "close" : "open");
		state = length > 0 && mnl_nlmsg_ok((void *)message, length)
				? state_of((void *)message)
				: GATE_UNKNOWN;
	} while (state != wanted);
	return now_ns;
}

static uint64_t sample(const struct bench *bench)
{
	uint64_t sent_ns = clock_ns(CLOCK_MONOTONIC), took_ns;

	cable_send(bench->cable, &bench->xoff);
	took_ns = wait_for(bench, GATE_CLOSED) - sent_ns;
	cable_send(bench->cable, &bench->xon);
	wait_for(bench, GATE_OPEN);
	pause_at_most(PAUSE_NS);
	return took_ns;
}

int main(int argc, char **argv)
{
	static uint64_t latencies_ns[SAMPLES_MAX];
	struct bench bench = {};
	size_t samples;

	if (argc != 7)
		errx(2, "usage: pauses_gate DEVICE AGENT_PID SAMPLES spin|sleep XOFF_HEX XON_HEX");
	bench.cable = cable_open(argv[1], 0);
	bench.news = news_open(read_number(argv[2], UINT32_MAX), PATIENCE_MS);
	samples = read_number(argv[3], SAMPLES_MAX);
	bench.spin = !strcmp(argv[4], "spin");
	frame_read_hex(&bench.xoff, argv[5]);
	frame_read_hex(&bench.xon, argv[6]);
	for (size_t i = 0; i < samples; i++)
		latencies_ns[i] = sample(&bench);
	latencies_print(latencies_ns, samples);
	return 0;
}
