/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What shares the network with RoCE: `rcpeer noise` sends plain UDP at a rate and TCP as fast as it
 * goes, `rcpeer sink` takes them and counts. Both on one port, through the host's own stack.
 */
#ifndef RCPEER_NOISE_H
#define RCPEER_NOISE_H

#include <netinet/tcp.h>
#include <linux/sock_diag.h>

#include "rcpeer_report.h"

enum {
	NOISE_BURST_MS =
		10, /* a UDP sender that was held back longer than this does not catch up */
	NOISE_TURN_CHUNKS = 16,
	NOISE_CHUNK_BYTES = 65536,
	NOISE_CONNECT_S = 5,
	NOISE_DRAIN_MS = 2000, /* for the sink to take what TCP still has */
	SINK_RCVBUF_BYTES = 8 << 20,
	SINK_BACKLOG = 64,
};

enum noise_kind { NOISE_UDP, NOISE_TCP, NOISE_KINDS };

static const struct {
	const char *name;
	int type;
} noise_kinds[NOISE_KINDS] = {
	[NOISE_UDP] = {"udp", SOCK_DGRAM},
	[NOISE_TCP] = {"tcp", SOCK_STREAM},
};

/* The DSCP's socket option. */
static const struct {
	int level, name;
} tos_options[L3_END] = {
	[L3_IPV4] = {SOL_IP, IP_TOS},
	[L3_IPV6] = {SOL_IPV6, IPV6_TCLASS},
};

struct noise_options {
	const char *server;
	struct address server_address;
	double udp_mbit, duration_s;
	bool tcp;
	__u64 port, dscp, datagram_bytes;
};

struct noise_stream {
	bool wanted, broken;
	int fd;
	bool blocked; /* waits for room */
	__u64 bytes, writes;
	__u64 skipped_bytes; /* of UDP's rate, held back for too long */
	__u64 refused;
};

struct noise {
	const struct noise_options *opt;
	struct noise_stream streams[NOISE_KINDS];
	int signal_fd;
	bool stop;
	__u64 start_ns, end_ns, start_wall_ns;
	__u8 chunk[NOISE_CHUNK_BYTES];
};

static int noise_connect(const struct noise_options *opt, enum noise_kind kind)
{
	enum wire_l3 l3 = address_is_ipv4(opt->server_address.word) ? L3_IPV4 : L3_IPV6;
	struct timeval patience = {.tv_sec = NOISE_CONNECT_S};
	union address_socket to;
	socklen_t len = address_to_socket(opt->server_address.word, opt->port, &to);
	int tos = opt->dscp << 2;
	int fd = socket(l3_sockets[l3].family, noise_kinds[kind].type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		err(1, "%s socket", noise_kinds[kind].name);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) ||
		setsockopt(fd, tos_options[l3].level, tos_options[l3].name, &tos, sizeof(tos)))
		err(1, "%s socket options", noise_kinds[kind].name);
	if (connect(fd, &to.any, len))
		err(1, "%s: %s port %llu", opt->server, noise_kinds[kind].name, opt->port);
	return fd;
}

/* One write of at most len bytes; 0 when nothing was taken. */
static size_t noise_write(struct noise *n, struct noise_stream *s, size_t len)
{
	ssize_t put = send(s->fd, n->chunk, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (put >= 0) {
		s->bytes += put;
		s->writes++;
		return put;
	}
	if (errno == EAGAIN)
		s->blocked = true;
	else
		s->refused++;
	return 0;
}

/* UDP's bytes due by now, of which those that are too old are given up. */
static __u64 noise_udp_due(struct noise *n, struct noise_stream *s, __u64 now)
{
	double bytes_per_ns = n->opt->udp_mbit / 8e3;
	__u64 burst = bytes_per_ns * NOISE_BURST_MS * NSEC_PER_MSEC + n->opt->datagram_bytes;
	__u64 due = (now - n->start_ns) * bytes_per_ns - s->bytes - s->skipped_bytes;

	if (due > burst) {
		s->skipped_bytes += due - burst;
		due = burst;
	}
	return due;
}

/* Returns when the next datagram is due. */
static __u64 noise_send_udp(struct noise *n, __u64 now)
{
	struct noise_stream *s = &n->streams[NOISE_UDP];
	__u64 due, size = n->opt->datagram_bytes;

	if (!s->wanted || s->blocked)
		return NEVER_NS;
	for (due = noise_udp_due(n, s, now); due >= size; due -= size) {
		if (noise_write(n, s, size))
			continue;
		if (s->blocked)
			return NEVER_NS;
		s->skipped_bytes += size; /* refused: a plain datagram is lost then */
	}
	return now + (__u64)((size - due) * 8e3 / n->opt->udp_mbit) + 1;
}

static void noise_send_tcp(struct noise *n)
{
	struct noise_stream *s = &n->streams[NOISE_TCP];
	int i;

	if (!s->wanted || s->broken)
		return;
	for (i = 0; i < NOISE_TURN_CHUNKS && !s->blocked && !s->broken; i++)
		s->broken = !noise_write(n, s, sizeof(n->chunk)) && !s->blocked;
}

/* Sleep until a signal, room in a socket that was full, or the deadline. */
static void noise_wait(struct noise *n, __u64 deadline_ns)
{
	struct pollfd fds[1 + NOISE_KINDS] = {{.fd = n->signal_fd, .events = POLLIN}};
	__u64 now = now_ns(), wait_ns = deadline_ns > now ? deadline_ns - now : 0;
	struct timespec ts = {wait_ns / NSEC_PER_SEC, wait_ns % NSEC_PER_SEC};
	int i;

	for (i = 0; i < NOISE_KINDS; i++) {
		fds[1 + i].fd = n->streams[i].blocked ? n->streams[i].fd : -1;
		fds[1 + i].events = POLLOUT;
	}
	if (ppoll(fds, 1 + NOISE_KINDS, &ts, NULL) <= 0)
		return;
	for (i = 0; i < NOISE_KINDS; i++)
		if (fds[1 + i].revents)
			n->streams[i].blocked = false;
	if (fds[0].revents)
		n->stop |= signals_arrived(n->signal_fd);
}

static void noise_turn(struct noise *n)
{
	const struct noise_stream *tcp = &n->streams[NOISE_TCP];
	__u64 due_ns = noise_send_udp(n, now_ns());

	noise_send_tcp(n);
	if (tcp->wanted && !tcp->blocked && !tcp->broken)
		due_ns = 0;
	noise_wait(n, min_u64(due_ns, n->end_ns));
}

/* The sink closes its end when it has read all of ours. */
static void noise_drain_tcp(const struct noise_stream *s)
{
	struct pollfd sink = {.fd = s->fd, .events = POLLIN};

	if (!s->wanted || s->broken)
		return;
	shutdown(s->fd, SHUT_WR);
	poll(&sink, 1, NOISE_DRAIN_MS);
}

static void noise_put_tcp_info(json_t *o, int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len))
		return;
	put_count(o, "retransmits", info.tcpi_total_retrans);
	put_count(o, "rtt_us", info.tcpi_rtt);
}

static json_t *noise_stream_json(const struct noise *n, enum noise_kind kind, __u64 span_ns)
{
	const struct noise_stream *s = &n->streams[kind];
	json_t *o = json_object();

	put_count(o, "bytes", s->bytes);
	put_count(o, "bps", span_ns ? s->bytes * 8e9 / span_ns : 0);
	put_count(o, "refused", s->refused);
	if (kind == NOISE_TCP) {
		noise_put_tcp_info(o, s->fd);
		return o;
	}
	put_count(o, "datagrams", s->writes);
	put_count(o, "skipped_bytes", s->skipped_bytes);
	return o;
}

static json_t *noise_json(const struct noise *n, __u64 span_ns)
{
	json_t *o = json_object();
	int i;

	json_object_set_new(o, "role", json_string("noise"));
	json_object_set_new(o, "server", json_string(n->opt->server));
	put_seconds(o, "start_epoch", n->start_wall_ns);
	put_seconds(o, "seconds", span_ns);
	for (i = 0; i < NOISE_KINDS; i++)
		if (n->streams[i].wanted)
			json_object_set_new(
				o, noise_kinds[i].name, noise_stream_json(n, i, span_ns));
	return o;
}

/* Run until the time is over, a signal comes or TCP breaks; returns the exit code. */
static int noise_run(const struct noise_options *opt)
{
	static struct noise n;
	struct noise_stream *tcp = &n.streams[NOISE_TCP];
	__u64 span_ns;
	int i, rc;

	n.opt = opt;
	n.streams[NOISE_UDP].wanted = opt->udp_mbit > 0;
	tcp->wanted = opt->tcp;
	for (i = 0; i < NOISE_KINDS; i++)
		if (n.streams[i].wanted)
			n.streams[i].fd = noise_connect(opt, i);
	n.signal_fd = signals_open();
	n.start_wall_ns = wall_ns();
	n.start_ns = now_ns();
	n.end_ns = n.start_ns + (__u64)(opt->duration_s * 1e9);
	while (!n.stop && !tcp->broken && now_ns() < n.end_ns)
		noise_turn(&n);
	span_ns = now_ns() - n.start_ns;
	noise_drain_tcp(tcp);
	rc = report_print(noise_json(&n, span_ns));
	if (tcp->broken)
		warnx("%s: the TCP connection broke", opt->server);
	return rc || tcp->broken;
}

struct sink_options {
	__u64 port;
	double duration_s;
};

struct sink_total {
	__u64 bytes, reads, connections;
	__u64 first_wall_ns, last_wall_ns;
	struct timeline timeline;
};

struct sink {
	int epoll_fd, signal_fd;
	int listeners[L3_END][NOISE_KINDS]; /* -1 where the host does not speak the family */
	bool stop;
	struct sink_total totals[NOISE_KINDS];
	__u8 chunk[NOISE_CHUNK_BYTES];
};

/* What an epoll event is of, with the descriptor below it. */
enum sink_tag { SINK_SIGNAL, SINK_ACCEPT, SINK_UDP, SINK_TCP };

static void sink_watch(struct sink *k, int fd, enum sink_tag tag)
{
	epoll_watch(k->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN, (__u64)tag << 32 | fd);
}

/* -1 when the host does not speak the family. */
static int sink_bind(const struct l3_socket *l3, enum noise_kind kind, __u16 port)
{
	union address_socket any = {.any.sa_family = l3->family};
	int one = 1, bytes = SINK_RCVBUF_BYTES;
	int fd = socket(l3->family, noise_kinds[kind].type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	any.in.sin_port = htons(port);
	if (l3->family == AF_INET6 && setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &one, sizeof(one)))
		err(1, "IPV6_V6ONLY");
	if (kind == NOISE_UDP && setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		err(1, "SO_RCVBUFFORCE");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
		bind(fd, &any.any, sizeof(any)) || (kind == NOISE_TCP && listen(fd, SINK_BACKLOG)))
		err(1, "%s port %u", noise_kinds[kind].name, port);
	return fd;
}

static void sink_open(struct sink *k, const struct sink_options *opt)
{
	static const enum sink_tag tags[] = {[NOISE_UDP] = SINK_UDP, [NOISE_TCP] = SINK_ACCEPT};
	int l3, kind;

	k->signal_fd = signals_open();
	k->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (k->epoll_fd < 0)
		err(1, "epoll");
	sink_watch(k, k->signal_fd, SINK_SIGNAL);
	for (l3 = L3_IPV4; l3 < L3_END; l3++)
		for (kind = 0; kind < NOISE_KINDS; kind++) {
			k->listeners[l3][kind] = sink_bind(&l3_sockets[l3], kind, opt->port);
			if (k->listeners[l3][kind] >= 0)
				sink_watch(k, k->listeners[l3][kind], tags[kind]);
		}
}

static void sink_note(struct sink_total *total, ssize_t bytes)
{
	__u64 now = wall_ns(), slot_ns = TIMELINE_SLOT_MS * NSEC_PER_MSEC;

	if (!total->reads++) {
		total->first_wall_ns = now;
		total->timeline.start_ns = now - now % slot_ns;
	}
	total->last_wall_ns = now;
	total->bytes += bytes;
	timeline_add(&total->timeline, now, bytes);
}

static void sink_on_signal(struct sink *k, int fd)
{
	k->stop |= signals_arrived(fd);
}

static void sink_on_connection(struct sink *k, int fd)
{
	int connection = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (connection < 0)
		return;
	k->totals[NOISE_TCP].connections++;
	sink_watch(k, connection, SINK_TCP);
}

static void sink_on_udp(struct sink *k, int fd)
{
	ssize_t got;
	int i;

	for (i = 0; i < NOISE_TURN_CHUNKS; i++) {
		got = recv(fd, k->chunk, sizeof(k->chunk), MSG_DONTWAIT);
		if (got < 0)
			return;
		sink_note(&k->totals[NOISE_UDP], got);
	}
}

static void sink_on_tcp(struct sink *k, int fd)
{
	ssize_t got = recv(fd, k->chunk, sizeof(k->chunk), MSG_DONTWAIT);

	if (got > 0)
		sink_note(&k->totals[NOISE_TCP], got);
	else if (got == 0 || errno != EAGAIN)
		close(fd); /* and it leaves the epoll set */
}

static void sink_turn(struct sink *k, __u64 end_ns)
{
	static void (*const on_event[])(struct sink * k, int fd) = {
		[SINK_SIGNAL] = sink_on_signal,
		[SINK_ACCEPT] = sink_on_connection,
		[SINK_UDP] = sink_on_udp,
		[SINK_TCP] = sink_on_tcp,
	};
	struct epoll_event ev[EVENTS_MAX];
	__u64 now = now_ns(), wait_ns = end_ns > now ? end_ns - now : 0;
	struct timespec ts = {wait_ns / NSEC_PER_SEC, wait_ns % NSEC_PER_SEC};
	int i, n = epoll_pwait2(k->epoll_fd, ev, EVENTS_MAX, end_ns == NEVER_NS ? NULL : &ts, NULL);

	for (i = 0; i < n; i++)
		on_event[ev[i].data.u64 >> 32](k, (__u32)ev[i].data.u64);
}

/* Datagrams that the socket had no room for. */
static __u64 sink_drops(int fd)
{
	__u32 info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(info);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len))
		return 0;
	return info[SK_MEMINFO_DROPS];
}

static json_t *sink_total_json(const struct sink *k, enum noise_kind kind)
{
	const struct sink_total *total = &k->totals[kind];
	json_t *o = json_object();

	put_count(o, "bytes", total->bytes);
	put_seconds(o, "first_epoch", total->first_wall_ns);
	put_seconds(o, "last_epoch", total->last_wall_ns);
	put_seconds(o, "timeline_start_epoch", total->timeline.start_ns);
	json_object_set_new(o, "timeline", timeline_json(&total->timeline, 1));
	if (kind == NOISE_TCP) {
		put_count(o, "connections", total->connections);
		return o;
	}
	put_count(o, "datagrams", total->reads);
	put_count(o, "socket_drops",
		sink_drops(k->listeners[L3_IPV4][kind]) + sink_drops(k->listeners[L3_IPV6][kind]));
	return o;
}

static int sink_run(const struct sink_options *opt)
{
	static struct sink k;
	json_t *o = json_object();
	__u64 end_ns;
	int i;

	sink_open(&k, opt);
	end_ns = opt->duration_s > 0 ? now_ns() + (__u64)(opt->duration_s * 1e9) : NEVER_NS;
	while (!k.stop && now_ns() < end_ns)
		sink_turn(&k, end_ns);
	json_object_set_new(o, "role", json_string("sink"));
	for (i = 0; i < NOISE_KINDS; i++)
		json_object_set_new(o, noise_kinds[i].name, sink_total_json(&k, i));
	return report_print(o);
}

#endif
