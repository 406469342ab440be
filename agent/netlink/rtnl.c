// SPDX-License-Identifier: BSD-2-Clause
// One netlink socket. Everything that the kernel says about a request ends in its caller's qerr
// or, for batches, in the socket's faults.
#include "netlink/rtnl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

enum {
	BATCH_BYTES = 128 * 1024, /* under the default send buffer of 208 KiB */
	RECEIVE_BYTES = 64 * 1024,
	SOCKET_BUFFER_BYTES = 8 * 1024 * 1024,
	ANSWER_TIMEOUT_S = 5,
	DUMP_ATTEMPTS = 10,
	TICK_NS_DEFAULT = 64,
};

struct rtnl {
	struct mnl_socket *socket;
	int fd;
	uint32_t seq; /* the last one used */
	uint32_t tick_ns;
	char warning[RTNL_TEXT_MAX];
	struct rtnl_faults faults;
	uint32_t batch_seq; /* of the first request of the batch sent last */
	uint32_t batch_count;
	size_t batch_length;
	_Alignas(struct nlmsghdr) char batch[BATCH_BYTES];
	_Alignas(struct nlmsghdr) char receive[RECEIVE_BYTES];
};

/* A request under way and what has been seen of its answer. */
struct exchange {
	const struct nlmsghdr *request;
	mnl_cb_t cb;
	void *arg;
	bool done;
	bool interrupted; /* a dump that the kernel calls inconsistent */
	bool lost;	  /* messages were thrown away for want of room */
	int result;
	char text[RTNL_TEXT_MAX];
};

/* What the kernel adds to an error or a DONE message; linux/netlink.h, enum nlmsgerr_attrs. */
struct extack {
	const char *message;
	uint32_t offset;  /* of the attribute it means, in the request; 0: none */
	uint32_t missing; /* type of an attribute it wants; 0: none */
};

static int extack_attr(const struct nlattr *attr, void *arg)
{
	struct extack *ext = arg;

	switch (mnl_attr_get_type(attr)) {
	case NLMSGERR_ATTR_MSG:
		if (mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			ext->message = mnl_attr_get_str(attr);
		break;
	case NLMSGERR_ATTR_OFFS:
		if (mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
			ext->offset = mnl_attr_get_u32(attr);
		break;
	case NLMSGERR_ATTR_MISS_TYPE:
		if (mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
			ext->missing = mnl_attr_get_u32(attr);
		break;
	}
	return MNL_CB_OK;
}

/* The extack after skip bytes of payload, where the message has one. */
static struct extack extack_read(const struct nlmsghdr *nlh, size_t skip)
{
	struct extack ext = {0};

	if (nlh->nlmsg_flags & NLM_F_ACK_TLVS && mnl_nlmsg_get_payload_len(nlh) > skip)
		mnl_attr_parse(nlh, skip, extack_attr, &ext);
	return ext;
}

static struct extack extack_of_error(const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);
	size_t skip = sizeof(*e);

	if (!(nlh->nlmsg_flags & NLM_F_CAPPED) && e->error)
		skip += MNL_ALIGN(e->msg.nlmsg_len) - MNL_NLMSG_HDRLEN;
	return extack_read(nlh, skip);
}

/* "Exclusivity flag on, cannot modify (File exists), attribute 2"; request may be NULL. */
static void fault_text(
	char *text, size_t size, int code, const struct extack *ext, const struct nlmsghdr *request)
{
	const struct nlattr *attr;
	int n;

	n = ext->message ? snprintf(text, size, "%s (%s)", ext->message, strerror(-code))
			 : snprintf(text, size, "%s", strerror(-code));
	if (n < 0 || (size_t)n >= size)
		return;
	if (ext->missing) {
		snprintf(text + n, size - n, ", attribute %u is missing", ext->missing);
	} else if (ext->offset && request && ext->offset % MNL_ALIGNTO == 0 &&
		   ext->offset + sizeof(*attr) <= request->nlmsg_len) {
		attr = (const void *)((const char *)request + ext->offset);
		snprintf(text + n, size - n, ", attribute %u", mnl_attr_get_type(attr));
	}
}

/* The kernel's own codes go to 4095; anything beyond is no answer of its. */
static int sane_code(int code)
{
	return code < -4095 ? -EPROTO : code;
}

static void batch_fault(struct rtnl *nl, const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);
	struct rtnl_fault *fault = &nl->faults.last;
	struct extack ext = extack_of_error(nlh);

	fault->code = sane_code(e->error);
	fault->index = nlh->nlmsg_seq - nl->batch_seq;
	fault_text(fault->text, sizeof(fault->text), fault->code, &ext, NULL);
	if (!nl->faults.count++)
		nl->faults.first = *fault;
}

static bool is_error_message(const struct nlmsghdr *nlh)
{
	return nlh->nlmsg_type == NLMSG_ERROR &&
	       mnl_nlmsg_get_payload_len(nlh) >= sizeof(struct nlmsgerr);
}

/* A message that answers no request under way: an old one's rest, or a fault of a batch. */
static void take_stray(struct rtnl *nl, const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);

	if (is_error_message(nlh) && e->error < 0)
		batch_fault(nl, nlh);
}

static void exchange_end(struct exchange *ex, int code, const struct extack *ext)
{
	ex->done = true;
	code = sane_code(code);
	if (code >= 0 || ex->result)
		return;
	ex->result = code;
	fault_text(ex->text, sizeof(ex->text), code, ext, ex->request);
}

static void take_ack(struct rtnl *nl, struct exchange *ex, const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);
	struct extack ext;

	if (!is_error_message(nlh))
		return;
	ext = extack_of_error(nlh);
	if (!e->error && ext.message)
		snprintf(nl->warning, sizeof(nl->warning), "%s", ext.message);
	exchange_end(ex, e->error, &ext);
}

static void take_done(struct exchange *ex, const struct nlmsghdr *nlh)
{
	struct extack ext = extack_read(nlh, sizeof(int));
	int code = 0;

	if (mnl_nlmsg_get_payload_len(nlh) >= sizeof(code))
		memcpy(&code, mnl_nlmsg_get_payload(nlh), sizeof(code));
	exchange_end(ex, code, &ext);
}

/* Show an object to the caller, unless what was read so far is already known to be useless. */
static void take_object(struct exchange *ex, const struct nlmsghdr *nlh)
{
	if (!ex->cb || ex->interrupted || ex->lost || ex->result)
		return;
	errno = EPROTO;
	if (ex->cb(nlh, ex->arg) >= MNL_CB_STOP)
		return;
	ex->result = -errno;
	snprintf(ex->text, sizeof(ex->text), "answer not understood: %s", strerror(errno));
}

static void take_message(struct rtnl *nl, struct exchange *ex, const struct nlmsghdr *nlh)
{
	if (!ex || nlh->nlmsg_seq != ex->request->nlmsg_seq) {
		take_stray(nl, nlh);
		return;
	}
	if (nlh->nlmsg_flags & NLM_F_DUMP_INTR)
		ex->interrupted = true;
	if (nlh->nlmsg_type == NLMSG_ERROR)
		take_ack(nl, ex, nlh);
	else if (nlh->nlmsg_type == NLMSG_DONE)
		take_done(ex, nlh);
	else if (nlh->nlmsg_type >= NLMSG_MIN_TYPE)
		take_object(ex, nlh);
}

/* One datagram from the kernel, or -errno. */
static int receive_datagram(struct rtnl *nl, struct exchange *ex, int flags)
{
	struct sockaddr_nl from = {0};
	struct iovec iov = {nl->receive, sizeof(nl->receive)};
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};
	const struct nlmsghdr *nlh = (const void *)nl->receive;
	ssize_t got;
	int left;

	do
		got = recvmsg(nl->fd, &msg, flags);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	if (from.nl_pid)
		return 0;
	if (msg.msg_flags & MSG_TRUNC)
		return -EMSGSIZE;
	left = (int)got;
	/* libmnl takes a length of over 2 GiB for a negative one */
	for (; mnl_nlmsg_ok(nlh, left) && nlh->nlmsg_len <= (uint32_t)left;
		nlh = mnl_nlmsg_next(nlh, &left))
		take_message(nl, ex, nlh);
	return 0;
}

static int send_bytes(struct rtnl *nl, const void *data, size_t length, int flags)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	ssize_t sent;

	do
		sent = sendto(nl->fd, data, length, flags, (const struct sockaddr *)&kernel,
			sizeof(kernel));
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

/*
 * Send the request and read until its answer is complete. After a loss only what is there
 * already is read: the end of the answer may be among what was lost.
 */
static int exchange_run(struct rtnl *nl, struct nlmsghdr *nlh, struct exchange *ex)
{
	int rc;

	nlh->nlmsg_seq = ++nl->seq;
	rc = send_bytes(nl, nlh, nlh->nlmsg_len, 0);
	if (rc) {
		snprintf(ex->text, sizeof(ex->text), "cannot send: %s", strerror(-rc));
		return rc;
	}
	while (!ex->done) {
		rc = receive_datagram(nl, ex, ex->lost ? MSG_DONTWAIT : 0);
		if (rc == -ENOBUFS) {
			ex->lost = true;
		} else if (rc == -EAGAIN && ex->lost) {
			break;
		} else if (rc) {
			snprintf(ex->text, sizeof(ex->text), "no answer: %s", strerror(-rc));
			return rc;
		}
	}
	return ex->result;
}

int rtnl_talk(struct rtnl *nl, struct nlmsghdr *nlh, mnl_cb_t cb, void *arg, struct qerr *err)
{
	struct exchange ex = {.request = nlh, .cb = cb, .arg = arg};
	int rc;

	nl->warning[0] = '\0';
	nlh->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	rc = exchange_run(nl, nlh, &ex);
	if (!rc && (!ex.done || (cb && ex.lost)))
		return qerr_set(err, -ENOBUFS, "the kernel's answer was lost");
	return rc ? qerr_set(err, rc, "%s", ex.text) : 0;
}

const char *rtnl_warning(const struct rtnl *nl)
{
	return nl->warning;
}

int rtnl_dump(struct rtnl *nl, struct nlmsghdr *nlh, mnl_cb_t cb, void (*restart)(void *arg),
	void *arg, struct qerr *err)
{
	int attempt, rc;

	nlh->nlmsg_flags |= NLM_F_REQUEST | NLM_F_DUMP;
	for (attempt = 0; attempt < DUMP_ATTEMPTS; attempt++) {
		struct exchange ex = {.request = nlh, .cb = cb, .arg = arg};

		if (attempt)
			restart(arg);
		rc = exchange_run(nl, nlh, &ex);
		if (ex.interrupted || ex.lost)
			continue;
		return rc ? qerr_set(err, rc, "%s", ex.text) : 0;
	}
	return qerr_set(err, -EINTR, "the list kept changing while it was read");
}

int rtnl_batch_add(struct rtnl *nl, const struct nlmsghdr *nlh)
{
	size_t length = MNL_ALIGN(nlh->nlmsg_len);
	struct nlmsghdr *copy = (void *)(nl->batch + nl->batch_length);

	if (length > sizeof(nl->batch) - nl->batch_length)
		return -ENOSPC;
	memcpy(copy, nlh, nlh->nlmsg_len);
	memset((char *)copy + nlh->nlmsg_len, 0, length - nlh->nlmsg_len);
	copy->nlmsg_flags = (copy->nlmsg_flags | NLM_F_REQUEST) & ~NLM_F_ACK;
	nl->batch_length += length;
	nl->batch_count++;
	return 0;
}

size_t rtnl_batch_count(const struct rtnl *nl)
{
	return nl->batch_count;
}

int rtnl_batch_send(struct rtnl *nl)
{
	size_t length = nl->batch_length, at;
	struct nlmsghdr *nlh;

	if (!length)
		return 0;
	nl->batch_seq = nl->seq + 1;
	for (at = 0; at < length; at += MNL_ALIGN(nlh->nlmsg_len)) {
		nlh = (void *)(nl->batch + at);
		nlh->nlmsg_seq = ++nl->seq;
	}
	nl->batch_length = 0;
	nl->batch_count = 0;
	return send_bytes(nl, nl->batch, length, MSG_DONTWAIT);
}

uint32_t rtnl_batch_errors(struct rtnl *nl, struct rtnl_faults *faults)
{
	int rc;

	do {
		rc = receive_datagram(nl, NULL, MSG_DONTWAIT);
		if (rc == -ENOBUFS)
			nl->faults.lost = true;
	} while (!rc || rc == -ENOBUFS || rc == -EMSGSIZE);
	*faults = nl->faults;
	nl->faults = (struct rtnl_faults){0};
	return faults->count;
}

/* The first two words of /proc/net/psched: nanoseconds in a microsecond, and in a tick. */
static uint32_t tick_read(void)
{
	FILE *f = fopen("/proc/net/psched", "re");
	unsigned int per_us = 0, per_tick = 0;
	int n;

	if (!f)
		return TICK_NS_DEFAULT;
	n = fscanf(f, "%8x %8x", &per_us, &per_tick);
	fclose(f);
	return n == 2 && per_us == 1000 && per_tick ? per_tick : TICK_NS_DEFAULT;
}

uint32_t rtnl_tick_ns(const struct rtnl *nl)
{
	return nl->tick_ns;
}

/* Room for a whole batch's faults, and an end to waiting for an answer that does not come. */
static void set_buffers(int fd)
{
	const struct timeval patience = {.tv_sec = ANSWER_TIMEOUT_S};
	const int bytes = SOCKET_BUFFER_BYTES;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

int rtnl_open_protocol(struct rtnl **out, int protocol, struct qerr *err)
{
	struct rtnl *nl = calloc(1, sizeof(*nl));
	int on = 1, rc;

	*out = NULL;
	if (!nl)
		return qerr_set(err, -ENOMEM, "netlink: no memory");
	nl->socket = mnl_socket_open2(protocol, SOCK_CLOEXEC);
	if (!nl->socket || mnl_socket_bind(nl->socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
		mnl_socket_setsockopt(nl->socket, NETLINK_EXT_ACK, &on, sizeof(on)) < 0 ||
		mnl_socket_setsockopt(nl->socket, NETLINK_CAP_ACK, &on, sizeof(on)) < 0) {
		rc = -errno;
		rtnl_close(nl);
		return qerr_set(
			err, rc, "netlink protocol %d: cannot open: %s", protocol, strerror(-rc));
	}
	nl->fd = mnl_socket_get_fd(nl->socket);
	nl->tick_ns = tick_read();
	set_buffers(nl->fd);
	*out = nl;
	return 0;
}

int rtnl_open(struct rtnl **nl, struct qerr *err)
{
	return rtnl_open_protocol(nl, NETLINK_ROUTE, err);
}

void rtnl_close(struct rtnl *nl)
{
	if (!nl)
		return;
	if (nl->socket)
		mnl_socket_close(nl->socket);
	free(nl);
}
