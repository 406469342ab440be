/* SPDX-License-Identifier: BSD-2-Clause */
/* One netlink socket: requests with an answer, dumps, and batches that only report faults. */
#ifndef QUENCH_RTNL_H
#define QUENCH_RTNL_H

#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qerr.h"

/*
 * A socket in the network namespace of the thread that opened it. One thread at a time; each
 * thread that talks to the kernel opens its own.
 */
struct rtnl;

#define RTNL_TEXT_MAX	 192
#define RTNL_MESSAGE_MAX 1024 /* room for any request that this project makes */

/* Open a socket into *nl; rtnl_close frees it (NULL is allowed). Negative errno and *err else. */
int rtnl_open(struct rtnl **nl, struct qerr *err);

/* The same for another protocol than NETLINK_ROUTE. -EPROTONOSUPPORT: the kernel has none such. */
int rtnl_open_protocol(struct rtnl **nl, int protocol, struct qerr *err);
void rtnl_close(struct rtnl *nl);

/* The length of a packet scheduler's tick, from /proc/net/psched; 64 on every current kernel. */
uint32_t rtnl_tick_ns(const struct rtnl *nl);

/*
 * Send one request and wait for its ACK. NLM_F_REQUEST, NLM_F_ACK and the sequence number are
 * set here. cb (may be NULL) sees each message that answers it; MNL_CB_ERROR stops the reading
 * and the result is then -errno. The kernel's refusal is a negative errno with its own words and
 * the attribute it means in *err; the caller puts the object's name in front (qerr_prefix).
 * -ENOBUFS: the answer was lost, so it is not known whether the request took effect.
 */
int rtnl_talk(struct rtnl *nl, struct nlmsghdr *nlh, mnl_cb_t cb, void *arg, struct qerr *err);

/* What the kernel warned of while it granted the last rtnl_talk; "" if nothing. */
const char *rtnl_warning(const struct rtnl *nl);

/*
 * Send a dump request (NLM_F_DUMP is set here) and show each object to cb. A dump that the
 * kernel calls inconsistent, or whose messages were lost, is started again: restart(arg) is
 * called before that, to forget what cb was shown. -EINTR after several such attempts.
 */
int rtnl_dump(struct rtnl *nl, struct nlmsghdr *nlh, mnl_cb_t cb, void (*restart)(void *arg),
	void *arg, struct qerr *err);

/*
 * Batches: many requests in one system call, without ACKs. The buffer belongs to the socket and
 * nothing here allocates. The kernel works a batch off inside the send, so that its faults can be
 * read right after it; sending waits for nothing but the kernel's own RTNL lock.
 */

/*
 * Copy the request into the batch; its flags become NLM_F_REQUEST and what was set, less
 * NLM_F_ACK. Its index in the batch counts from 0. -ENOSPC: full, send first.
 */
int rtnl_batch_add(struct rtnl *nl, const struct nlmsghdr *nlh);

/* Requests waiting in the batch. */
size_t rtnl_batch_count(const struct rtnl *nl);

/*
 * Send the batch, which is empty afterwards whatever the result (nothing was done on an error).
 * An empty batch is a success. Never waits for room: -EAGAIN.
 */
int rtnl_batch_send(struct rtnl *nl);

struct rtnl_fault {
	int code;	/* negative errno */
	uint32_t index; /* of the request in its batch */
	char text[RTNL_TEXT_MAX];
};

struct rtnl_faults {
	uint32_t count;
	bool lost; /* the kernel had to throw some away: count is too low */
	struct rtnl_fault first, last;
};

/*
 * Take what has come back for the batches sent since the last call, without waiting. Returns the
 * number of faults; *faults is overwritten. index is meaningful for the batch sent last.
 */
uint32_t rtnl_batch_errors(struct rtnl *nl, struct rtnl_faults *faults);

#endif
