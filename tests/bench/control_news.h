/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs share that listen to what the kernel says of an agent's queues. */
#ifndef CONTROL_NEWS_H
#define CONTROL_NEWS_H

#include <err.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "quench/abi.h"

/*
 * A netlink socket in the network namespace of the agent, which this process moves to. Who receives
 * there waits for so long.
 */
static inline int news_open(uint64_t agent_pid, int patience_ms)
{
	const struct timeval patience = {.tv_usec = patience_ms * 1000};
	struct sockaddr_nl all = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_TC};
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%llu/ns/net", (unsigned long long)agent_pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		err(1, "%s", path);
	close(fd);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0 || bind(fd, (struct sockaddr *)&all, sizeof(all)) ||
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		err(1, "cannot listen to the kernel");
	return fd;
}

static inline const struct nlattr *news_attribute(
	const struct nlattr *attr, const void *end, uint16_t type)
{
	for (; mnl_attr_ok(attr, (int)((const char *)end - (const char *)attr));
		attr = mnl_attr_next(attr))
		if (mnl_attr_get_type(attr) == type)
			return attr;
	return NULL;
}

/* The payload of an attribute within the options of a queue or class; NULL when there is none. */
static inline const void *news_option(const struct nlmsghdr *nlh, uint16_t type)
{
	const struct nlattr *options =
		news_attribute(mnl_nlmsg_get_payload_offset(nlh, sizeof(struct tcmsg)),
			mnl_nlmsg_get_payload_tail(nlh), TCA_OPTIONS);
	const struct nlattr *found;

	if (!options)
		return NULL;
	found = news_attribute(mnl_attr_get_payload(options),
		(const char *)options + mnl_attr_get_len(options), type);
	return found ? mnl_attr_get_payload(found) : NULL;
}

#endif
