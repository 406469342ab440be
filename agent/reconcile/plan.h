/* SPDX-License-Identifier: BSD-2-Clause */
/* What would have to change on a port for it to be as policy says. Pure. */
#ifndef QUENCH_PLAN_H
#define QUENCH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataplane/hooks.h"
#include "netlink/link.h"
#include "netlink/tc.h"
#include "policy/policy.h"
#include "quench/abi.h"

/* What a NIC does by itself; where it cannot be asked, nothing. */
struct plan_nic {
	bool lro, gro_hw;		 /* merges frames before XDP sees them */
	bool udp_gro;			 /* UDP packets that pass through are merged after it */
	bool strips_tags;		 /* VLAN tags are taken off before XDP sees them */
	bool pause_rx, pause_tx;	 /* of the whole link */
	uint32_t channels, channels_max; /* 0: not known */
	bool firmware_dcbx;		 /* the adapter exchanges DCB settings by itself */
};

/* What a port was found to be. */
struct plan_facts {
	struct link_info link;
	uint32_t tick_ns;
	struct tc_object *have; /* tc_read's */
	size_t have_count;
	bool filter; /* of ours, on our root */
	struct hooks hooks;
	struct plan_nic nic;
	bool lldpad; /* runs in this network namespace */
};

enum plan_action {
	PLAN_CREATE,
	PLAN_CHANGE, /* in place */
	PLAN_DELETE,
	PLAN_BLOCKED, /* something of somebody else's is in the way: the whole cannot be applied */
};

struct plan_step {
	enum plan_action action;
	const char *kind;	/* "qdisc", "class", "filter", "xdp", "tcx", "conf" or "port" */
	bool leaf;		/* a queue of one ingress port or QP: there may be thousands */
	char name[64];		/* "htb class 9000:10"; empty when blocked */
	char place[32];		/* "parent 9000:1" */
	char from[128];		/* values it has, of a change only those that differ */
	char to[QERR_TEXT_MAX]; /* values it is to have; why it is blocked */
};

struct plan_warning {
	const char *code;
	char text[320];
};

struct plan {
	struct plan_step *steps;
	size_t steps_count, steps_room;
	struct plan_warning *warnings;
	size_t warnings_count, warnings_room;
	int code; /* -ENOMEM: not all of it is there */
};

/*
 * Add what it takes to bring the port from the facts to what policy says. A QP's rate and a closed
 * gate are the running agent's business and no difference.
 */
void plan_port(struct plan *plan, const struct policy *policy, const struct policy_port *port,
	const struct plan_facts *facts);

/*
 * Add what changes in the configuration that the programs of all ports share: classes, marks, CNPs.
 */
void plan_conf(struct plan *plan, const struct policy *policy, const struct conf *want,
	const struct conf *have);

/* Add that the port cannot be had, and why. */
void plan_block(struct plan *plan, const char *why);

/* Add that everything of ours goes from a port that the policy no longer has. */
void plan_leave(struct plan *plan, const struct plan_facts *facts);

/* Add a warning about what is there already, if there is one (plan_port does). */
void plan_warn(struct plan *plan, const struct policy *policy, const struct policy_port *port,
	const struct plan_facts *facts);

/* Add this warning. */
void plan_add_warning(struct plan *plan, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* How many steps have that action. */
size_t plan_count(const struct plan *plan, enum plan_action action);

void plan_free(struct plan *plan);

#endif
