/* SPDX-License-Identifier: BSD-2-Clause */
/* The gates' state, private to gates.c and gates_watchdog.c. */
#ifndef QUENCH_GATES_STATE_H
#define QUENCH_GATES_STATE_H

#include "control/pause.h"
#include "control/watchdog.h"
#include "engine/gates.h"
#include "netlink/tc.h"

struct gate {
	struct pause pause;
	uint64_t sent_bytes; /* through the gate, when last looked at */
	uint64_t moves_ns;   /* opened: it must have sent something by then; 0: it has */
	struct watchdog watchdog;
	uint64_t watched_xoffs; /* of the peer, at the watchdog's last look */
	uint64_t storm_ns;	/* since when the storm lasts; 0: there is none */
	uint64_t storm_drops;	/* of the port, when it began */
};

struct gate_port {
	struct fast_port conf;
	struct port_pauses *pauses;
	struct gate_counters *counters; /* by class */
	struct gate gates[CLASSES_MAX];
	uint64_t watch_ns; /* when the watchdog looks next; 0: there is nothing to look at */
	uint64_t again_ns; /* when XOFF is said again; 0: nobody is paused */
	uint64_t noted_ns[CLASSES_MAX];
	uint64_t alarm_ns;
};

struct gates {
	const struct policy *policy;
	struct dataplane *dp;
	struct rtnl *nl;
	struct fast_calls calls;
	int kick_fd, blank_fd;
	struct gate_port ports[SLOTS_MAX]; /* by slot; ifindex 0: none */
};

/* Only the fast thread writes its counters; others read. */
static inline void gates_count(__u64 *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* The name of the port in that slot, for people. */
const char *gates_port_name(const struct gates *gates, uint32_t slot);

/* How much has left through a gate, and what waits there; false when it cannot be told. */
bool gate_look(const struct gates *gates, const struct gate_port *port, uint32_t cls,
	struct tc_qdisc_stats *stats);

/* Apply what the peer last said to every class that obeys it. */
void gates_hear(struct gates *gates, struct gate_port *port, uint64_t heard_ns);

/* Open the class's gate whatever the peer says. */
void gate_force_open(struct gates *gates, struct gate_port *port, uint32_t cls);

/* ---- gates_watchdog.c ---- */

/* Something happened that the watchdog is there for: it looks from now on. */
void gates_watch(struct gates *gates, struct gate_port *port, uint64_t now_ns);

/* The watchdog's look at a port, when it is due. */
void gates_watch_run(struct gates *gates, struct gate_port *port, uint64_t now_ns);

/* Do to the class what policy says about its storm, if it is in one and obeys pauses at all. */
void gates_judge(struct gates *gates, struct gate_port *port, uint32_t cls, uint64_t now_ns);

/* Are the peer's pauses of this class ignored? */
bool gates_ignored(const struct gate_port *port, uint32_t cls);

#endif
