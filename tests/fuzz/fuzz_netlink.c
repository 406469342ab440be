// SPDX-License-Identifier: BSD-2-Clause
// Answers of a kernel for the netlink reader, which asks as ever: its recvmsg and sendto are ours.
// Input: what is asked, whether messages get the request's sequence number, then datagrams, each a
// 16-bit length (little-endian) and its bytes.
#include <errno.h>
#include <sanitizer/asan_interface.h>
#include <sys/socket.h>

#include "fuzz/fuzz.h"
#include "netlink/link_upper.h"
#include "netlink/rdma.h"
#include "netlink/tc.h"

enum { PORT = 1, ASKS = 8, LENGTH_BYTES = 2 };

static const uint8_t *input;
static size_t input_left;
static int answers_request;
static uint32_t request_seq;
static void *poisoned;
static size_t poisoned_bytes;

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
	socklen_t to_len);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);

ssize_t __wrap_sendto(
	int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	const struct nlmsghdr *nlh = buf;

	(void)fd, (void)flags, (void)to, (void)to_len;
	fuzz_expect(len >= sizeof(*nlh) && nlh->nlmsg_len <= len, "a request of whole messages");
	request_seq = nlh->nlmsg_seq;
	return (ssize_t)len;
}

/* Give the messages of the datagram the number of the request under way. */
static void number_messages(uint8_t *datagram, size_t len)
{
	size_t at = 0;

	while (at + sizeof(struct nlmsghdr) <= len) {
		struct nlmsghdr *nlh = (void *)(datagram + at);

		nlh->nlmsg_seq = request_seq;
		if (nlh->nlmsg_len < sizeof(*nlh) || nlh->nlmsg_len > len - at)
			return;
		at += NLMSG_ALIGN(nlh->nlmsg_len);
	}
}

/* Nothing behind the datagram may be read, though the reader's buffer goes on. */
static void poison_rest(const struct iovec *iov, size_t len)
{
	poisoned = (char *)iov->iov_base + len;
	poisoned_bytes = iov->iov_len - len;
	ASAN_POISON_MEMORY_REGION(poisoned, poisoned_bytes);
}

static void unpoison(void)
{
	if (poisoned)
		ASAN_UNPOISON_MEMORY_REGION(poisoned, poisoned_bytes);
	poisoned = NULL;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	const struct iovec *iov = msg->msg_iov;
	size_t len;

	(void)fd, (void)flags;
	unpoison();
	if (input_left < LENGTH_BYTES) {
		errno = EAGAIN;
		return -1;
	}
	len = input[0] | input[1] << 8;
	input += LENGTH_BYTES;
	input_left -= LENGTH_BYTES;
	if (!len) { /* a loss */
		errno = ENOBUFS;
		return -1;
	}
	len = len < input_left ? len : input_left;
	len = len < iov->iov_len ? len : iov->iov_len;
	memcpy(iov->iov_base, input, len);
	input += len;
	input_left -= len;
	if (answers_request)
		number_messages(iov->iov_base, len);
	poison_rest(iov, len);
	msg->msg_flags = 0;
	return (ssize_t)len;
}

/* Each object can be described, and one that can be asked for equals itself. */
static void use_objects(const struct tc_object *list, size_t n, uint32_t tick_ns)
{
	_Alignas(struct nlmsghdr) char request[RTNL_MESSAGE_MAX];
	char text[256];
	struct qerr err;
	size_t i;

	for (i = 0; i < n; i++) {
		const struct tc_object *o = &list[i];

		fuzz_expect(strlen(tc_describe(o, text, sizeof(text))) < sizeof(text), "text");
		tc_equal(o, &list[(i + 1) % n], tick_ns);
		if (!tc_put(request, sizeof(request), PORT, o, TC_CHANGE, tick_ns, &err))
			fuzz_expect(tc_equal(o, o, tick_ns), "an object equals itself");
	}
}

static void ask_queues(struct rtnl *nl, struct qerr *err)
{
	struct tc_object *list;
	size_t n;

	if (tc_read(nl, PORT, &list, &n, err))
		fuzz_expect(!list, "no list with an error");
	else
		use_objects(list, n, rtnl_tick_ns(nl));
	free(list);
}

static void ask_link(struct rtnl *nl, struct qerr *err)
{
	struct link_info info;

	if (link_get(nl, "lo", &info, err))
		return;
	fuzz_expect(memchr(info.name, 0, sizeof(info.name)) != NULL, "name ends");
	fuzz_expect(memchr(info.kind, 0, sizeof(info.kind)) != NULL, "kind ends");
}

static void ask_links(struct rtnl *nl, struct qerr *err)
{
	char bottoms[64];
	struct link_info *list;
	size_t n;

	if (link_list(nl, &list, &n, err))
		return;
	for (size_t i = 0; i < n; i++) {
		if (!link_upper_kind(&list[i]))
			continue;
		link_upper_bottoms(list, n, &list[i], bottoms, sizeof(bottoms));
		fuzz_expect(memchr(bottoms, 0, sizeof(bottoms)) != NULL, "the list ends");
	}
	free(list);
}

static void ask_batch(struct rtnl *nl, struct qerr *err)
{
	const struct tc_object sink = {
		.kind = TC_PFIFO, .handle = TC_H_MAKE(1 << 16, 0), .parent = TC_H_ROOT};
	struct rtnl_faults faults;

	tc_batch(nl, PORT, &sink, TC_CREATE, err);
	rtnl_batch_send(nl);
	rtnl_batch_errors(nl, &faults);
	fuzz_expect(memchr(faults.last.text, 0, sizeof(faults.last.text)) != NULL, "text ends");
}

/* Of whatever the RDMA stack says, QPs that can be, and pairs that agree with each other. */
static void ask_rdma(struct rtnl *nl, struct qerr *err)
{
	struct rdma_state state;
	struct local local;
	struct local_pair *pairs;
	size_t count;

	if (rdma_read(nl, &state, err)) {
		fuzz_expect(!state.devices && !state.qps, "no state with an error");
		return;
	}
	for (size_t i = 0; i < state.devices_count; i++)
		fuzz_expect(memchr(state.devices[i].name, 0, RDMA_DEVICE_MAX) != NULL, "name ends");
	for (size_t i = 0; i < state.qps_count; i++)
		fuzz_expect(state.qps[i].self.qpn > QPN_CM && state.qps[i].peer.qpn > QPN_CM,
			"QPs that connect");
	local = (struct local){.qps = state.qps, .qps_count = state.qps_count};
	pairs = calloc(2 * state.qps_count + 1, sizeof(*pairs));
	fuzz_expect(pairs != NULL, "memory");
	count = local_pairs(&local, pairs);
	for (size_t i = 0; i < count; i++)
		fuzz_expect(local_has_pair(pairs, count, &pairs[i].to, &pairs[i].from),
			"each pair in both directions");
	free(pairs);
	rdma_free(&state);
}

static void ask(struct rtnl *nl, uint8_t what)
{
	struct tc_qdisc_stats stats;
	struct link_info info;
	struct qerr err = {0};

	switch (what % ASKS) {
	case 0:
		ask_queues(nl, &err);
		break;
	case 1:
		tc_stats(nl, PORT, TC_H_MAKE(1 << 16, 0), &stats, &err);
		break;
	case 2:
		ask_link(nl, &err);
		break;
	case 3:
		link_get_index(nl, PORT, &info, &err);
		break;
	case 4:
		ask_batch(nl, &err);
		break;
	case 5:
		tc_filter_bpf_get(nl, PORT, TC_CLSACT_INGRESS, 1, &err);
		break;
	case 6:
		ask_links(nl, &err);
		break;
	case 7:
		ask_rdma(nl, &err);
		break;
	}
	fuzz_expect(memchr(err.text, 0, sizeof(err.text)) != NULL, "the error's text ends");
	fuzz_expect(strlen(rtnl_warning(nl)) < RTNL_TEXT_MAX, "the warning ends");
}

/* One socket for all inputs: opening one takes longer than reading an answer. */
static struct rtnl *open_once(void)
{
	static struct rtnl *nl;
	struct qerr err;

	if (!nl && rtnl_open(&nl, &err))
		fuzz_expect(0, err.text);
	return nl;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rtnl *nl = open_once();
	struct rtnl_faults left;

	if (size < 2)
		return -1;
	answers_request = data[1] & 1;
	input = data + 2;
	input_left = size - 2;
	ask(nl, data[0]);
	input_left = 0;
	rtnl_batch_errors(nl, &left); /* nothing of this input is seen by the next */
	return 0;
}
