// SPDX-License-Identifier: BSD-2-Clause
// From a CNP in to the QP's new rate in the kernel: CNPs go one by one on the cable to an agent's
// host, until this process has read the kernel's notification of the rate that each of them leads
// to. The clock starts before the frame is handed to the driver; the wake-up of this process at the
// end is in the figures, for a loop that never sleeps would take the CPU from those who are timed.
// Each CNP finds the QP at line rate and the agent at rest. p50, p99 and the largest as JSON on
// standard output.
#include "control_latency.h"
#include "control_news.h"

#include "quench/abi.h"

enum { TRIES_MAX = 20, PATIENCE_MS = 100, PAUSE_NS = 500000 };

struct bench {
	int cable;
	struct frame cnp;
	uint64_t line_rate_bps;
	int news; /* what the kernel says of classes */
};

/* The rate in the notification of a QP class's change; 0 if it is about anything else. */
static uint64_t rate_of(const struct nlmsghdr *nlh)
{
	const struct tcmsg *tcm = mnl_nlmsg_get_payload(nlh);
	const struct tc_htb_opt *htb;

	if (nlh->nlmsg_type != RTM_NEWTCLASS || TC_H_MIN(tcm->tcm_handle) < MINOR_QP)
		return 0;
	htb = news_option(nlh, TCA_HTB_PARMS);
	return htb ? htb->rate.rate * 8ull : 0;
}

/* The QP's next rate; 0 if there is none within PATIENCE_MS. */
static uint64_t next_rate(const struct bench *bench)
{
	_Alignas(struct nlmsghdr) char message[8192];
	uint64_t rate_bps = 0;
	ssize_t length;

	while (!rate_bps) {
		length = recv(bench->news, message, sizeof(message), 0);
		if (length < 0 && errno == EAGAIN)
			return 0;
		if (length < 0)
			err(1, "cannot listen to the kernel");
		if (mnl_nlmsg_ok((void *)message, length))
			rate_bps = rate_of((void *)message);
	}
	return rate_bps;
}

/*
 * Send a CNP until its cut is in the kernel. Mostly the first one is; an agent that did not get the
 * CPU for so long that the QP had recovered before it could send anything needs another.
 */
static void cut(const struct bench *bench)
{
	for (int i = 0; i < TRIES_MAX; i++) {
		uint64_t rate_bps;

		cable_send(bench->cable, &bench->cnp);
		rate_bps = next_rate(bench);
		if (rate_bps >= bench->line_rate_bps)
			errx(1, "the CNP led to no cut");
		if (rate_bps)
			return;
	}
	errx(1, "%d CNPs led to no other rate in the kernel", TRIES_MAX);
}

static void wait_for_line_rate(const struct bench *bench)
{
	uint64_t rate_bps;

	do
		rate_bps = next_rate(bench);
	while (rate_bps && rate_bps != bench->line_rate_bps);
	if (!rate_bps)
		errx(1, "the QP does not come back to line rate");
}

static uint64_t sample(const struct bench *bench)
{
	uint64_t sent_ns = clock_ns(CLOCK_MONOTONIC), took_ns;

	cut(bench);
	took_ns = clock_ns(CLOCK_MONOTONIC) - sent_ns;
	wait_for_line_rate(bench);
	pause_at_most(PAUSE_NS);
	return took_ns;
}

int main(int argc, char **argv)
{
	static uint64_t latencies_ns[SAMPLES_MAX];
	struct bench bench = {};
	size_t samples;

	if (argc != 6)
		errx(2, "usage: control_rate DEVICE AGENT_PID LINE_RATE_BPS SAMPLES CNP_HEX");
	bench.cable = cable_open(argv[1], 0);
	bench.news = news_open(read_number(argv[2], UINT32_MAX), PATIENCE_MS);
	bench.line_rate_bps = read_number(argv[3], UINT64_MAX);
	samples = read_number(argv[4], SAMPLES_MAX);
	frame_read_hex(&bench.cnp, argv[5]);
	for (size_t i = 0; i < samples; i++)
		latencies_ns[i] = sample(&bench);
	latencies_print(latencies_ns, samples);
	return 0;
}
