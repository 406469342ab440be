/* SPDX-License-Identifier: BSD-2-Clause */
/* Qdiscs, classes and filters in typed units, to the kernel and back. */
#ifndef QUENCH_TC_H
#define QUENCH_TC_H

#include <linux/pkt_sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netlink/rtnl.h"

enum tc_kind {
	TC_HTB,
	TC_HTB_CLASS,
	TC_TBF,
	TC_BFIFO,
	TC_PFIFO,
	TC_OTHER,	/* a qdisc that this module only reads */
	TC_OTHER_CLASS, /* a class of such a qdisc, or TBF's only one */
};

enum tc_op {
	TC_CREATE, /* -EEXIST if it is there */
	TC_CHANGE, /* in place; -ENOENT if it is not there */
	TC_DELETE, /* with everything below it */
};

/*
 * One object of a device. Rates are bits a second; the kernel takes whole bytes a second, so
 * rates are rounded down to a multiple of 8 and anything under 8 is refused. Nothing is left to
 * the kernel's defaults: bursts, quanta and limits are always given.
 */
struct tc_object {
	enum tc_kind kind;
	uint32_t handle; /* qdisc: major:0; class: its id */
	uint32_t parent; /* TC_H_ROOT for a root qdisc, major:0 for a top class; never 0 */
	union {
		struct {
			uint32_t default_minor; /* class for frames that no filter places */
		} htb;
		struct {
			uint64_t rate_bps;
			uint64_t ceil_bps;
			uint32_t burst_bytes;  /* at rate_bps; the kernel keeps it as a time */
			uint32_t cburst_bytes; /* at ceil_bps */
			uint32_t quantum_bytes;
			uint32_t prio; /* 0..7, 0 first */
		} htb_class;
		struct {
			uint64_t rate_bps;
			uint32_t burst_bytes; /* also the longest frame let in */
			uint32_t limit_bytes; /* of its fifo, while it has no other child */
			bool closed;	      /* nothing leaves; rate and burst do not count */
		} tbf;
		struct {
			uint32_t limit; /* bfifo: bytes; pfifo: frames; 0: drops all */
		} fifo;
		struct {
			char kind[16];
		} other;
	};
};

/* Does the object name a class, as opposed to a qdisc? */
bool tc_is_class(const struct tc_object *obj);

/* "htb class 9000:10", as messages name it. Returns buf. */
const char *tc_name(const struct tc_object *obj, char *buf, size_t size);

/* "parent 9000:1", or "root". Returns buf. */
const char *tc_place(const struct tc_object *obj, char *buf, size_t size);

/* Every value on one line, "" of what this module only reads. Returns buf. */
const char *tc_values(const struct tc_object *obj, char *buf, size_t size);

/* The name, the place and every value on one line. Returns buf. */
const char *tc_describe(const struct tc_object *obj, char *buf, size_t size);

/*
 * Are these the same object with the same values, as the kernel would keep them? Rates are
 * compared in bytes a second, bursts in ticks (of HTB exactly, of TBF, which rounds twice, to one
 * tick).
 */
bool tc_equal(const struct tc_object *a, const struct tc_object *b, uint32_t tick_ns);

/*
 * A burst of that many bytes as time at the rate, in ticks rounded up, UINT32_MAX at most; and
 * back, rounded down. What the kernel was given in ticks and is read back as bytes gives the same
 * ticks again.
 */
uint32_t tc_burst_ticks(uint64_t rate_bps, uint32_t burst_bytes, uint32_t tick_ns);
uint32_t tc_burst_bytes(uint64_t rate_bps, uint32_t ticks, uint32_t tick_ns);

/*
 * Write the request that creates, changes or deletes obj on the device into buf, of size bytes
 * and aligned for struct nlmsghdr. -EINVAL and *err for a value that the kernel would refuse or
 * silently bend; -EMSGSIZE without room. Layouts: linux/pkt_sched.h, net/sched/sch_{htb,tbf,
 * fifo}.c.
 */
int tc_put(void *buf, size_t size, int ifindex, const struct tc_object *obj, enum tc_op op,
	uint32_t tick_ns, struct qerr *err);

/* The same, sent and answered; *err names the port, the object and the kernel's reason. */
int tc_apply(
	struct rtnl *nl, int ifindex, const struct tc_object *obj, enum tc_op op, struct qerr *err);

/*
 * The same, into the socket's batch: nothing is sent before rtnl_batch_send. -ENOSPC (full, err
 * untouched) asks for that. Allocates nothing.
 */
int tc_batch(
	struct rtnl *nl, int ifindex, const struct tc_object *obj, enum tc_op op, struct qerr *err);

/*
 * All qdiscs, then all classes, of the device, in the kernel's order. *list is the caller's to
 * free(); it is NULL on error and may be NULL when *n is 0.
 */
int tc_read(struct rtnl *nl, int ifindex, struct tc_object **list, size_t *n, struct qerr *err);

/*
 * Read a message about a qdisc or class, as dumps and RTMGRP_TC bring it, with the device it is of.
 * False for any other message.
 */
bool tc_parse(const struct nlmsghdr *nlh, uint32_t tick_ns, int *ifindex, struct tc_object *obj);

struct tc_qdisc_stats {
	uint64_t bytes; /* dequeued or enqueued, as the qdisc counts; purges are not seen */
	uint64_t packets;
	uint32_t backlog_bytes;
	uint32_t qlen;
	uint32_t drops;
	uint32_t overlimits;
	uint32_t requeues;
};

/* The statistics of the qdisc with that handle (major:0). -ENOENT if there is none. */
int tc_stats(struct rtnl *nl, int ifindex, uint32_t handle, struct tc_qdisc_stats *stats,
	struct qerr *err);

/* The handle that every filter of ours has within its preference. */
#define TC_FILTER_HANDLE 1

/* Parents of filters of a clsact qdisc. */
#define TC_CLSACT_INGRESS TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)
#define TC_CLSACT_EGRESS  TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)

/*
 * Attach the program in direct-action mode, for all protocols, at the preference prio (> 0) of
 * a qdisc (major:0) or of clsact. What has our handle there is replaced if replace, in one step
 * and without a frame going past; -EEXIST else. classid: on a classful
 * qdisc that qdisc's handle, which lends its major to the program's 16-bit tc_classid; 0 else.
 */
int tc_filter_bpf_add(struct rtnl *nl, int ifindex, uint32_t parent, uint16_t prio, int prog_fd,
	const char *name, uint32_t classid, bool replace, struct qerr *err);

/* Is that filter there? 0, -ENOENT, or what went wrong. */
int tc_filter_bpf_get(
	struct rtnl *nl, int ifindex, uint32_t parent, uint16_t prio, struct qerr *err);

/* Take that filter off and no other. -ENOENT if it is not there. */
int tc_filter_bpf_del(
	struct rtnl *nl, int ifindex, uint32_t parent, uint16_t prio, struct qerr *err);

/*
 * Add or delete the device's clsact qdisc. Both purge every queue of the device, without a drop
 * counted. Deleting takes everybody's filters there away. -EEXIST if one is there already (or an
 * ingress qdisc, in the same place), -ENOENT if there is none.
 */
int tc_clsact_add(struct rtnl *nl, int ifindex, struct qerr *err);
int tc_clsact_del(struct rtnl *nl, int ifindex, struct qerr *err);

#endif
