// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When a paused peer may go on: a timer that looks at the queues its frames wait in, alive only
// while something is paused, asleep for as long as they need to drain.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "pause.bpf.h"

enum {
	WATCH_LEAST_NS = 30000,
	WATCH_MOST_NS = 10000000,
	WATCH_CLOCK = 1, /* CLOCK_MONOTONIC */
};

struct pause_walk {
	const struct conf *conf;
	__u32 slot;		    /* whose frames */
	__u32 classes;		    /* that are XOFFed */
	__u32 full;		    /* of them, those that a queue holds more of than XON allows */
	__u64 wait_ns[CLASSES_MAX]; /* until all of those can be down to that; 0: none moves */
};

/* One class at one egress port. */
static inline __attribute__((always_inline)) void pause_look(
	struct pause_walk *walk, const struct port_conf *out, __u32 cls)
{
	const struct class_conf *c = &walk->conf->classes[cls];
	struct port_pauses *p = pauses_get(out->slot);
	struct qdisc_seen leaf = {};
	__u64 wait;

	if (!depth_read(out->refs_base + ref_slot_leaf(cls, walk->conf->slots, walk->slot), &leaf))
		return;
	if (leaf.backlog_bytes <= c->xon_bytes)
		return;
	walk->full |= 1u << cls;
	if (p && p->closed >> cls & 1)
		return; /* the agent looks again when it opens the gate */
	wait = (__u64)(leaf.backlog_bytes - c->xon_bytes) * out->byte_ps / 1000 + 1;
	if (wait > walk->wait_ns[cls])
		walk->wait_ns[cls] = wait;
}

static long pause_walk_step(__u32 step, struct pause_walk *walk)
{
	__u32 cls = step % CLASSES_MAX, slot = step / CLASSES_MAX;
	struct port_conf *out;

	if (slot >= walk->conf->slots)
		return 1;
	out = bpf_map_lookup_elem(&ports, &slot);
	if (out && out->flags & PORT_PAUSES && walk->classes >> cls & 1)
		pause_look(walk, out, cls);
	return 0;
}

/* When the first class may be down to its XON mark; 0: none moves. */
static inline __attribute__((always_inline)) __u64 pause_soonest(const struct pause_walk *walk)
{
	__u64 soonest = 0;
	int i;

	for (i = 0; i < CLASSES_MAX; i++)
		if (walk->wait_ns[i] && (!soonest || walk->wait_ns[i] < soonest))
			soonest = walk->wait_ns[i];
	if (soonest && soonest < WATCH_LEAST_NS)
		return WATCH_LEAST_NS;
	return soonest < WATCH_MOST_NS ? soonest : WATCH_MOST_NS;
}

/* Look at the slot's queues; what has drained is told, and the timer set for what has not. */
static int pause_check(void *map, __u32 *key, struct pause_timer *timer)
{
	struct pause_walk walk = {.conf = conf_get(), .slot = *key};
	struct port_pauses *p = pauses_get(walk.slot);
	struct port_stats *stats = stats_get(walk.slot);
	struct port_conf *port = bpf_map_lookup_elem(&ports, &walk.slot);
	__u64 wait;

	if (!walk.conf || !p || !stats || !port)
		return 0;
	walk.classes = p->xoff;
	walk.full = depth_start;
	bpf_loop(SLOTS_MAX * CLASSES_MAX, pause_walk_step, &walk, 0);
	if (walk.classes & ~walk.full) {
		__sync_fetch_and_and(&p->xoff, walk.full | ~walk.classes);
		pause_tell(&p->changed, walk.conf, port, stats);
	}
	wait = pause_soonest(&walk);
	if (*(volatile __u32 *)&p->xoff & ~walk.classes)
		wait = WATCH_LEAST_NS; /* XOFFed meanwhile: not before the look that it asked for */
	if (wait)
		bpf_timer_start(&timer->timer, wait, 0);
	return 0;
}

int pause_watch(__u32 slot, __u64 delay_ns)
{
	struct pause_timer *timer = bpf_map_lookup_elem(&pause_timers, &slot);

	if (!timer)
		return 0;
	bpf_timer_init(&timer->timer, &pause_timers, WATCH_CLOCK); /* -EBUSY: it is */
	bpf_timer_set_callback(&timer->timer, pause_check);
	return bpf_timer_start(
		&timer->timer, delay_ns < WATCH_LEAST_NS ? WATCH_LEAST_NS : delay_ns, 0);
}

/* For the agent: a gate has been opened, so queues that stood still may drain now. */
SEC("syscall")
int quench_pause_look(struct pause_look_args *args)
{
	return pause_watch(args->slot, 0);
}
