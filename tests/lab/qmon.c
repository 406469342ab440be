// SPDX-License-Identifier: BSD-2-Clause
/*
 * qmon: watches what the root qdisc of a device holds and drops, once a millisecond, and reports
 * the distribution as JSON when it is told to end. It judges a run from outside: the qdisc may be
 * anyone's.
 */
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <jansson.h>
#include <libmnl/libmnl.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
	TICK_NS = 1000000,
	TICKS_PER_SEC = 1000,
	TICKS_PER_CSV_ROW = 100,
	WARM_UP_TICKS = 2 * TICKS_PER_SEC, /* left out of mean and percentiles */
	REPLY_TIMEOUT_MS = 1000,
};

struct options {
	const char *device;
	const char *csv_path;
	bool progress;
};

struct reading {
	uint32_t handle;
	uint32_t backlog_bytes;
	uint32_t drops;
};

/* The largest and the mean backlog since the last time somebody asked. */
struct span {
	uint64_t sum_bytes;
	uint32_t max_bytes;
	uint32_t count;
};

struct monitor {
	const struct options *opt;
	struct mnl_socket *nl;
	int ifindex;
	uint32_t seq;
	uint64_t ticks, missed_ticks;
	uint32_t *backlog_bytes; /* of each tick that was not missed */
	size_t count, room;
	size_t first_busy; /* index of the first backlog that is not 0; count when there is none */
	uint32_t handle, drops_before, drops;
	struct span second, row;
	FILE *csv;
};

static int read_queue(const struct nlattr *attr, void *data)
{
	struct reading *r = data;
	struct gnet_stats_queue queue = {0};
	size_t len = mnl_attr_get_payload_len(attr);

	if (mnl_attr_get_type(attr) != TCA_STATS_QUEUE)
		return MNL_CB_OK;
	memcpy(&queue, mnl_attr_get_payload(attr), len < sizeof(queue) ? len : sizeof(queue));
	r->backlog_bytes = queue.backlog;
	r->drops = queue.drops;
	return MNL_CB_OK;
}

static int read_stats(const struct nlattr *attr, void *data)
{
	if (mnl_attr_get_type(attr) != TCA_STATS2)
		return MNL_CB_OK;
	return mnl_attr_parse_nested(attr, read_queue, data);
}

static int read_qdisc(const struct nlmsghdr *nlh, void *data)
{
	const struct tcmsg *tcm = mnl_nlmsg_get_payload(nlh);
	struct reading *r = data;

	r->handle = tcm->tcm_handle;
	return mnl_attr_parse(nlh, sizeof(*tcm), read_stats, data) < 0 ? MNL_CB_ERROR : MNL_CB_OK;
}

/* Without ECHO only RTNLGRP_TC is told; without ACK nobody answers for a noqueue. */
static void ask_root(struct monitor *m, char *buf)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct tcmsg *tcm;

	nlh->nlmsg_type = RTM_GETQDISC;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ECHO | NLM_F_ACK;
	nlh->nlmsg_seq = ++m->seq;
	tcm = mnl_nlmsg_put_extra_header(nlh, sizeof(*tcm));
	tcm->tcm_ifindex = m->ifindex;
	tcm->tcm_parent = TC_H_ROOT;
	if (mnl_socket_sendto(m->nl, nlh, nlh->nlmsg_len) < 0)
		err(1, "netlink");
}

/*
 * Read the root qdisc by a request for this one object: a dump would walk every leaf with the
 * RTNL held. All zero when there is none that holds frames.
 */
static void read_root(struct monitor *m, struct reading *r)
{
	char buf[8192];
	int len, rc;

	memset(r, 0, sizeof(*r));
	ask_root(m, buf);
	do {
		len = mnl_socket_recvfrom(m->nl, buf, sizeof(buf));
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			err(1, "netlink");
		rc = mnl_cb_run(buf, len, m->seq, mnl_socket_get_portid(m->nl), read_qdisc, r);
		if (rc < 0 && errno != ENOENT)
			err(1, "qdisc of %s", m->opt->device);
	} while (len < 0 || rc > 0);
}

static void span_add(struct span *s, uint32_t bytes)
{
	s->sum_bytes += bytes;
	s->count++;
	if (bytes > s->max_bytes)
		s->max_bytes = bytes;
}

static uint64_t span_mean(const struct span *s)
{
	return s->count ? s->sum_bytes / s->count : 0;
}

static void keep_sample(struct monitor *m, uint32_t bytes)
{
	if (m->count == m->room) {
		m->room = m->room ? m->room * 2 : 64 * TICKS_PER_SEC;
		m->backlog_bytes = reallocarray(m->backlog_bytes, m->room, sizeof(bytes));
		if (!m->backlog_bytes)
			err(1, "memory");
	}
	if (!bytes && m->first_busy == m->count)
		m->first_busy++;
	m->backlog_bytes[m->count++] = bytes;
	span_add(&m->second, bytes);
	span_add(&m->row, bytes);
}

/* The counter of a root that was replaced starts again at 0. */
static void note_drops(struct monitor *m, const struct reading *r)
{
	if (r->handle != m->handle || r->drops < m->drops)
		m->drops_before += m->drops;
	m->handle = r->handle;
	m->drops = r->drops;
}

/* Modulo 2^32, as the kernel counts. */
static uint32_t drops_seen(const struct monitor *m)
{
	return m->drops_before + m->drops;
}

static double seconds_of(uint64_t ticks)
{
	return (double)ticks / TICKS_PER_SEC;
}

static void print_progress(struct monitor *m, uint32_t backlog_bytes)
{
	fprintf(stderr, "%.1f s  backlog %u  mean %llu  max %u  drops %u\n", seconds_of(m->ticks),
		backlog_bytes, (unsigned long long)span_mean(&m->second), m->second.max_bytes,
		drops_seen(m));
	m->second = (struct span){0};
}

static void write_csv_row(struct monitor *m)
{
	fprintf(m->csv, "%.1f,%llu,%u,%u\n", seconds_of(m->ticks),
		(unsigned long long)span_mean(&m->row), m->row.max_bytes, drops_seen(m));
	m->row = (struct span){0};
}

/* Did a multiple of period lie in the ticks that went by since before? */
static bool period_ended(const struct monitor *m, uint64_t before, uint64_t period)
{
	return m->ticks / period != before / period;
}

static void tick(struct monitor *m, uint64_t expirations)
{
	uint64_t before = m->ticks;
	struct reading r;

	m->ticks += expirations;
	m->missed_ticks += expirations - 1;
	read_root(m, &r);
	note_drops(m, &r);
	keep_sample(m, r.backlog_bytes);
	if (m->opt->progress && period_ended(m, before, TICKS_PER_SEC))
		print_progress(m, r.backlog_bytes);
	if (m->csv && period_ended(m, before, TICKS_PER_CSV_ROW))
		write_csv_row(m);
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The smallest of count sorted samples that per_mille of them do not exceed. */
static uint32_t quantile(const uint32_t *sorted, size_t count, unsigned int per_mille)
{
	size_t rank = (count * per_mille + 999) / 1000;

	return count ? sorted[rank ? rank - 1 : 0] : 0;
}

static uint32_t max_of_all(const struct monitor *m)
{
	uint32_t max = 0;
	size_t i;

	for (i = 0; i < m->count; i++)
		if (m->backlog_bytes[i] > max)
			max = m->backlog_bytes[i];
	return max;
}

static void report(struct monitor *m)
{
	uint32_t max = max_of_all(m);
	size_t from = m->first_busy + WARM_UP_TICKS, count, i;
	uint32_t *steady;
	double sum = 0;
	json_t *o;

	if (from > m->count)
		from = m->count;
	steady = m->backlog_bytes + from;
	count = m->count - from;
	for (i = 0; i < count; i++)
		sum += steady[i];
	if (count)
		qsort(steady, count, sizeof(*steady), compare_u32);
	o = json_pack("{s:s, s:i, s:f, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I}", "device",
		m->opt->device, "root_major", (int)(m->handle >> 16), "seconds",
		seconds_of(m->ticks), "samples", (json_int_t)m->count, "samples_steady",
		(json_int_t)count, "missed_ticks", (json_int_t)m->missed_ticks, "mean_bytes",
		count ? sum / count : 0, "p50_bytes", (json_int_t)quantile(steady, count, 500),
		"p99_bytes", (json_int_t)quantile(steady, count, 990), "max_bytes", (json_int_t)max,
		"drops", (json_int_t)drops_seen(m));
	if (!o || json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12)) ||
		putchar('\n') == EOF || fflush(stdout))
		errx(1, "standard output: the report was not written");
	json_decref(o);
}

static int open_timer(void)
{
	struct itimerspec every = {{0, TICK_NS}, {0, TICK_NS}};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (fd < 0 || timerfd_settime(fd, 0, &every, NULL))
		err(1, "timer");
	return fd;
}

static int open_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		err(1, "signals");
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		err(1, "signals");
	return fd;
}

static void open_netlink(struct monitor *m)
{
	struct timeval timeout = {
		.tv_usec = REPLY_TIMEOUT_MS * 1000 % 1000000, .tv_sec = REPLY_TIMEOUT_MS / 1000};
	struct reading first;

	m->ifindex = if_nametoindex(m->opt->device);
	if (!m->ifindex)
		errx(1, "%s: no such interface", m->opt->device);
	m->nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!m->nl || mnl_socket_bind(m->nl, 0, MNL_SOCKET_AUTOPID) < 0)
		err(1, "netlink");
	setsockopt(mnl_socket_get_fd(m->nl), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	read_root(m, &first);
	m->handle = first.handle;
	m->drops = first.drops;
	m->drops_before = -first.drops; /* what was lost before we came is not ours to count */
}

static void open_csv(struct monitor *m)
{
	if (!m->opt->csv_path)
		return;
	m->csv = fopen(m->opt->csv_path, "we");
	if (!m->csv)
		err(1, "%s", m->opt->csv_path);
	fputs("seconds,mean_bytes,max_bytes,drops\n", m->csv);
}

/* Busy machines run a millisecond timer late; the samples should not be biased toward idle ones. */
static void ask_for_priority(void)
{
	struct sched_param param = {.sched_priority = 1};

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		warn("no real-time priority, ticks may be missed");
}

static void run(struct monitor *m)
{
	enum { TIMER, SIGNALS };
	struct pollfd fds[] = {
		[TIMER] = {.fd = open_timer(), .events = POLLIN},
		[SIGNALS] = {.fd = open_signals(), .events = POLLIN},
	};
	uint64_t expirations;

	while (!fds[SIGNALS].revents) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			err(1, "poll");
		if ((fds[TIMER].revents & POLLIN) &&
			read(fds[TIMER].fd, &expirations, sizeof(expirations)) ==
				sizeof(expirations))
			tick(m, expirations);
	}
}

static const struct argp_option options[] = {
	{"device", 'd', "IFACE", 0, "Interface to watch", 0},
	{"csv", 'o', "FILE", 0, "Write mean and largest backlog of each 100 ms", 0},
	{"progress", 'p', NULL, 0, "A line each second on standard error", 0},
	{0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;

	switch (key) {
	case 'd':
		opt->device = arg;
		return 0;
	case 'o':
		opt->csv_path = arg;
		return 0;
	case 'p':
		opt->progress = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s': unexpected argument", arg);
		return EINVAL;
	case ARGP_KEY_END:
		if (!opt->device)
			argp_error(state, "--device is missing");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.doc = "Watch a root qdisc each millisecond until SIGTERM, then report as JSON.",
	};
	struct options opt = {0};
	struct monitor m = {.opt = &opt};

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	open_netlink(&m);
	open_csv(&m);
	ask_for_priority();
	run(&m);
	report(&m);
	if (m.csv && fclose(m.csv))
		err(1, "%s", opt.csv_path);
	return 0;
}
