// SPDX-License-Identifier: BSD-2-Clause
// QPs and CM ids of the RDMA stack, read from a kernel that this file plays: what is asked, what is
// made of the answers, and answers that are none. Attributes are numbers as the kernel's ABI has
// them (rdma_netlink.h), of drivers/infiniband/core/nldev.c's layout.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netlink/rdma.h"

enum { NLDEV = 5 << 10, GET = 1, PORT_GET = 5, QP_GET = 10, CM_ID_GET = 11 };
enum { DEV_INDEX = 1, DEV_NAME = 2, PORT_INDEX = 3, RES_QP = 19, RES_QP_ENTRY = 20, LQPN = 21 };
enum { RQPN = 22, TYPE = 26, STATE = 27, PID = 28, RES_CM_ID = 30, RES_CM_ID_ENTRY = 31 };
enum { SRC_ADDR = 33, DST_ADDR = 34, NDEV_INDEX = 50 };
enum { GSI = 1, RC = 2, UC = 3, UD = 4, XRC_INI = 9 };
enum { RESET = 0, INIT = 1, RTR = 2, RTS = 3, SQD = 4, SQE = 5, ERR = 6 };
enum { RXE = 7, OTHER = 8, DATAGRAMS_MAX = 8, QPS_MAX = 8, IDS_MAX = 4 };

struct qp_row {
	uint32_t device, qpn, peer_qpn;
	uint8_t type, state;
};

struct id_row {
	uint32_t device, qpn; /* 0: none yet, as of one that listens */
	const char *src, *dst;
};

/* The kernel, as a test wants it. */
static struct kernel {
	struct qp_row qps[QPS_MAX];
	struct id_row ids[IDS_MAX];
	bool elsewhere;	     /* device OTHER's interface is in another namespace */
	int interruptions;   /* dumps of QPs yet to be called inconsistent */
	int losses;	     /* reads yet to be lost */
	int refuses;	     /* the op that fails with EINVAL and words; 0: none */
	size_t cut;	     /* bytes that the last message of a dump of QPs lacks */
	uint32_t table_type; /* in the place of RES_QP; 0: that */
	int asked[16];	     /* how often, by op */
} kernel;

/* What is to be read next. */
static struct {
	char bytes[4096];
	size_t length;
} datagrams[DATAGRAMS_MAX];
static size_t datagrams_count, datagrams_read;

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
	socklen_t to_len);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);

/* A message of its own datagram. */
static struct nlmsghdr *begin(const struct nlmsghdr *request, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *nlh;

	assert_true(datagrams_count < DATAGRAMS_MAX);
	nlh = mnl_nlmsg_put_header(datagrams[datagrams_count].bytes);
	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = flags;
	nlh->nlmsg_seq = request->nlmsg_seq;
	return nlh;
}

static void end(const struct nlmsghdr *nlh)
{
	datagrams[datagrams_count++].length = nlh->nlmsg_len;
}

static void done(const struct nlmsghdr *request)
{
	struct nlmsghdr *nlh = begin(request, NLMSG_DONE, NLM_F_MULTI);

	*(int *)mnl_nlmsg_put_extra_header(nlh, sizeof(int)) = 0;
	end(nlh);
}

static void refuse(const struct nlmsghdr *request)
{
	struct nlmsghdr *nlh = begin(request, NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS);
	struct nlmsgerr *e = mnl_nlmsg_put_extra_header(nlh, sizeof(*e));

	e->error = -EINVAL;
	e->msg = *request;
	mnl_attr_put_strz(nlh, NLMSGERR_ATTR_MSG, "no such device");
	end(nlh);
}

static void put_device(struct nlmsghdr *nlh, uint32_t device)
{
	mnl_attr_put_u32(nlh, DEV_INDEX, device);
	mnl_attr_put_strz(nlh, DEV_NAME, device == RXE ? "rxe0" : "other0");
}

static void answer_devices(const struct nlmsghdr *request)
{
	for (uint32_t device = RXE; device <= OTHER; device++) {
		struct nlmsghdr *nlh = begin(request, NLDEV + GET, NLM_F_MULTI);

		put_device(nlh, device);
		mnl_attr_put_u32(nlh, PORT_INDEX, 1);
		end(nlh);
	}
}

static void answer_ports(const struct nlmsghdr *request, uint32_t device)
{
	struct nlmsghdr *nlh = begin(request, NLDEV + PORT_GET, NLM_F_MULTI);

	put_device(nlh, device);
	mnl_attr_put_u32(nlh, PORT_INDEX, 1);
	if (device == RXE || !kernel.elsewhere)
		mnl_attr_put_u32(nlh, NDEV_INDEX, 2);
	end(nlh);
}

static void put_qp(struct nlmsghdr *nlh, const struct qp_row *row)
{
	struct nlattr *entry = mnl_attr_nest_start(nlh, RES_QP_ENTRY);

	mnl_attr_put_u32(nlh, LQPN, row->qpn);
	if (row->type == RC || row->type == UC)
		mnl_attr_put_u32(nlh, RQPN, row->peer_qpn);
	mnl_attr_put_u8(nlh, TYPE, row->type);
	mnl_attr_put_u8(nlh, STATE, row->state);
	mnl_attr_put_u32(nlh, PID, 4711);
	mnl_attr_nest_end(nlh, entry);
}

/* Two QPs in a message at most. */
static void answer_qps(const struct nlmsghdr *request, uint32_t device)
{
	uint16_t flags = NLM_F_MULTI | (kernel.interruptions > 0 ? NLM_F_DUMP_INTR : 0);
	size_t next = 0;

	kernel.interruptions--;
	while (next < QPS_MAX) {
		struct nlmsghdr *nlh = begin(request, NLDEV + QP_GET, flags);
		struct nlattr *table;
		int count = 0;

		put_device(nlh, device);
		table = mnl_attr_nest_start(nlh, kernel.table_type ? kernel.table_type : RES_QP);
		for (; next < QPS_MAX && count < 2; next++)
			if (kernel.qps[next].device == device && ++count)
				put_qp(nlh, &kernel.qps[next]);
		mnl_attr_nest_end(nlh, table);
		nlh->nlmsg_len -= next == QPS_MAX ? kernel.cut : 0;
		if (count)
			end(nlh);
	}
}

static void put_address(struct nlmsghdr *nlh, uint16_t type, const char *text)
{
	struct sockaddr_storage storage = {};
	struct sockaddr_in6 *v6 = (void *)&storage;
	struct sockaddr_in *v4 = (void *)&storage;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(7471);
	} else {
		memset(&storage, 0, sizeof(storage));
		assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(7471);
	}
	mnl_attr_put(nlh, type, sizeof(storage), &storage);
}

static void answer_ids(const struct nlmsghdr *request, uint32_t device)
{
	struct nlmsghdr *nlh = begin(request, NLDEV + CM_ID_GET, NLM_F_MULTI);
	struct nlattr *table, *entry;

	put_device(nlh, device);
	table = mnl_attr_nest_start(nlh, RES_CM_ID);
	for (size_t i = 0; i < IDS_MAX; i++) {
		const struct id_row *row = &kernel.ids[i];

		if (row->device != device)
			continue;
		entry = mnl_attr_nest_start(nlh, RES_CM_ID_ENTRY);
		if (row->qpn)
			mnl_attr_put_u32(nlh, LQPN, row->qpn);
		if (row->src)
			put_address(nlh, SRC_ADDR, row->src);
		if (row->dst)
			put_address(nlh, DST_ADDR, row->dst);
		mnl_attr_nest_end(nlh, entry);
	}
	mnl_attr_nest_end(nlh, table);
	end(nlh);
}

static uint32_t device_asked(const struct nlmsghdr *request)
{
	const struct nlattr *attr = mnl_nlmsg_get_payload(request);

	if (request->nlmsg_len == NLMSG_HDRLEN)
		return 0;
	assert_int_equal(request->nlmsg_len, NLMSG_HDRLEN + 8);
	assert_int_equal(mnl_attr_get_type(attr), DEV_INDEX);
	return mnl_attr_get_u32(attr);
}

ssize_t __wrap_sendto(
	int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	const struct nlmsghdr *request = buf;
	uint32_t device = device_asked(request);
	int op = request->nlmsg_type - NLDEV;

	(void)fd, (void)flags, (void)to, (void)to_len;
	assert_int_equal(
		request->nlmsg_flags & (NLM_F_REQUEST | NLM_F_DUMP), NLM_F_REQUEST | NLM_F_DUMP);
	assert_int_equal(op == GET, device == 0);
	datagrams_count = datagrams_read = 0;
	kernel.asked[op]++;
	if (op == kernel.refuses) {
		refuse(request);
		return (ssize_t)len;
	}
	if (op == GET)
		answer_devices(request);
	else if (op == PORT_GET)
		answer_ports(request, device);
	else if (op == QP_GET)
		answer_qps(request, device);
	else if (op == CM_ID_GET)
		answer_ids(request, device);
	else
		fail_msg("op %d", op);
	done(request);
	return (ssize_t)len;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	(void)fd, (void)flags;
	if (kernel.losses > 0) {
		kernel.losses--;
		errno = ENOBUFS;
		return -1;
	}
	if (datagrams_read == datagrams_count) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(msg->msg_iov->iov_base, datagrams[datagrams_read].bytes,
		datagrams[datagrams_read].length);
	msg->msg_flags = 0;
	return (ssize_t)datagrams[datagrams_read++].length;
}

/* Reads with a socket that exists everywhere: its bytes are the wrappers'. */
static int read_state(struct rdma_state *state, struct qerr *err)
{
	struct rtnl *nl;
	int code;

	assert_int_equal(rtnl_open(&nl, err), 0);
	code = rdma_read(nl, state, err);
	rtnl_close(nl);
	return code;
}

static void read_well(struct rdma_state *state)
{
	struct qerr err = {};

	if (read_state(state, &err))
		fail_msg("%s", err.text);
}

static void assert_ends(const struct local_qp *qp, uint32_t qpn, const char *src, uint32_t peer_qpn,
	const char *dst)
{
	__be32 from[4], to[4];

	assert_int_equal(inet_pton(AF_INET6, src, from), 1);
	assert_int_equal(inet_pton(AF_INET6, dst, to), 1);
	assert_int_equal(qp->self.qpn, qpn);
	assert_int_equal(qp->peer.qpn, peer_qpn);
	assert_memory_equal(qp->self.addr, from, sizeof(from));
	assert_memory_equal(qp->peer.addr, to, sizeof(to));
}

static int set_up(void **state)
{
	(void)state;
	kernel = (struct kernel){0};
	return 0;
}

static void connected_qps_are_read_across_messages(void **state)
{
	struct rdma_state got;

	(void)state;
	kernel = (struct kernel){.qps = {{RXE, 1, 0, GSI, RTS}, {RXE, 0x14, 0x24, RC, RTS},
					 {RXE, 0x11, 0x21, RC, RTR}, {RXE, 0x12, 0x22, UC, SQD},
					 {OTHER, 0x13, 0x23, RC, RTS}}};
	read_well(&got);
	assert_int_equal(got.devices_count, 2);
	assert_string_equal(got.devices[0].name, "rxe0");
	assert_int_equal(got.devices[0].index, RXE);
	assert_true(got.devices[0].here);
	assert_int_equal(got.qps_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_ends(&got.qps[i], 0x11 + i, "::", 0x21 + i, "::");
		assert_int_equal(got.qps[i].addresses, LOCAL_UNKNOWN);
		assert_int_equal(got.qps[i].device, i == 2 ? OTHER : RXE);
	}
	rdma_free(&got);
}

static void qps_that_are_not_connected_are_left_out(void **state)
{
	struct rdma_state got;

	(void)state;
	kernel = (struct kernel){
		.qps = {{RXE, 0x11, 0, UD, RTS}, {RXE, 0x12, 0x22, XRC_INI, RTS},
			{RXE, 0x13, 0x23, RC, INIT}, {RXE, 0x14, 0x24, RC, ERR},
			{RXE, 0x15, 0, RC, RTS}, {RXE, 0x16, 1, RC, RTS},
			{RXE, 0x17, 0x1000000, RC, RTS}, {RXE, 0x18, 0x28, RC, SQE}}};
	read_well(&got);
	assert_int_equal(got.qps_count, 0);
	assert_int_equal(kernel.asked[CM_ID_GET], 0);
	rdma_free(&got);
}

static void cm_ids_give_addresses_to_their_qps(void **state)
{
	struct rdma_state got;

	(void)state;
	kernel = (struct kernel){.qps = {{RXE, 0x11, 0x21, RC, RTS}, {RXE, 0x12, 0x22, RC, RTS},
					 {OTHER, 0x11, 0x21, RC, RTS}},
		.ids = {{RXE, 0, "0.0.0.0", NULL}, {RXE, 0x12, "fd00::1", "fd00::2"},
			{RXE, 0x11, "192.0.2.1", "192.0.2.2"}}};
	read_well(&got);
	assert_int_equal(got.qps_count, 3);
	assert_ends(&got.qps[0], 0x11, "::ffff:192.0.2.1", 0x21, "::ffff:192.0.2.2");
	assert_int_equal(got.qps[0].addresses, LOCAL_TOLD);
	assert_int_equal(got.qps[1].addresses, LOCAL_UNKNOWN); /* another device's */
	assert_ends(&got.qps[2], 0x12, "fd00::1", 0x22, "fd00::2");
	assert_int_equal(got.qps[2].addresses, LOCAL_TOLD);
	rdma_free(&got);
}

static void cm_ids_that_differ_make_a_qp_ambiguous(void **state)
{
	struct rdma_state got;

	(void)state;
	kernel = (struct kernel){.qps = {{RXE, 0x11, 0x21, RC, RTS}, {RXE, 0x12, 0x22, RC, RTS},
					 {RXE, 0x13, 0x23, RC, RTS}},
		.ids = {{RXE, 0x11, "192.0.2.1", "192.0.2.2"},
			{RXE, 0x11, "192.0.2.1", "192.0.2.3"}, {RXE, 0x12, "192.0.2.1", NULL},
			{RXE, 0x13, "0.0.0.0", "192.0.2.2"}}};
	read_well(&got);
	assert_int_equal(got.qps[0].addresses, LOCAL_AMBIGUOUS);
	assert_int_equal(got.qps[1].addresses, LOCAL_UNKNOWN);
	assert_int_equal(got.qps[2].addresses, LOCAL_UNKNOWN);
	rdma_free(&got);
}

static void device_of_another_namespace_is_not_asked_for_qps(void **state)
{
	struct rdma_state got;

	(void)state;
	kernel = (struct kernel){.elsewhere = true,
		.qps = {{OTHER, 0x11, 0x21, RC, RTS}, {RXE, 0x12, 0x22, RC, RTS}}};
	read_well(&got);
	assert_int_equal(kernel.asked[QP_GET], 1);
	assert_false(got.devices[1].here);
	assert_int_equal(got.qps_count, 1);
	assert_int_equal(got.qps[0].self.qpn, 0x12);
	rdma_free(&got);
}

static void interrupted_or_lost_dump_is_read_again(void **state)
{
	struct rdma_state got;
	struct qerr err = {};

	(void)state;
	kernel = (struct kernel){.interruptions = 2,
		.losses = 1,
		.elsewhere = true,
		.qps = {{RXE, 0x11, 0x21, RC, RTS}, {RXE, 0x12, 0x22, RC, RTS},
			{RXE, 0x13, 0x23, RC, RTS}}};
	read_well(&got);
	assert_int_equal(kernel.asked[GET], 2);
	assert_int_equal(kernel.asked[QP_GET], 3);
	assert_int_equal(got.qps_count, 3);
	rdma_free(&got);

	kernel.interruptions = 1000;
	assert_int_equal(read_state(&got, &err), -EINTR);
	assert_null(got.qps);
}

static void refusal_names_the_device_and_the_kernels_words(void **state)
{
	static const int ops[] = {PORT_GET, QP_GET, CM_ID_GET};
	struct rdma_state got;
	struct qerr err = {};

	(void)state;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		kernel = (struct kernel){.refuses = ops[i], .qps = {{RXE, 0x11, 0x21, RC, RTS}}};
		assert_int_equal(read_state(&got, &err), -EINVAL);
		assert_non_null(strstr(err.text, "rxe0: no such device"));
		assert_null(got.devices);
		assert_null(got.qps);
		assert_int_equal(got.qps_count, 0);
	}
	kernel = (struct kernel){.refuses = GET};
	assert_int_equal(read_state(&got, &err), -EINVAL);
}

/* Whatever is cut off: no QP comes of it that is not there, and nothing is read beyond it. */
static void truncated_answers_make_up_nothing(void **state)
{
	struct rdma_state got;
	struct qerr err = {};

	(void)state;
	for (size_t cut = 1; cut < 72; cut++) {
		kernel = (struct kernel){
			.cut = cut, .elsewhere = true, .qps = {{RXE, 0x11, 0x21, RC, RTS}}};
		if (read_state(&got, &err))
			continue;
		for (size_t i = 0; i < got.qps_count; i++)
			assert_ends(&got.qps[i], 0x11, "::", 0x21, "::");
		rdma_free(&got);
	}
}

static void tables_of_other_resources_are_passed_over(void **state)
{
	struct rdma_state got;

	(void)state;
	kernel = (struct kernel){.table_type = RES_CM_ID, .qps = {{RXE, 0x11, 0x21, RC, RTS}}};
	read_well(&got);
	assert_int_equal(got.qps_count, 0);
	rdma_free(&got);
}

static void kernel_without_rdma_is_told_apart(void **state)
{
	struct qerr err = {};
	struct rtnl *nl;

	(void)state;
	if (!access(RDMA_CLASS, F_OK)) { /* there is some: then it opens */
		assert_int_equal(rdma_open(&nl, &err), 0);
		rtnl_close(nl);
		return;
	}
	assert_int_equal(rdma_open(&nl, &err), -EPROTONOSUPPORT);
	assert_null(nl);
	assert_int_equal(rtnl_open_protocol(&nl, 31, &err), -EPROTONOSUPPORT);
	assert_null(nl);
}

/* One file of a made-up sysfs. */
static void write_gid(const char *root, int port, int index, const char *gid)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/rxe0/ports/%d/gids/%d", root, port, index);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%s\n", gid);
	fclose(file);
}

static bool has_address(const struct local_address *list, size_t count, const char *text)
{
	__be32 addr[4];

	assert_int_equal(inet_pton(AF_INET6, text, addr), 1);
	for (size_t i = 0; i < count; i++)
		if (!memcmp(list[i].addr, addr, sizeof(addr)))
			return list[i].device == RXE;
	return false;
}

static void gids_of_all_ports_are_addresses(void **state)
{
	const struct rdma_device device = {.index = RXE, .name = "rxe0"};
	const struct rdma_device gone = {.index = OTHER, .name = "gone"};
	char root[] = "/tmp/quench-gids.XXXXXX", command[64];
	struct local_address *list = NULL;
	size_t count = 0;

	(void)state;
	assert_non_null(mkdtemp(root));
	write_gid(root, 1, 0, "fe80:0000:0000:0000:5054:00ff:fe00:0001");
	write_gid(root, 1, 1, "0000:0000:0000:0000:0000:ffff:0a63:0001");
	write_gid(root, 1, 2, "0000:0000:0000:0000:0000:0000:0000:0000");
	write_gid(root, 2, 0, "fd99:0000:0000:0000:0000:0000:0000:0001");
	write_gid(root, 2, 1, "nonsense");
	assert_int_equal(rdma_addresses(root, &device, &list, &count), 0);
	assert_int_equal(rdma_addresses(root, &gone, &list, &count), 0);
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
	assert_int_equal(count, 3);
	assert_true(has_address(list, count, "fe80::5054:ff:fe00:1"));
	assert_true(has_address(list, count, "::ffff:10.99.0.1"));
	assert_true(has_address(list, count, "fd99::1"));
	free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(connected_qps_are_read_across_messages, set_up),
		cmocka_unit_test_setup(qps_that_are_not_connected_are_left_out, set_up),
		cmocka_unit_test_setup(cm_ids_give_addresses_to_their_qps, set_up),
		cmocka_unit_test_setup(cm_ids_that_differ_make_a_qp_ambiguous, set_up),
		cmocka_unit_test_setup(device_of_another_namespace_is_not_asked_for_qps, set_up),
		cmocka_unit_test_setup(interrupted_or_lost_dump_is_read_again, set_up),
		cmocka_unit_test_setup(refusal_names_the_device_and_the_kernels_words, set_up),
		cmocka_unit_test_setup(truncated_answers_make_up_nothing, set_up),
		cmocka_unit_test_setup(tables_of_other_resources_are_passed_over, set_up),
		cmocka_unit_test_setup(kernel_without_rdma_is_told_apart, set_up),
		cmocka_unit_test_setup(gids_of_all_ports_are_addresses, set_up),
	};

	return cmocka_run_group_tests_name("rdma", tests, NULL, NULL);
}
