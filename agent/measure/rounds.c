// SPDX-License-Identifier: BSD-2-Clause
// Rounds of pausing: a gate is closed, its queue is filled past XOFF, the gate is opened, it
// drains.
#include "measure/rounds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "measure/place.h"
#include "netlink/tc.h"
#include "quench/abi.h"
#include "quench/build.h"

enum {
	DATA_BYTES = 1000,
	FRAMES_MAX = 1000, /* that may go in before XOFF */
	ANSWER_NS = 2000000000,
	CROSSING_NS = 20000000, /* a frame that has passed the mark has an XOFF by then */
	REST_MIN_US = 200,	/* between two rounds: queues drain, agents fall asleep */
	REST_SPREAD_US = 500,
};

struct rounds {
	struct place *place;
	int frames_fd;	/* sends */
	int pfc_fd;	/* what the agent tells `from` */
	int arrived_fd; /* what `to` gets */
	int tc_fd;	/* what the kernel tells of changed qdiscs */
	uint8_t data[DATA_BYTES];
	uint32_t filling; /* frames that fill the closed queue to its mark */
	uint64_t *closed_ns, *opened_ns, *xoff_ns;
	uint32_t n, crossings;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void rest(void)
{
	const struct timespec ts = {.tv_nsec = 1000l * (REST_MIN_US + rand() % REST_SPREAD_US)};

	nanosleep(&ts, NULL);
}

/* ---- frames ---- */

static uint16_t ip_checksum(const struct iphdr *ip)
{
	const uint16_t *words = (const uint16_t *)ip;
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(*ip) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

/* A datagram of the lossless class that nobody listens to. */
static void build_data(struct rounds *r)
{
	struct ethhdr *eth = (struct ethhdr *)r->data;
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tos = PLACE_DSCP << 2,
		.tot_len = htons(DATA_BYTES - sizeof(*eth)),
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.saddr = htonl(0xc0000201),
		.daddr = htonl(0xc0000202),
	};
	struct udphdr udp = {
		.source = htons(9),
		.dest = htons(9),
		.len = htons(DATA_BYTES - sizeof(*eth) - sizeof(ip)),
	};

	ip.check = ip_checksum(&ip);
	memcpy(eth->h_dest, r->place->to.mac, ETH_ALEN);
	memcpy(eth->h_source, r->place->from.mac, ETH_ALEN);
	eth->h_proto = htons(ETH_P_IP);
	memcpy(r->data + sizeof(*eth), &ip, sizeof(ip));
	memcpy(r->data + sizeof(*eth) + sizeof(ip), &udp, sizeof(udp));
}

static int send_frame(struct rounds *r, int ifindex, const void *frame, size_t size)
{
	const struct sockaddr_ll to = {
		.sll_family = AF_PACKET, .sll_ifindex = ifindex, .sll_halen = ETH_ALEN};

	return sendto(r->frames_fd, frame, size, 0, (const struct sockaddr *)&to, sizeof(to)) < 0
		       ? -errno
		       : 0;
}

static int send_data(struct rounds *r)
{
	return send_frame(r, r->place->from.ifindex, r->data, sizeof(r->data));
}

/* The neighbour that the queue drains to says XOFF, for as long as it can, or XON. */
static int send_pause(struct rounds *r, bool xoff)
{
	uint16_t quanta[8] = {[PLACE_PRIORITY] = xoff ? 0xffff : 0};
	uint8_t frame[MAC_CONTROL_FRAME_BYTES] __attribute__((aligned(8)));

	wire_build_pfc(frame, r->place->to.mac, 1 << PLACE_PRIORITY, quanta);
	return send_frame(r, r->place->to.ifindex, frame, sizeof(frame));
}

/* ---- waiting: without sleep, which would be measured too ---- */

/* Has the kernel said that the gate is now closed, or open? */
static bool gate_is(struct rounds *r, bool closed)
{
	_Alignas(struct nlmsghdr) char buf[8192];
	ssize_t size = recv(r->tc_fd, buf, sizeof(buf), MSG_DONTWAIT);
	const struct nlmsghdr *nlh = (const struct nlmsghdr *)buf;
	struct tc_object obj;
	bool is = false;
	int left, ifindex;

	for (left = (int)size; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
		if (tc_parse(nlh, rtnl_tick_ns(r->place->nl), &ifindex, &obj) &&
			ifindex == r->place->to_port.ifindex && obj.kind == TC_TBF &&
			obj.handle == TREE_HANDLE(TREE_GATE))
			is = obj.tbf.closed == closed;
	return is;
}

static int wait_gate(struct rounds *r, bool closed, uint64_t *at_ns)
{
	uint64_t late_ns = now_ns() + ANSWER_NS;

	while (!gate_is(r, closed)) {
		if (now_ns() > late_ns)
			return -ETIME;
		sched_yield();
	}
	*at_ns = now_ns();
	return 0;
}

/* When the kernel took the frame in. */
static uint64_t stamp_ns(struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct timespec ts = {};

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS)
		memcpy(&ts, CMSG_DATA(c), sizeof(ts));
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* One PFC frame about the priority, if there is one: its arrival on CLOCK_REALTIME, else 0. */
static uint64_t take_pfc(struct rounds *r, bool *xoff)
{
	uint8_t frame[ETH_FRAME_LEN] __attribute__((aligned(8)));
	const struct wire_mac_control *m = (const void *)(frame + ETH_HLEN);
	char control[64];
	struct iovec iov = {frame, sizeof(frame)};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};

	if (recvmsg(r->pfc_fd, &msg, MSG_DONTWAIT) < MAC_CONTROL_FRAME_BYTES ||
		!(ntohs(m->classes) >> PLACE_PRIORITY & 1))
		return 0;
	*xoff = m->time[PLACE_PRIORITY];
	return stamp_ns(&msg);
}

static int wait_pfc(struct rounds *r, bool want_xoff, uint64_t wait_ns, uint64_t *at_ns)
{
	uint64_t late_ns = now_ns() + wait_ns;
	bool xoff = false;

	do {
		*at_ns = take_pfc(r, &xoff);
		if (*at_ns && xoff == want_xoff)
			return 0;
		sched_yield();
	} while (now_ns() < late_ns);
	return -ETIME;
}

static void forget_news(struct rounds *r)
{
	const int fds[] = {r->pfc_fd, r->arrived_fd, r->tc_fd};
	char buf[8192];

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		while (recv(fds[i], buf, sizeof(buf), MSG_DONTWAIT) >= 0)
			;
}

/* ---- a round ---- */

static int close_gate(struct rounds *r, struct qerr *err)
{
	uint64_t start_ns = now_ns(), end_ns;

	if (send_pause(r, true) || wait_gate(r, true, &end_ns))
		return qerr_set(err, -ETIME, "a pause frame came in, and no gate was closed");
	r->closed_ns[r->n] = end_ns - start_ns;
	return 0;
}

static int open_gate(struct rounds *r, struct qerr *err)
{
	uint64_t start_ns = now_ns(), end_ns;

	if (send_pause(r, false) || wait_gate(r, false, &end_ns))
		return qerr_set(err, -ETIME, "an XON came in, and no gate was opened");
	r->opened_ns[r->n] = end_ns - start_ns;
	return 0;
}

/* What fills the queue to its mark goes in at once; then frame by frame, until one passes it. */
static int fill_past_mark(struct rounds *r, struct qerr *err)
{
	uint64_t start_ns, end_ns;

	for (uint32_t i = 0; i < FRAMES_MAX; i++) {
		start_ns = clock_ns(CLOCK_REALTIME);
		if (send_data(r))
			return qerr_set(err, -EIO, "frames cannot be sent");
		if (i < r->filling || wait_pfc(r, true, CROSSING_NS, &end_ns))
			continue;
		if (end_ns > start_ns) /* else an earlier frame did it */
			r->xoff_ns[r->crossings++] = end_ns - start_ns;
		r->filling = i;
		return 0;
	}
	return qerr_set(
		err, -ETIME, "%d frames went into a closed queue without an XOFF", FRAMES_MAX);
}

static int drain(struct rounds *r, struct qerr *err)
{
	uint64_t end_ns;

	if (wait_pfc(r, false, ANSWER_NS, &end_ns))
		return qerr_set(err, -ETIME, "a queue has drained, and no XON was sent");
	return 0;
}

static int round_run(struct rounds *r, struct qerr *err)
{
	int code;

	rest();
	forget_news(r);
	code = close_gate(r, err);
	if (!code)
		code = fill_past_mark(r, err);
	if (!code)
		code = open_gate(r, err);
	return code ? code : drain(r, err);
}

/* ---- all rounds ---- */

static int open_frames(int ifindex, uint16_t protocol, struct qerr *err)
{
	const struct sockaddr_ll at = {
		.sll_family = AF_PACKET, .sll_protocol = htons(protocol), .sll_ifindex = ifindex};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || (ifindex && bind(fd, (const struct sockaddr *)&at, sizeof(at))) ||
		setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)))
		return qerr_set(err, -errno, "cannot see frames: %s", strerror(errno));
	return fd;
}

static int open_tc(struct qerr *err)
{
	const struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_TC};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&addr, sizeof(addr)))
		return qerr_set(err, -errno, "cannot watch qdiscs: %s", strerror(errno));
	return fd;
}

static int open_all(struct rounds *r, struct qerr *err)
{
	r->frames_fd = open_frames(0, 0, err);
	r->pfc_fd = open_frames(r->place->from.ifindex, ETHERTYPE_MAC_CONTROL, err);
	r->arrived_fd = open_frames(r->place->to.ifindex, ETH_P_IP, err);
	r->tc_fd = open_tc(err);
	return r->frames_fd < 0 || r->pfc_fd < 0 || r->arrived_fd < 0 || r->tc_fd < 0 ? -EIO : 0;
}

/* A bridge forwards once it has noticed that its ports are up. */
static int wait_forwarding(struct rounds *r, struct qerr *err)
{
	uint64_t late_ns = now_ns() + 5 * (uint64_t)ANSWER_NS;
	char buf[64];

	while (recv(r->arrived_fd, buf, sizeof(buf), MSG_DONTWAIT) < 0) {
		if (now_ns() > late_ns)
			return qerr_set(err, -ETIME, "no frame comes through the bridge");
		send_data(r);
		rest();
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static struct rounds_times times_of(uint64_t *ns, uint32_t n)
{
	qsort(ns, n, sizeof(*ns), compare);
	return (struct rounds_times){ns[(n - 1) / 2], ns[(n * 99ull + 99) / 100 - 1], ns[n - 1]};
}

/* The first round finds out how many frames it takes, and does not count. */
static int measure(struct rounds *r, uint32_t rounds, struct qerr *err)
{
	int code = wait_forwarding(r, err);

	if (!code)
		code = round_run(r, err);
	r->crossings = 0;
	while (r->n < rounds && !code) {
		code = round_run(r, err);
		r->n++;
	}
	if (!code && !r->crossings)
		code = qerr_set(err, -EIO, "no XOFF could be told the frame that it came from");
	return code;
}

static int run(struct place *place, void *result, void *arg, struct qerr *err)
{
	uint32_t rounds = *(const uint32_t *)arg;
	struct rounds r = {.place = place};
	struct rounds_result *out = result;
	int code;

	r.closed_ns = calloc(3 * ((size_t)rounds + 1), sizeof(uint64_t));
	if (!r.closed_ns)
		return qerr_set(err, -ENOMEM, "out of memory");
	r.opened_ns = r.closed_ns + rounds + 1;
	r.xoff_ns = r.opened_ns + rounds + 1;
	code = open_all(&r, err);
	build_data(&r);
	if (!code)
		code = measure(&r, rounds, err);
	if (code) {
		place_check_agent(place, err); /* if it ended, that is why */
		return code;
	}
	out->closed = times_of(r.closed_ns, r.n);
	out->opened = times_of(r.opened_ns, r.n);
	out->xoff = times_of(r.xoff_ns, r.crossings);
	return 0;
}

int rounds_run(uint32_t rounds, const struct policy_realtime *realtime,
	struct rounds_result *result, struct qerr *err)
{
	return place_run(realtime, run, result, sizeof(*result), &rounds, err);
}
