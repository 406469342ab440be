/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's state, private to this directory. */
#ifndef QUENCH_ENGINE_STATE_H
#define QUENCH_ENGINE_STATE_H

#include <pthread.h>
#include <time.h>

#include "control/rate_ctl.h"
#include "dataplane/dataplane.h"
#include "engine/events.h"
#include "engine/fast.h"
#include "engine/guardian.h"
#include "engine/instance.h"
#include "netlink/link.h"
#include "netlink/rtnl.h"
#include "observe/control.h"
#include "observe/http.h"
#include "policy/policy.h"
#include "reconcile/tree.h"

struct engine_port {
	const struct policy_port *policy;
	struct link_info link;
	struct port_conf conf;
	struct tree_spec spec;
	struct rate_params dcqcn;
	enum xdp_mode xdp;
	uint64_t speed_bps;  /* of the link */
	uint64_t drops;	     /* of our qdiscs, those of earlier trees included */
	uint32_t tree_drops; /* of them, this tree's */
	bool queues_bad;     /* could not be mended; tried again now and then */
	bool failed;	     /* setting it up again failed; said once */
	bool claimed; /* XDP is ours, so nobody else's queues are there: in the saved state */
	bool has_tree;
	bool gone;	  /* the interface is not there at the moment */
	bool tags_hidden; /* its NIC takes off the VLAN tags that the policy goes by first */
};

/* The last look at this machine's QPs. */
struct local_qps {
	uint64_t looked_ns; /* 0: there was none */
	uint64_t unknown;   /* frames that had found no pair by then */
	int code;	    /* how it went */
};

struct engine {
	struct instance *instance;
	const struct policy *policy;
	struct policy *reloaded;   /* policy, if it is not the one that the agent started with */
	const char *reload_result; /* of the last reload; a constant */
	const char *policy_path;
	time_t loaded_at;
	uint64_t started_ns; /* CLOCK_MONOTONIC */
	struct conf conf;
	struct engine_port ports[POLICY_PORTS_MAX];
	size_t ports_count;
	struct dataplane *dp;
	struct fast *fast;
	struct http *http;
	struct control *control;
	struct guardian guardian;
	struct events events;
	pthread_mutex_t nl_lock; /* nl and ports: the main thread writes, the HTTP thread reads */
	struct rtnl *nl;
	bool adopt;		  /* take over what an earlier agent left in place */
	bool saved;		  /* the state file is ours */
	bool release;		  /* stop serving */
	bool check_due;		  /* the ports may have changed */
	bool queues_due;	  /* and queues of ours */
	uint64_t guardian_due_ns; /* start another then; 0: there is one */
	struct local_qps local_qps;
	int signal_fd;
	int gone_fd;  /* eventfd: a qdisc of ours died */
	int links_fd; /* rtnetlink: some link changed */
};

/*
 * Write down which ports are claimed, before anything is made there, so that it can be taken off
 * whatever happens to us.
 */
int engine_save(const struct engine *engine, struct qerr *err);

/* conf from the policy, for the ports as they are. */
int engine_plan_conf(struct engine *engine, struct qerr *err);

/* The same again, and told to the programs. Where it does not fit: -errno, and all stays. */
int engine_replan_conf(struct engine *engine, struct qerr *err);

/* The ports as the fast thread needs them. */
void engine_fast_ports(const struct engine *engine, struct fast_port ports[POLICY_PORTS_MAX]);

/* CLOCK_MONOTONIC. */
uint64_t engine_now_ns(void);

#endif
