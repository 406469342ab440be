/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the lab's peer meets the kernel: raw IP sockets to send, so that routing and the egress qdisc
 * see every frame and push back; an AF_PACKET ring to receive, so that TOS and header are seen.
 */
#ifndef RCPEER_NET_H
#define RCPEER_NET_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "rcpeer_address.h"

#define NSEC_PER_SEC  1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull
#define NEVER_NS      UINT64_MAX

enum {
	TX_BATCH = 8,
	TX_FIX_DELAY_MS = 1, /* after the qdisc or the neighbour refused a frame */
	CONTROL_SNDBUF_BYTES = 1 << 20,
	RX_HEADROOM_BYTES = 160, /* TPACKET2_HDRLEN, alignment, Ethernet header and tags */
	EVENTS_MAX = 64,
	QPS_PER_HOST = 0x100, /* QPNs between the bases of two hosts */
	L3_END = L3_IPV6 + 1, /* tables by enum wire_l3 go this far; L3_NONE is an empty row */
};

/* What the sockets of the two families differ in. */
static const struct l3_socket {
	int family, level, report_errors;
	__u16 ethertype;
} l3_sockets[L3_END] = {
	[L3_IPV4] = {AF_INET, SOL_IP, IP_RECVERR, ETH_P_IP},
	[L3_IPV6] = {AF_INET6, SOL_IPV6, IPV6_RECVERR, ETH_P_IPV6},
};

/* A raw socket of its own for each QP: a QP that its qdisc holds back must not hold the others. */
struct tx_socket {
	int fd;
	bool blocked;	/* waits for EPOLLOUT */
	__u64 retry_ns; /* do not try before: the stack refused */
	__u64 refused;	/* ENOBUFS and the like; each was tried again */
	int refused_errno;
};

/* Frames on their way into one sendmmsg. A batch is filled and sent at once, so one is enough. */
struct tx_batch {
	unsigned int count;
	struct frame_head head[TX_BATCH];
	__u8 tail[TX_BATCH][TAIL_BYTES_MAX];
	struct iovec iov[TX_BATCH][3];
	union address_socket dst[TX_BATCH];
	struct mmsghdr msgs[TX_BATCH];
};

struct rx_ring {
	int fd;
	__u8 *slots;
	unsigned int slot_bytes, slot_count, next;
	__u64 dropped; /* by the kernel, for want of a slot */
};

struct rx_frame {
	const __u8 *data;
	unsigned int len;
	__u64 wall_ns; /* CLOCK_REALTIME, when the kernel got it */
	bool icrc_ok;
	struct wire_frame wire;
};

struct peer {
	const char *ifname;
	int ifindex;
	unsigned int if_mtu;
	struct address addrs[ADDRESSES_MAX]; /* a requester has one, a responder all */
	unsigned int addr_count;
	__u8 tos;
	int epoll_fd, signal_fd;
	bool stop;	     /* a signal asked for the end */
	bool speaks[L3_END]; /* the families of addrs; what follows is there for these */
	struct rx_ring rx[L3_END];
	struct tx_socket control[L3_END]; /* CM and ACKs */
	struct tx_batch batch;
	__u32 cm_psn;
	__u64 icrc_bad, ip_checksum_bad, not_understood, not_mine, cnps;
};

static __u64 clock_read_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static __u64 now_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

static __u64 wall_ns(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}

static __u64 min_u64(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __u32 random_u32(void)
{
	__u32 v;

	if (getrandom(&v, sizeof(v), 0) != sizeof(v))
		err(1, "getrandom");
	return v;
}

static unsigned int interface_mtu(const char *ifname)
{
	struct ifreq req = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", ifname);
	if (fd < 0 || ioctl(fd, SIOCGIFMTU, &req))
		err(1, "MTU of %s", ifname);
	close(fd);
	return req.ifr_mtu;
}

/* Of all addresses keep one that can talk to the server. */
static void peer_choose_address(struct peer *p, const struct address *server)
{
	enum address_scope scope = address_scope(server->word);
	unsigned int i;

	for (i = 0; i < p->addr_count; i++)
		if (address_scope(p->addrs[i].word) == scope)
			break;
	if (i == p->addr_count)
		errx(1, "%s: has no address that can reach the server's", p->ifname);
	p->addrs[0] = p->addrs[i];
	p->addr_count = 1;
}

/* p->ifname is set. A responder has no server: it answers on each of its addresses. */
static void peer_find_interface(struct peer *p, const struct address *server)
{
	unsigned int i;

	p->ifindex = if_nametoindex(p->ifname);
	if (!p->ifindex)
		errx(1, "%s: no such interface", p->ifname);
	p->if_mtu = interface_mtu(p->ifname);
	p->addr_count = interface_addresses(p->ifname, p->addrs);
	if (!p->addr_count)
		errx(1, "%s: has no address", p->ifname);
	if (server)
		peer_choose_address(p, server);
	for (i = 0; i < p->addr_count; i++)
		p->speaks[address_is_ipv4(p->addrs[i].word) ? L3_IPV4 : L3_IPV6] = true;
}

static bool peer_has_address(const struct peer *p, const __be32 addr[4])
{
	unsigned int i;

	for (i = 0; i < p->addr_count; i++)
		if (address_equal(p->addrs[i].word, addr))
			return true;
	return false;
}

/* The last byte of the first address tells hosts' QPNs apart. */
static __u32 peer_qpn_base(const struct peer *p, __u32 role_base)
{
	return role_base | (WIRE_NTOHL(p->addrs[0].word[3]) & 0xff) * QPS_PER_HOST;
}

static void attach_filter(int fd, struct sock_filter *code, unsigned int len, const char *what)
{
	struct sock_fprog prog = {.len = len, .filter = code};

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)))
		err(1, "%s: socket filter", what);
}

/*
 * Own the port, or the kernel answers every frame with "port unreachable". Takes nothing: what
 * comes is read from the ring. Shared, so that a requester and a responder can live on one host.
 * Stays open until the program ends.
 */
static void open_sink(const struct l3_socket *l3)
{
	struct sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
	union address_socket any = {.any.sa_family = l3->family};
	int one = 1, fd = socket(l3->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		err(1, "UDP socket");
	any.in.sin_port = htons(ROCE_V2_UDP_PORT);
	attach_filter(fd, drop_all, 1, "UDP sink");
	if (l3->family == AF_INET6 &&
		(setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &one, sizeof(one)) ||
			setsockopt(fd, SOL_UDP, UDP_NO_CHECK6_RX, &one, sizeof(one))))
		err(1, "UDP sink for IPv6");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
		bind(fd, &any.any, sizeof(any)))
		err(1, "UDP port %d", ROCE_V2_UDP_PORT);
}

/*
 * Whole UDP datagrams to port 4791, to this host (not flooded past it). Longer frames than a slot
 * holds are not for this program: a requester shares its host with a responder.
 */
static void rx_attach_filter(int fd, unsigned int frame_bytes)
{
	struct sock_filter roce_to_us[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_PKTTYPE),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, 0, 15),
		BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, ETH_HEADER_BYTES + frame_bytes, 13, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_PROTOCOL),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 7, 0),
		/* IPv4 */
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_HEADER_BYTES + 9),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IP_PROTO_UDP, 0, 9),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ETH_HEADER_BYTES + 6),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, 7, 0),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, ETH_HEADER_BYTES),
		BPF_STMT(BPF_LD | BPF_H | BPF_IND, ETH_HEADER_BYTES + 2),
		BPF_JUMP(BPF_JMP | BPF_JA, 3, 0, 0),
		/* IPv6 */
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_HEADER_BYTES + 6),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IP_PROTO_UDP, 0, 2),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ETH_HEADER_BYTES + IPV6_HEADER_BYTES + 2),
		/* either */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_V2_UDP_PORT, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, 0x40000),
	};

	attach_filter(fd, roce_to_us, sizeof(roce_to_us) / sizeof(roce_to_us[0]), "ring");
}

static unsigned int power_of_two_from(unsigned int v)
{
	unsigned int p = 1;

	while (p < v)
		p *= 2;
	return p;
}

/*
 * A ring of slot_count slots that hold frames of frame_bytes behind their Ethernet header. Bound to
 * one ethertype rather than to all: it then sits behind tc ingress, where the host's own stack
 * would be, and sees nothing of what leaves.
 */
static void rx_open(struct rx_ring *rx, const struct peer *p, __u16 ethertype,
	unsigned int frame_bytes, unsigned int slot_count)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ethertype),
		.sll_ifindex = p->ifindex,
	};
	unsigned int slot_bytes = power_of_two_from(frame_bytes + RX_HEADROOM_BYTES);
	unsigned int block_bytes = slot_bytes > 65536 ? slot_bytes : 65536;
	unsigned int per_block = block_bytes / slot_bytes;
	struct tpacket_req req = {
		.tp_block_size = block_bytes,
		.tp_block_nr = (slot_count + per_block - 1) / per_block,
		.tp_frame_size = slot_bytes,
	};
	int version = TPACKET_V2;

	req.tp_frame_nr = req.tp_block_nr * per_block;
	rx->slot_bytes = slot_bytes;
	rx->slot_count = req.tp_frame_nr;
	rx->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (rx->fd < 0)
		err(1, "AF_PACKET socket");
	rx_attach_filter(rx->fd, frame_bytes);
	if (setsockopt(rx->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
		setsockopt(rx->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)))
		err(1, "AF_PACKET ring of %u slots of %u bytes", req.tp_frame_nr, slot_bytes);
	rx->slots = mmap(NULL, (size_t)req.tp_block_nr * block_bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED, rx->fd, 0);
	if (rx->slots == MAP_FAILED)
		err(1, "AF_PACKET ring");
	if (bind(rx->fd, (struct sockaddr *)&at, sizeof(at)))
		err(1, "AF_PACKET bind");
}

static struct tpacket2_hdr *rx_slot(const struct rx_ring *rx)
{
	return (struct tpacket2_hdr *)(rx->slots + (size_t)rx->next * rx->slot_bytes);
}

/* The frame at the head of the ring, until rx_release; NULL when there is none. */
static const struct tpacket2_hdr *rx_head(const struct rx_ring *rx)
{
	const struct tpacket2_hdr *h = rx_slot(rx);

	return __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER ? h : NULL;
}

static void rx_release(struct rx_ring *rx)
{
	__atomic_store_n(&rx_slot(rx)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	rx->next = (rx->next + 1) % rx->slot_count;
}

/* The kernel forgets its count at each reading, so it is kept here. */
static void rx_read_drops(struct rx_ring *rx)
{
	struct tpacket_stats stats;
	socklen_t len = sizeof(stats);

	if (!getsockopt(rx->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len))
		rx->dropped += stats.tp_drops;
}

static bool ipv4_checksum_ok(const __u8 *ip)
{
	unsigned int len = (ip[0] & 0x0f) * 4;
	unsigned int i;
	__u32 sum = 0;

	for (i = 0; i < len; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* Judge a frame as a NIC would; false when it is to be dropped, which is counted by cause. */
static bool peer_accept_frame(struct peer *p, struct rx_frame *f)
{
	wire_frame_init(&f->wire);
	wire_parse(f->data, f->data + f->len, &f->wire);
	if (f->wire.l3 >= L3_END || !frame_has_icrc(&f->wire, f->len) ||
		f->wire.kind == WIRE_UNKNOWN_OPCODE) {
		p->not_understood++;
		return false;
	}
	if (!peer_has_address(p, f->wire.key.dst)) {
		p->not_mine++;
		return false;
	}
	if (f->wire.l3 == L3_IPV4 && !ipv4_checksum_ok(f->data + f->wire.l3_off)) {
		p->ip_checksum_bad++;
		return false;
	}
	f->icrc_ok = icrc_of_frame(f->data, &f->wire) == icrc_on_wire(f->data, &f->wire);
	if (!f->icrc_ok && f->wire.kind != WIRE_CNP) { /* CNPs are counted per QP */
		p->icrc_bad++;
		return false;
	}
	return true;
}

typedef void (*peer_frame_fn)(void *ctx, const struct rx_frame *f);

/* Hand at most budget frames of one ring to fn; true when it may hold more. */
static bool rx_receive(
	struct peer *p, struct rx_ring *rx, unsigned int budget, peer_frame_fn fn, void *ctx)
{
	const struct tpacket2_hdr *h;
	struct rx_frame f;

	for (; budget; budget--) {
		h = rx_head(rx);
		if (!h)
			return false;
		f.data = (const __u8 *)h + h->tp_mac;
		f.len = h->tp_snaplen;
		f.wall_ns = h->tp_sec * NSEC_PER_SEC + h->tp_nsec;
		if (peer_accept_frame(p, &f))
			fn(ctx, &f);
		rx_release(rx);
	}
	return true;
}

/* Hand at most budget frames of each family to fn; true when there may be more. */
static bool peer_receive(struct peer *p, unsigned int budget, peer_frame_fn fn, void *ctx)
{
	bool more = false;
	int l3;

	for (l3 = 0; l3 < L3_END; l3++)
		if (p->speaks[l3])
			more |= rx_receive(p, &p->rx[l3], budget, fn, ctx);
	return more;
}

static void epoll_watch(int epoll_fd, int op, int fd, __u32 events, __u64 tag)
{
	struct epoll_event ev = {.events = events, .data.u64 = tag};

	if (epoll_ctl(epoll_fd, op, fd, &ev))
		err(1, "epoll_ctl");
}

/*
 * Frames that wait in a qdisc are charged to the socket, so sndbuf_bytes is how much of this QP the
 * egress queue may hold before sendmmsg says EAGAIN: back-pressure instead of drops. report_errors
 * makes a raw socket report a frame that the qdisc dropped (ENOBUFS) instead of hiding it.
 * IPPROTO_RAW: whoever sends writes the IP header, in either family, so what is on the wire is what
 * head_close left.
 */
static void tx_open(
	struct tx_socket *tx, const struct l3_socket *l3, const char *ifname, int sndbuf_bytes)
{
	int one = 1;

	memset(tx, 0, sizeof(*tx));
	tx->fd = socket(l3->family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW);
	if (tx->fd < 0)
		err(1, "raw socket");
	if (setsockopt(tx->fd, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf_bytes, sizeof(sndbuf_bytes)) ||
		setsockopt(tx->fd, l3->level, l3->report_errors, &one, sizeof(one)) ||
		setsockopt(tx->fd, SOL_SOCKET, SO_BINDTODEVICE, ifname, strlen(ifname) + 1))
		err(1, "raw socket options");
}

static bool tx_ready(const struct tx_socket *tx, __u64 now)
{
	return !tx->blocked && tx->retry_ns <= now;
}

/* Bytes of memory that frames of this socket take in the egress queue; 0 when all have left. */
static int tx_queued_bytes(const struct tx_socket *tx)
{
	int queued = 0;

	if (ioctl(tx->fd, SIOCOUTQ, &queued))
		err(1, "SIOCOUTQ");
	return queued;
}

static bool batch_full(const struct tx_batch *b)
{
	return b->count == TX_BATCH;
}

/* The place for the next frame's headers; the frame counts once batch_add has closed it. */
static struct frame_head *batch_begin(struct tx_batch *b, const struct peer_path *path)
{
	struct frame_head *h = &b->head[b->count];

	head_begin(h, path);
	return h;
}

/* Close the frame begun last and add it. payload must live until batch_send. */
static void batch_add(struct tx_batch *b, const struct peer_path *path, const void *payload,
	unsigned int payload_bytes, unsigned int pad)
{
	struct frame_head *h = &b->head[b->count];
	struct iovec *iov = b->iov[b->count];
	union address_socket *dst = &b->dst[b->count];
	__u8 *tail = b->tail[b->count];

	iov[2] = (struct iovec){tail, head_close(h, payload, payload_bytes, pad, tail)};
	iov[0] = (struct iovec){h->bytes, h->len};
	iov[1] = (struct iovec){(void *)payload, payload_bytes};
	b->msgs[b->count].msg_hdr = (struct msghdr){
		.msg_name = dst,
		.msg_namelen = address_to_socket(path->dst, 0, dst),
		.msg_iov = iov,
		.msg_iovlen = 3,
	};
	b->count++;
}

/* A queued error (there is an error queue with report_errors) would keep the socket ready for ever.
 */
static void tx_drain_errors(struct tx_socket *tx)
{
	__u8 scratch[256];

	while (recv(tx->fd, scratch, sizeof(scratch), MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
		;
}

/*
 * Empty the batch into the socket. Returns how many frames the stack took; when not all, tx says
 * when to try again. A frame that was refused was not sent: the caller still owns it.
 */
static unsigned int batch_send(struct tx_batch *b, struct tx_socket *tx, __u64 now)
{
	unsigned int sent = 0, count = b->count;
	int n;

	b->count = 0;
	while (sent < count) {
		n = sendmmsg(tx->fd, b->msgs + sent, count - sent, 0);
		if (n > 0) {
			sent += n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN) {
			tx->blocked = true;
			break;
		}
		if (errno == EMSGSIZE)
			errx(1, "a frame does not fit the path's MTU: choose a smaller --mtu");
		tx->refused++;
		tx->refused_errno = errno;
		tx->retry_ns = now + TX_FIX_DELAY_MS * NSEC_PER_MSEC;
		tx_drain_errors(tx);
		break;
	}
	return sent;
}

/* From here on SIGINT and SIGTERM are read from the descriptor that it returns. */
static int signals_open(void)
{
	sigset_t ends;
	int fd;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		err(1, "signalfd");
	return fd;
}

static bool signals_arrived(int fd)
{
	struct signalfd_siginfo info;

	return read(fd, &info, sizeof(info)) > 0;
}

/* Tags of the epoll events; QP n of the requester is TAG_QP + n. */
enum { TAG_RX, TAG_SIGNAL, TAG_CONTROL, TAG_QP = TAG_CONTROL + L3_END };

static void peer_open_l3(
	struct peer *p, enum wire_l3 l3, unsigned int frame_bytes, unsigned int slot_count)
{
	const struct l3_socket *row = &l3_sockets[l3];

	open_sink(row);
	rx_open(&p->rx[l3], p, row->ethertype, frame_bytes, slot_count);
	tx_open(&p->control[l3], row, p->ifname, CONTROL_SNDBUF_BYTES);
	epoll_watch(p->epoll_fd, EPOLL_CTL_ADD, p->rx[l3].fd, EPOLLIN, TAG_RX);
	epoll_watch(p->epoll_fd, EPOLL_CTL_ADD, p->control[l3].fd, EPOLLONESHOT, TAG_CONTROL + l3);
}

/*
 * Open everything but the QPs' sockets, for frames of up to frame_bytes behind Ethernet. The
 * interface was found and p->tos is set.
 */
static void peer_open(struct peer *p, unsigned int frame_bytes, unsigned int slot_count)
{
	int l3;

	p->signal_fd = signals_open();
	p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll_fd < 0)
		err(1, "epoll");
	epoll_watch(p->epoll_fd, EPOLL_CTL_ADD, p->signal_fd, EPOLLIN, TAG_SIGNAL);
	for (l3 = 0; l3 < L3_END; l3++)
		if (p->speaks[l3])
			peer_open_l3(p, l3, frame_bytes, slot_count);
	p->cm_psn = random_u32() & BTH_PSN_MASK;
}

/* Wake when the socket has room again. One shot: an idle socket is always writable. */
static void peer_watch_room(struct peer *p, const struct tx_socket *tx, __u64 tag)
{
	epoll_watch(p->epoll_fd, EPOLL_CTL_MOD, tx->fd, EPOLLOUT | EPOLLONESHOT, tag);
}

/* Sleep until a frame, a signal, room in a socket, or the deadline. Returns the events in ev. */
static int peer_wait(struct peer *p, __u64 deadline_ns, struct epoll_event ev[EVENTS_MAX])
{
	__u64 now = now_ns();
	__u64 wait_ns = deadline_ns > now ? deadline_ns - now : 0;
	struct timespec ts = {wait_ns / NSEC_PER_SEC, wait_ns % NSEC_PER_SEC};
	int i, n;

	n = epoll_pwait2(p->epoll_fd, ev, EVENTS_MAX, deadline_ns == NEVER_NS ? NULL : &ts, NULL);
	for (i = 0; i < n; i++) {
		if (ev[i].data.u64 == TAG_SIGNAL)
			p->stop |= signals_arrived(p->signal_fd);
		else if (ev[i].data.u64 >= TAG_CONTROL && ev[i].data.u64 < TAG_QP)
			p->control[ev[i].data.u64 - TAG_CONTROL].blocked = false;
	}
	return n < 0 ? 0 : n;
}

#endif
