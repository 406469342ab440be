// SPDX-License-Identifier: BSD-2-Clause
// The fast thread: events from the kernel in, QP rates out.
#include "engine/fast.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "control/reaction.h"
#include "engine/gates.h"
#include "netlink/rtnl.h"
#include "netlink/tc.h"

enum {
	HANDSHAKES_MAX = 4096,
	ROUND_EVENTS_MAX = 1024,
	ROUND_PAUSES_MAX = 4, /* each may change gates, which takes as long as a hundred CNPs */
	ROUND_LOOKS_MAX = 16,
	CHANGES_MAX = 512,		  /* rates sent in one go */
	SCAN_NS = FAST_BEAT_MS * 1000000, /* between two looks for idle QPs */
	CALL_SECONDS = 5,
	LOCAL_CHANGES_MAX = 64, /* taken between two rounds */
	GRACE_NS = 20000000,	/* after taking a class back: no frame is still being steered */
};

/*
 * A class of the pool: the kernel takes it; the fast thread takes it back, waits until its leaf is
 * empty, sets it to line rate and gives it to the kernel again.
 */
enum class_state { CLASS_FREE, CLASS_IN_USE, CLASS_DRAINING, CLASS_RESETTING };

struct class_record {
	enum class_state state;
	uint64_t since_ns; /* when it came into that state */
	uint64_t bytes;	   /* of the class, told to DCQCN so far */
};

struct port {
	struct fast_port conf;
	struct reaction *reaction; /* NULL: no reaction point */
	_Atomic bool renew;	   /* take over the two below */
	_Atomic int new_ifindex;
	_Atomic uint32_t new_mtu_bytes;
};

/* What another thread wants done between two rounds, and waits for. */
struct call {
	void (*run)(struct fast *fast, const void *arg);
	const void *arg;
	sem_t done;
};

/* A changed policy on its way to the thread. */
struct reload {
	const struct policy *policy;
	const struct fast_port *ports;
	size_t ports_count;
};

struct local_changes {
	const struct fast_local_change *change;
	size_t count;
};

struct fast {
	pthread_t thread;
	bool started;
	int epoll_fd, timer_fd, gates_fd, stop_fd;
	uint64_t gates_due_ns; /* what gates_fd is set to */
	_Atomic bool stopping;
	struct call *_Atomic call; /* to be taken up; NULL: nothing */
	bool ticking;		   /* the timer runs at tick speed */
	const struct policy *policy;
	struct dataplane *dp;
	struct rtnl *nl;
	struct pairs *pairs;
	struct gates *gates;
	struct port ports[SLOTS_MAX]; /* by slot */
	uint32_t classes_count;
	struct class_record *classes;
	_Atomic uint64_t *rates_bps;
	uint64_t scan_ns, scan_due_ns; /* looks for QPs that give their class back */
	struct fast_gauges gauges;
	struct agent_counters *counters; /* outlive the agent */
	struct fast_calls calls;
	uint64_t started_ns;
	uint32_t taken_events; /* in the round under way */
	uint32_t taken_pauses; /* of them */
	struct rate_change changes[CHANGES_MAX];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* ---- pairs ---- */

static struct flow_key flow_between(const struct endpoint *from, const struct endpoint *to)
{
	struct flow_key key = {.dst_qpn = to->qpn};

	memcpy(key.src, from->addr, sizeof(key.src));
	memcpy(key.dst, to->addr, sizeof(key.dst));
	return key;
}

static void apply_pair(struct fast *fast, const struct pairs_change *change)
{
	struct flow_key there = flow_between(&change->a, &change->b);
	struct flow_key back = flow_between(&change->b, &change->a);

	if (change->event == PAIRS_UP) {
		dataplane_set_pair(fast->dp, &there, change->a.qpn, change->source);
		dataplane_set_pair(fast->dp, &back, change->b.qpn, change->source);
	} else {
		dataplane_clear_pair(fast->dp, &there);
		dataplane_clear_pair(fast->dp, &back);
	}
}

static void apply_pairs(struct fast *fast, const struct pairs_changes *changes)
{
	for (size_t i = 0; i < changes->count; i++)
		apply_pair(fast, &changes->change[i]);
	atomic_store_explicit(&fast->gauges.pairs, pairs_count(fast->pairs), memory_order_relaxed);
}

static struct endpoint endpoint_of(const struct policy_endpoint *from)
{
	struct endpoint end = {.qpn = from->qpn};

	memcpy(end.addr, &from->addr, sizeof(end.addr));
	return end;
}

static void add_policy_pairs(struct fast *fast)
{
	for (size_t i = 0; i < fast->policy->pairs_count; i++) {
		struct endpoint a = endpoint_of(&fast->policy->pairs[i].a);
		struct endpoint b = endpoint_of(&fast->policy->pairs[i].b);
		struct pairs_changes changes;

		changes = pairs_add(fast->pairs, &a, &b);
		apply_pairs(fast, &changes);
	}
}

/* A pair that an earlier agent left in the map. Both directions are there; either makes it whole.
 */
static void restore_pair(void *arg, const struct flow_key *flow, const struct pair *pair)
{
	struct fast *fast = arg;
	struct endpoint from = {.qpn = pair->peer_qpn}, to = {.qpn = flow->dst_qpn};
	struct pairs_changes changes;

	memcpy(from.addr, flow->src, sizeof(from.addr));
	memcpy(to.addr, flow->dst, sizeof(to.addr));
	if (pair->source != PAIR_CM && pair->source != PAIR_ANSWERS && pair->source != PAIR_NETLINK)
		return dataplane_clear_pair(fast->dp, flow); /* this policy's are added anew */
	changes = pairs_restore(fast->pairs, &from, &to, (enum pair_source)pair->source);
	apply_pairs(fast, &changes);
}

/* ---- events ---- */

/* Only this thread writes; others read. */
static void count(__u64 *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* Does the class belong to this QP, be it only until its leaf is empty? */
static bool class_is_of(const struct qp_class *cls, const struct flow_key *key)
{
	return __atomic_load_n(&cls->taken, __ATOMIC_ACQUIRE) &&
	       !memcmp(&cls->owner, key, sizeof(*key));
}

/* A CNP about the flow: its QP slows down. What came while no agent ran is past. */
static void on_cnp(struct fast *fast, const struct event *e)
{
	const struct qp_class *cls;
	struct port *port;
	struct qp qp;

	if (e->time_ns < fast->started_ns)
		return;
	if (!dataplane_get_qp(fast->dp, &e->key, &qp) || qp.flow.slot >= SLOTS_MAX)
		return count(&fast->counters->cnps_unenforced, 1);
	port = &fast->ports[qp.flow.slot];
	if (!port->reaction || qp.leaf >= port->conf.spec.qp_count)
		return count(&fast->counters->cnps_unenforced, 1);
	cls = &dataplane_qp_classes(fast->dp)[port->conf.qp_base + qp.leaf];
	if (!class_is_of(cls, &e->key))
		return count(&fast->counters->cnps_unenforced, 1);
	if (reaction_cnp(port->reaction, qp.leaf, qp.generation, e->time_ns))
		count(&fast->counters->cnps_handled, 1);
	else
		count(&fast->counters->cnps_too_soon, 1);
}

static void on_cm(struct fast *fast, const struct event *e)
{
	struct pairs_changes changes =
		pairs_learn(fast->pairs, e->key.src, e->key.dst, &e->cm, now_ns());

	apply_pairs(fast, &changes);
}

static void on_answer(struct fast *fast, const struct event *e)
{
	struct endpoint to = {.qpn = e->key.dst_qpn};
	struct pairs_changes changes;

	memcpy(to.addr, e->key.dst, sizeof(to.addr));
	changes = pairs_answer(fast->pairs, e->key.src, &to, e->cm.qpn, e->cm.psn, e->time_ns);
	apply_pairs(fast, &changes);
}

static void on_qdisc_gone(struct fast *fast)
{
	fast->calls.qdisc_gone(fast->calls.arg);
}

/* One event; false after so many in a row: cuts are sent, and timers have their turn. */
static bool on_event(void *arg, const struct event *event)
{
	struct fast *fast = arg;

	switch (event->type) {
	case EVENT_CNP:
		on_cnp(fast, event);
		break;
	case EVENT_CM:
		on_cm(fast, event);
		break;
	case EVENT_ANSWER:
		on_answer(fast, event);
		break;
	case EVENT_QDISC_GONE:
		on_qdisc_gone(fast);
		break;
	case EVENT_PAUSE:
		gates_news(fast->gates, event->slot, event->time_ns);
		fast->taken_pauses++;
		break;
	}
	return ++fast->taken_events < ROUND_EVENTS_MAX && fast->taken_pauses < ROUND_PAUSES_MAX;
}

/* ---- rates ---- */

static void publish_rate(
	struct fast *fast, const struct port *port, const struct rate_change *change)
{
	bool limited = change->rate_bps < port->conf.dcqcn.line_rate_bps;

	atomic_store_explicit(&fast->rates_bps[port->conf.qp_base + change->class_index],
		limited ? change->rate_bps : 0, memory_order_relaxed);
}

/* The kernel refused some of the changes just sent: they are due again. */
static void send_again(struct fast *fast, struct port *port, size_t n)
{
	for (size_t i = 0; i < n; i++)
		reaction_retry(port->reaction, fast->changes[i].class_index);
}

/*
 * The kernel refused some of the changes just sent: they are due again, but not where the class or
 * the whole interface is gone. Then the port is set up anew, and its QPs start afresh.
 */
static void take_faults(struct fast *fast, struct port *port, size_t n)
{
	struct rtnl_faults faults;

	if (!rtnl_batch_errors(fast->nl, &faults) && !faults.lost)
		return;
	count(&fast->counters->netlink_errors, faults.count);
	if (faults.first.code != -ENOENT && faults.first.code != -ENODEV)
		send_again(fast, port, n);
}

/* CHANGES_MAX of them fit into one batch. */
static void send_rates(struct fast *fast, struct port *port, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct rate_change *change = &fast->changes[i];
		struct tc_object cls =
			tree_qp_class(&port->conf.spec, change->class_index, change->rate_bps);

		tc_batch(fast->nl, port->conf.ifindex, &cls, TC_CHANGE, NULL);
		publish_rate(fast, port, change);
	}
	count(&fast->counters->rate_changes, n);
	if (rtnl_batch_send(fast->nl))
		send_again(fast, port, n);
	take_faults(fast, port, n);
}

/* Tell DCQCN's byte counter what the port's QPs have sent since the last tick. */
static void count_bytes(struct fast *fast, struct port *port, uint64_t now)
{
	for (uint32_t k = 0; k < port->conf.spec.qp_count; k++) {
		const struct qp_class *cls =
			&dataplane_qp_classes(fast->dp)[port->conf.qp_base + k];
		struct class_record *record = &fast->classes[port->conf.qp_base + k];
		uint64_t bytes = __atomic_load_n(&cls->bytes, __ATOMIC_RELAXED);

		if (bytes != record->bytes)
			reaction_sent(
				port->reaction, k, cls->generation, bytes - record->bytes, now);
		record->bytes = bytes;
	}
}

static void tick_port(struct fast *fast, struct port *port, uint64_t now)
{
	size_t n;

	if (!port->reaction || reaction_idle(port->reaction))
		return;
	if (port->conf.dcqcn.byte_counter_bytes)
		count_bytes(fast, port, now);
	n = reaction_tick(port->reaction, now, fast->changes, CHANGES_MAX);
	if (n && port->conf.ifindex)
		send_rates(fast, port, n);
	atomic_store_explicit(&fast->gauges.limited[port->conf.slot],
		reaction_limited(port->reaction), memory_order_relaxed);
}

/* ---- the pool ---- */

static void pool_put(struct fast *fast, const struct fast_port *conf, uint32_t k)
{
	struct qp_pool *pool = &dataplane_qp_pools(fast->dp)[conf->slot];
	uint64_t *ring = dataplane_qp_free(fast->dp);

	ring[conf->qp_base + pool->tail % conf->spec.qp_count] = k;
	__atomic_store_n(&pool->tail, pool->tail + 1, __ATOMIC_RELEASE);
}

/* Hand an empty class back to the kernel's ring of free ones. */
static void class_return(struct fast *fast, struct port *port, uint32_t k)
{
	struct qp_class *cls = &dataplane_qp_classes(fast->dp)[port->conf.qp_base + k];

	cls->taken = 0;
	fast->classes[port->conf.qp_base + k].state = CLASS_FREE;
	pool_put(fast, &port->conf, k);
}

static bool class_is_empty(struct fast *fast, const struct port *port, uint32_t k)
{
	struct tc_qdisc_stats stats;

	return !tc_stats(
		       fast->nl, port->conf.ifindex, TREE_HANDLE(TREE_QP_LEAF + k), &stats, NULL) &&
	       !stats.backlog_bytes;
}

/* Has the class's QP been silent, or had it, for long enough? */
static bool class_is_due(const struct fast *fast, const struct qp_class *cls,
	const struct class_record *record, uint64_t now)
{
	const struct policy_dcqcn *dcqcn = &fast->policy->dcqcn;

	return now >= cls->last_ns + dcqcn->idle_ns ||
	       (dcqcn->lease_ns && now >= record->since_ns + dcqcn->lease_ns);
}

/*
 * One class at one moment; returns whether it is in use. *looks is how many questions to the kernel
 * this round may still cost.
 */
static bool scan_class(struct fast *fast, struct port *port, uint32_t k, uint64_t now, int *looks)
{
	uint32_t index = port->conf.qp_base + k;
	struct qp_class *cls = &dataplane_qp_classes(fast->dp)[index];
	struct class_record *record = &fast->classes[index];

	if (record->state == CLASS_DRAINING) {
		if (now - record->since_ns > GRACE_NS && (*looks)-- > 0 &&
			class_is_empty(fast, port, k)) {
			reaction_forget(port->reaction, k);
			record->state = CLASS_RESETTING;
		}
		return true;
	}
	if (record->state == CLASS_RESETTING) {
		class_return(fast, port, k);
		return true;
	}
	if (!__atomic_load_n(&cls->taken, __ATOMIC_ACQUIRE))
		return false;
	if (record->state != CLASS_IN_USE)
		*record = (struct class_record){CLASS_IN_USE, now, record->bytes};
	if (!class_is_due(fast, cls, record, now))
		return true;
	__atomic_fetch_add(&cls->generation, 1, __ATOMIC_RELEASE);
	*record = (struct class_record){CLASS_DRAINING, now, record->bytes};
	return true;
}

static void renew_port(struct fast *fast, struct port *port)
{
	if (!atomic_exchange(&port->renew, false))
		return;
	port->conf.ifindex = port->new_ifindex;
	port->conf.spec.mtu_bytes = port->new_mtu_bytes;
	gates_renew(fast->gates, port->conf.slot, port->conf.ifindex, port->conf.spec.mtu_bytes);
	for (uint32_t k = 0; port->reaction && k < port->conf.spec.qp_count; k++)
		reaction_forget(port->reaction, k);
}

static void scan_port(struct fast *fast, struct port *port, uint64_t now)
{
	int looks = ROUND_LOOKS_MAX;
	uint32_t taken = 0;

	renew_port(fast, port);
	if (!port->reaction)
		return;
	for (uint32_t k = 0; k < port->conf.spec.qp_count; k++)
		taken += scan_class(fast, port, k, now, &looks);
	atomic_store_explicit(&fast->gauges.taken[port->conf.slot], taken, memory_order_relaxed);
}

/* ---- the loop ---- */

static void set_timer(struct fast *fast, bool ticking)
{
	uint64_t period = ticking ? fast->policy->dcqcn.tick_ns : fast->scan_ns;
	struct timespec ts = {.tv_sec = period / 1000000000ull, .tv_nsec = period % 1000000000ull};

	fast->ticking = ticking;
	timerfd_settime(fast->timer_fd, 0, &(struct itimerspec){ts, ts}, NULL);
}

static bool work_is_left(const struct fast *fast)
{
	for (uint32_t slot = 0; slot < SLOTS_MAX; slot++)
		if (fast->ports[slot].reaction && !reaction_idle(fast->ports[slot].reaction))
			return true;
	return false;
}

static void on_timer(struct fast *fast)
{
	uint64_t expirations, now = now_ns();

	if (read(fast->timer_fd, &expirations, sizeof(expirations)) < 0)
		return;
	for (uint32_t slot = 0; slot < SLOTS_MAX; slot++)
		tick_port(fast, &fast->ports[slot], now);
	if (now < fast->scan_due_ns)
		return;
	fast->scan_due_ns = now + fast->scan_ns;
	fast->calls.beat(fast->calls.arg);
	if (__atomic_load_n(&fast->counters->qdisc_gone, __ATOMIC_ACQUIRE))
		fast->calls.qdisc_gone(fast->calls.arg); /* its event may have found no room */
	for (uint32_t slot = 0; slot < SLOTS_MAX; slot++)
		scan_port(fast, &fast->ports[slot], now);
	gates_look_over(fast->gates, now);
}

/* Wake when the gates are due next; said again only when that has moved. */
static void set_gates_timer(struct fast *fast)
{
	uint64_t due_ns = gates_due_ns(fast->gates);
	struct itimerspec at = {};

	if (due_ns == fast->gates_due_ns)
		return;
	fast->gates_due_ns = due_ns;
	if (due_ns != UINT64_MAX)
		at.it_value = (struct timespec){due_ns / 1000000000ull, due_ns % 1000000000ull};
	timerfd_settime(fast->gates_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* The first cut of a QP does not wait for the timer. */
static void send_cuts(struct fast *fast)
{
	for (uint32_t slot = 0; slot < SLOTS_MAX; slot++) {
		struct port *port = &fast->ports[slot];
		size_t n;

		if (!port->reaction || !port->conf.ifindex)
			continue;
		n = reaction_cuts(port->reaction, fast->changes, CHANGES_MAX);
		if (n)
			send_rates(fast, port, n);
	}
}

static void take_events(struct fast *fast)
{
	fast->taken_events = fast->taken_pauses = 0;
	dataplane_events_take(fast->dp);
	send_cuts(fast);
}

static void set_scan(struct fast *fast)
{
	uint64_t lease_ns = fast->policy->dcqcn.lease_ns;

	fast->scan_ns = lease_ns && lease_ns / 2 < SCAN_NS ? lease_ns / 2 : SCAN_NS;
}

static bool has_pair(const struct policy *policy, const struct policy_pair *pair)
{
	for (size_t i = 0; i < policy->pairs_count; i++)
		if (!memcmp(&policy->pairs[i], pair, sizeof(*pair)))
			return true;
	return false;
}

/* Pairs that the policy no longer names end; those that it names now are added. */
static void follow_pairs(struct fast *fast, const struct policy *before)
{
	for (size_t i = 0; i < before->pairs_count; i++) {
		struct pairs_changes changes;
		struct endpoint a, b;

		if (has_pair(fast->policy, &before->pairs[i]))
			continue;
		a = endpoint_of(&before->pairs[i].a);
		b = endpoint_of(&before->pairs[i].b);
		changes = pairs_remove(fast->pairs, &a, &b);
		apply_pairs(fast, &changes);
	}
	add_policy_pairs(fast);
}

/* A changed policy: from here on the old one is not looked at. */
static void take_reload(struct fast *fast, const void *arg)
{
	const struct reload *reload = arg;
	const struct policy *before = fast->policy;

	fast->policy = reload->policy;
	for (size_t i = 0; i < reload->ports_count; i++) {
		struct port *port = &fast->ports[reload->ports[i].slot];

		port->conf = reload->ports[i];
		if (port->reaction)
			reaction_renew(port->reaction, &port->conf.dcqcn, fast->policy->dcqcn.step);
	}
	gates_follow(fast->gates, fast->policy, reload->ports, reload->ports_count);
	follow_pairs(fast, before);
	set_scan(fast);
	set_timer(fast, fast->ticking);
}

static void take_local_pairs(struct fast *fast, const void *arg)
{
	const struct local_changes *local = arg;

	for (size_t i = 0; i < local->count; i++) {
		const struct fast_local_change *change = &local->change[i];
		struct pairs_changes changes;

		changes = change->up
				  ? pairs_add_local(fast->pairs, &change->local, &change->peer)
				  : pairs_remove_local(fast->pairs, &change->local, &change->peer);
		apply_pairs(fast, &changes);
	}
}

/* Everything that is due now, pauses first. Polling, the ring says nothing through epoll. */
static void take_turn(struct fast *fast, bool tick)
{
	uint64_t now;

	take_events(fast);
	now = now_ns();
	if (now >= fast->gates_due_ns)
		gates_run(fast->gates, now);
	if (tick)
		on_timer(fast);
	if (work_is_left(fast) != fast->ticking)
		set_timer(fast, !fast->ticking);
	set_gates_timer(fast);
}

/* Another thread wants something. */
static void take_call(struct fast *fast)
{
	struct call *call;
	uint64_t calls;

	if (read(fast->stop_fd, &calls, sizeof(calls)) < 0)
		return;
	call = atomic_exchange(&fast->call, NULL);
	if (!call)
		return;
	call->run(fast, call->arg);
	sem_post(&call->done);
}

static void *loop(void *arg)
{
	struct fast *fast = arg;
	int patience_ms = fast->policy->realtime.poll ? 0 : -1;

	set_timer(fast, false);
	fast->gates_due_ns = UINT64_MAX;
	for (;;) {
		struct epoll_event ready[4];
		int n = epoll_wait(fast->epoll_fd, ready, 4, patience_ms);
		bool tick = false;

		for (int i = 0; i < n; i++) {
			if (ready[i].data.fd == fast->stop_fd && fast->stopping)
				return NULL;
			if (ready[i].data.fd == fast->stop_fd)
				take_call(fast);
			tick |= ready[i].data.fd == fast->timer_fd;
		}
		take_turn(fast, tick);
	}
}

static int watch(struct fast *fast, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return fd < 0 || epoll_ctl(fast->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/*
 * Every class that nobody has belongs in the ring of free ones: all of them at first; later those
 * that an earlier agent died with in its hands. The kernel says a class is taken before it takes
 * it out of the ring.
 */
static int pool_fill(struct fast *fast, const struct fast_port *conf)
{
	const struct qp_pool *pool = &dataplane_qp_pools(fast->dp)[conf->slot];
	const struct qp_class *classes = &dataplane_qp_classes(fast->dp)[conf->qp_base];
	const uint64_t *ring = &dataplane_qp_free(fast->dp)[conf->qp_base];
	bool *there = calloc(conf->spec.qp_count, sizeof(*there));

	if (!there)
		return -ENOMEM;
	for (uint32_t at = __atomic_load_n(&pool->head, __ATOMIC_ACQUIRE); at != pool->tail; at++)
		if (ring[at % conf->spec.qp_count] < conf->spec.qp_count)
			there[ring[at % conf->spec.qp_count]] = true;
	for (uint32_t k = 0; k < conf->spec.qp_count; k++)
		if (!there[k] && !__atomic_load_n(&classes[k].taken, __ATOMIC_ACQUIRE))
			pool_put(fast, conf, k);
	free(there);
	return 0;
}

static int open_port(struct fast *fast, const struct fast_port *conf)
{
	struct port *port = &fast->ports[conf->slot];

	port->conf = *conf;
	if (!conf->spec.qp_count)
		return 0;
	port->reaction = reaction_new(conf->spec.qp_count, &conf->dcqcn, fast->policy->dcqcn.step);
	return port->reaction ? pool_fill(fast, conf) : -EINVAL;
}

static int open_ports(
	struct fast *fast, const struct fast_port *ports, size_t ports_count, struct qerr *err)
{
	for (size_t i = 0; i < ports_count; i++)
		fast->classes_count += ports[i].spec.qp_count;
	fast->classes = calloc(fast->classes_count + 1, sizeof(*fast->classes));
	fast->rates_bps = calloc(fast->classes_count + 1, sizeof(*fast->rates_bps));
	fast->pairs = pairs_new(HANDSHAKES_MAX, fast->policy->flows_max);
	if (!fast->classes || !fast->rates_bps || !fast->pairs)
		return qerr_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < ports_count; i++)
		if (open_port(fast, &ports[i]))
			return qerr_set(
				err, -EINVAL, "DCQCN's parameters do not fit the port's rate");
	return 0;
}

static int open_descriptors(struct fast *fast, struct qerr *err)
{
	int code = dataplane_events_open(fast->dp, on_event, fast, err);

	if (code)
		return code;
	fast->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	fast->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	fast->gates_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	fast->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (watch(fast, fast->timer_fd) || watch(fast, fast->gates_fd) ||
		watch(fast, fast->stop_fd) || watch(fast, dataplane_events_fd(fast->dp)))
		return qerr_set(err, -errno, "cannot set up the event loop: %s", strerror(errno));
	return rtnl_open(&fast->nl, err);
}

/* The thread's place among all others, as policy wants it. */
static int set_realtime(struct fast *fast, struct qerr *err)
{
	const struct policy_realtime *realtime = &fast->policy->realtime;
	const struct sched_param param = {.sched_priority = (int)realtime->priority};
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (int cpu = 0; cpu < 64; cpu++)
		if (realtime->cpus >> cpu & 1)
			CPU_SET(cpu, &cpus);
	if (realtime->cpus && pthread_setaffinity_np(fast->thread, sizeof(cpus), &cpus))
		return qerr_set(err, -EINVAL, "realtime.cpus: this machine has none of them");
	if (!realtime->priority)
		return 0;
	if (pthread_setschedparam(fast->thread, SCHED_FIFO, &param))
		return qerr_set(
			err, -EPERM, "realtime.priority: SCHED_FIFO is not allowed (CAP_SYS_NICE)");
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return qerr_set(
			err, -errno, "realtime.priority: cannot lock memory: %s", strerror(errno));
	return 0;
}

int fast_start(struct fast **out, const struct policy *policy, struct dataplane *dp,
	const struct fast_port *ports, size_t ports_count, bool adopt,
	const struct fast_calls *calls, struct qerr *err)
{
	struct fast *fast = calloc(1, sizeof(*fast));
	int code;

	if (!fast)
		return qerr_set(err, -ENOMEM, "out of memory");
	fast->policy = policy;
	fast->dp = dp;
	fast->counters = dataplane_counters(dp);
	fast->calls = *calls;
	fast->started_ns = now_ns();
	set_scan(fast);
	fast->epoll_fd = fast->timer_fd = fast->gates_fd = fast->stop_fd = -1;
	code = open_ports(fast, ports, ports_count, err);
	if (!code)
		code = open_descriptors(fast, err);
	if (!code)
		code = gates_open(
			&fast->gates, policy, dp, fast->nl, ports, ports_count, calls, err);
	if (!code) {
		if (adopt)
			dataplane_each_pair(dp, restore_pair, fast);
		add_policy_pairs(fast);
		count(&fast->counters->starts, 1);
		code = -pthread_create(&fast->thread, NULL, loop, fast);
		fast->started = !code;
	}
	if (!code)
		code = set_realtime(fast, err);
	if (code) {
		fast_stop(fast);
		return code;
	}
	*out = fast;
	return 0;
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

void fast_stop(struct fast *fast)
{
	if (!fast)
		return;
	fast->stopping = true;
	if (fast->started && write(fast->stop_fd, &(uint64_t){1}, sizeof(uint64_t)) > 0)
		pthread_join(fast->thread, NULL);
	for (uint32_t slot = 0; slot < SLOTS_MAX; slot++)
		reaction_free(fast->ports[slot].reaction);
	gates_close(fast->gates);
	pairs_free(fast->pairs);
	rtnl_close(fast->nl);
	close_if_open(fast->epoll_fd);
	close_if_open(fast->timer_fd);
	close_if_open(fast->gates_fd);
	close_if_open(fast->stop_fd);
	free(fast->classes);
	free(fast->rates_bps);
	free(fast);
}

/* Have the thread run that between two rounds; returns when it has. */
static int call_thread(struct fast *fast, void (*run)(struct fast *fast, const void *arg),
	const void *arg, struct qerr *err)
{
	struct call call = {.run = run, .arg = arg};
	struct timespec until;
	int late;

	sem_init(&call.done, 0, 0);
	atomic_store(&fast->call, &call);
	if (write(fast->stop_fd, &(uint64_t){1}, sizeof(uint64_t)) < 0) {
		atomic_store(&fast->call, NULL);
		return qerr_set(err, -errno, "cannot wake the fast thread: %s", strerror(errno));
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += CALL_SECONDS;
	do
		late = sem_timedwait(&call.done, &until);
	while (late && errno == EINTR);
	if (late && atomic_exchange(&fast->call, NULL))
		return qerr_set(err, -ETIMEDOUT, "the fast thread does not answer");
	while (late && sem_wait(&call.done)) /* it has begun */
		;
	sem_destroy(&call.done);
	return 0;
}

int fast_reload(struct fast *fast, const struct policy *policy, const struct fast_port *ports,
	size_t ports_count, struct qerr *err)
{
	struct reload reload = {.policy = policy, .ports = ports, .ports_count = ports_count};

	for (size_t i = 0; i < ports_count; i++)
		if (ports[i].spec.qp_count && !rate_params_valid(&ports[i].dcqcn))
			return qerr_set(
				err, -EINVAL, "DCQCN's parameters do not fit the port's rate");
	return call_thread(fast, take_reload, &reload, err);
}

int fast_local_pairs(
	struct fast *fast, const struct fast_local_change *changes, size_t count, struct qerr *err)
{
	int code = 0;

	for (size_t done = 0; !code && done < count; done += LOCAL_CHANGES_MAX) {
		struct local_changes some = {.change = changes + done, .count = count - done};

		if (some.count > LOCAL_CHANGES_MAX)
			some.count = LOCAL_CHANGES_MAX;
		code = call_thread(fast, take_local_pairs, &some, err);
	}
	return code;
}

void fast_port_renew(struct fast *fast, uint32_t slot, int ifindex, uint32_t mtu_bytes)
{
	struct port *port = &fast->ports[slot];

	port->new_ifindex = ifindex;
	port->new_mtu_bytes = mtu_bytes;
	port->renew = true;
}

const struct fast_gauges *fast_gauges(const struct fast *fast)
{
	return &fast->gauges;
}

uint64_t fast_rate_bps(const struct fast *fast, uint32_t index)
{
	return index < fast->classes_count
		       ? atomic_load_explicit(&fast->rates_bps[index], memory_order_relaxed)
		       : 0;
}
