/* SPDX-License-Identifier: BSD-2-Clause */
/* The typed policy: what one YAML file says, every value in one unit and within its range. */
#ifndef QUENCH_POLICY_H
#define QUENCH_POLICY_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "control/rate_presets.h"
#include "qerr.h"

#define POLICY_PORTS_MAX   62
#define POLICY_CLASSES_MAX 8
#define POLICY_PAIRS_MAX   1024
#define POLICY_NAME_MAX	   32

enum port_role { PORT_GATEWAY, PORT_HOST, PORT_NIC, PORT_MONITOR };
enum port_xdp { PORT_XDP_NATIVE, PORT_XDP_GENERIC_OK, PORT_XDP_NONE };
enum port_trust { TRUST_DSCP_PCP, TRUST_PCP_DSCP, TRUST_DSCP, TRUST_PCP };
enum class_kind { CLASS_LOSSLESS, CLASS_SEMI_LOSSLESS, CLASS_LOSSY };
enum share_kind { SHARE_AUTO, SHARE_STRICT, SHARE_PERCENT };
enum port_pfc { PFC_BOTH, PFC_SEND, PFC_OBEY, PFC_OFF };
enum watchdog_action { WATCHDOG_DROP, WATCHDOG_FORWARD, WATCHDOG_ALERT };
enum cnp_generate { CNP_OFF, CNP_ON_CE, CNP_AT_MARK };

struct policy_port {
	char name[IFNAMSIZ];	      /* or a pattern, until policy_find_ports */
	char driver[POLICY_NAME_MAX]; /* that the interface must have; "": any */
	uint8_t mac[6];		      /* the same; zeros: any */
	enum port_role role;
	enum port_xdp xdp;
	enum port_trust trust; /* what says the class; of two, the first that a frame has */
	uint64_t rate_bps;     /* what the port may send, shaped by us; wire bit/s; 0: not given */
	uint64_t speed_bps;    /* of the link: pause times are counted in it; 0: ask the driver */
	enum port_pfc pfc;     /* what of PFC there is on this link, for the classes that have it */
	bool notify;	       /* make CNPs here for the receivers behind this port */
	bool replace_mq;       /* may stand in for the device's own mq */
	int line;	       /* where the port stands in the file */
};

/* Do frames wait in queues of ours at the port, so that it can mark, pause and be paused? */
static inline bool policy_port_has_queues(const struct policy_port *port)
{
	return port->role == PORT_GATEWAY || port->role == PORT_HOST;
}

struct policy_ecn {
	bool present;
	uint32_t kmin_bytes;
	uint32_t kmax_bytes;
	double pmax; /* (0, 1] */
};

/* When the neighbour that a queue's frames come from is told to pause; 0: computed. */
struct policy_marks {
	bool present; /* else it is never told */
	uint32_t xoff_bytes;
	uint32_t xon_bytes;
};

/* What a class may count on of a port that all want to send from. */
struct policy_share {
	enum share_kind kind;
	uint32_t percent; /* 1..SHARE_MAX_PERCENT, of SHARE_PERCENT */
};

/* The rest of a port: 10 % for CNPs and pauses, 1 % at least for best effort. */
#define SHARE_MAX_PERCENT 89

struct policy_class {
	char name[POLICY_NAME_MAX];
	uint8_t priority;   /* 0..7 */
	uint64_t dscp_mask; /* bit n: DSCP n belongs here */
	uint8_t pcp_mask;   /* bit n: PCP n belongs here */
	enum class_kind kind;
	uint32_t limit_bytes; /* what all queues of the class may hold together at one port */
	struct policy_share share;
	struct policy_ecn ecn;
	struct policy_marks pfc; /* of what one ingress port may hold in one egress queue */
	int line;
};

struct policy_cnp {
	enum cnp_generate generate;
	uint8_t dscp;
	uint8_t priority;
	uint64_t interval_ns;
};

struct policy_watchdog {
	uint64_t detect_ns; /* paused for this long with nothing sent is a storm; 0: no watchdog */
	uint64_t restore_ns;
	enum watchdog_action action;
	bool big_red_switch; /* the action for every class that obeys, storm or not */
};

struct policy_pfc {
	uint64_t pause_ns;     /* of one XOFF; 0: computed */
	uint64_t reaction_ns;  /* from the crossing frame to the XOFF on the wire, at the worst */
	uint64_t response_ns;  /* the peer's, from the XOFF to its last frame; 0: by 802.3 */
	uint32_t cable_m;      /* the longest, in metres */
	uint32_t budget_per_s; /* PFC frames that a port sends at most */
	bool multicast;	       /* may broadcast and multicast frames be lossless? */
	struct policy_watchdog watchdog;
};

/* How the fast thread runs. */
struct policy_realtime {
	bool poll;	   /* never sleeps */
	uint64_t cpus;	   /* bit n: may run on CPU n; 0: anywhere */
	uint32_t priority; /* of SCHED_FIFO, and memory locked; 0: like everybody */
};

struct policy_dcqcn {
	struct rate_params rate; /* line_rate_bps 0: the port's rate; the rest never by itself */
	enum rate_preset preset; /* where the parameters that are not given come from */
	uint64_t reference_bps;	 /* the line rate that the steps belong to; 0: to any */
	uint32_t qp_classes;	 /* size of the pool at each reaction-point port */
	uint64_t idle_ns;	 /* a QP silent for this long gives its class back */
	uint64_t lease_ns;	 /* and a busy one after this long; 0: keeps it */
	uint64_t tick_ns;	 /* how often rates are sent to the kernel */
	double step;		 /* a rate that moved by less than this share is not sent */
};

struct policy_endpoint {
	struct in6_addr addr; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t qpn;	      /* 2..0xffffff */
};

struct policy_pair {
	struct policy_endpoint a, b;
};

#define POLICY_L4_PORTS_MAX 4

struct policy_l4_ports {
	uint16_t port[POLICY_L4_PORTS_MAX];
	uint32_t count;
	bool given; /* the list is there, if only an empty one */
};

/* What tells protocols apart that standards do not. */
struct policy_protocols {
	uint16_t roce_port;
	uint16_t geneve_port;		    /* 0: not looked into */
	struct policy_l4_ports vxlan_ports; /* not given: the usual ones */
	struct policy_l4_ports iwarp_ports; /* beside connections that begin with MPA */
};

struct policy_observe {
	char host[64]; /* numeric address */
	uint16_t port;
};

struct policy {
	uint32_t version; /* of the format: 1 */
	struct policy_port ports[POLICY_PORTS_MAX];
	size_t ports_count;
	struct policy_class classes[POLICY_CLASSES_MAX];
	size_t classes_count;
	struct policy_cnp cnp;
	struct policy_pfc pfc;
	struct policy_realtime realtime;
	struct policy_dcqcn dcqcn;
	struct policy_pair pairs[POLICY_PAIRS_MAX];
	size_t pairs_count;
	struct policy_observe observe;
	struct policy_protocols protocols;
	uint32_t flows_max; /* size of the flow table */
	bool repair;	    /* make queues again that somebody else deleted */
};

/* Something about a policy: a fault, or a warning of what is legal and known to hurt. */
struct policy_note {
	bool warning;
	size_t line, column;
	const char *field; /* "classes[0].ecn.kmin" */
	const char *what;
	const char *text; /* the whole line, "file:line:column: field: what" */
};

/* Called once for each fault and warning; *note is gone afterwards. */
typedef void (*policy_report_fn)(void *arg, const struct policy_note *note);

/*
 * Read the policy text of len bytes, called name in messages, into *policy (whole, defaults
 * filled in). Every fault is reported, not only the first; warnings only when there is none.
 * Returns 0, or -EINVAL when at least one fault was reported; *policy is then not to be used.
 * Allocates nothing that outlives it.
 */
int policy_parse(const char *text, size_t len, const char *name, struct policy *policy,
	policy_report_fn report, void *arg);

/*
 * Read the file at path and parse it as above. When it cannot be read: -errno and *err says why;
 * when it was read and has faults: -EINVAL, they were reported and *err is empty.
 */
int policy_load(const char *path, struct policy *policy, policy_report_fn report, void *arg,
	struct qerr *err);

/* Write every key with its unit, default and range as a Markdown table: the reference page. */
void policy_describe(FILE *out);

#endif
