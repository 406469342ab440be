// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Finding, trusting and reading our own qdiscs: found by walking the device, believed only while
// they still look like themselves, forgotten when they are destroyed (qdisc.bpf.c).
#include "kernel.bpf.h"
#include "depth.bpf.h"

enum {
	WALK_STEPS_MAX = 8192,	  /* qdiscs and buckets of one device */
	WALK_RETRY_NS = 10000000, /* after a walk that did not help */
	QDISC_HASH_BUCKETS = 16,
};

/* Set by the agent: does this kernel have bpf_rdonly_cast (6.2+)? */
extern const volatile bool depth_rdonly_cast;

/* One look at the qdisc at ptr, by plain loads; a fault reads as zeros. */
static inline __attribute__((always_inline)) void qdisc_look_cast(
	__u64 ptr, struct qdisc_seen *seen)
{
	const struct Qdisc *q = bpf_rdonly_cast((void *)ptr, bpf_core_type_id_kernel(struct Qdisc));
	const __u64 *bstats = /* as its type: as plain memory is possible since 6.17 only */
		bpf_rdonly_cast((void *)(ptr + bpf_core_field_offset(struct Qdisc, bstats)),
			bpf_core_type_id_kernel(struct gnet_stats_basic_sync));

	seen->flags = q->flags;
	seen->handle = q->handle;
	seen->parent = q->parent;
	seen->dev_queue = (__u64)q->dev_queue;
	seen->refs = q->refcnt.refs.counter;
	seen->backlog_bytes = q->qstats.backlog;
	seen->sent_bytes = *bstats;
}

/* The same through the helper, for 6.1. */
static inline __attribute__((always_inline)) void qdisc_look_probe(
	__u64 ptr, struct qdisc_seen *seen)
{
	const struct Qdisc *q = (const struct Qdisc *)ptr;

	bpf_core_read(&seen->flags, sizeof(seen->flags), &q->flags);
	bpf_core_read(&seen->handle, sizeof(seen->handle), &q->handle);
	bpf_core_read(&seen->parent, sizeof(seen->parent), &q->parent);
	bpf_core_read(&seen->dev_queue, sizeof(seen->dev_queue), &q->dev_queue);
	bpf_core_read(&seen->refs, sizeof(seen->refs), &q->refcnt.refs.counter);
	bpf_core_read(&seen->backlog_bytes, sizeof(seen->backlog_bytes), &q->qstats.backlog);
	bpf_core_read(&seen->sent_bytes, sizeof(seen->sent_bytes), &q->bstats);
}

static inline __attribute__((always_inline)) void qdisc_look(__u64 ptr, struct qdisc_seen *seen)
{
	if (depth_rdonly_cast)
		qdisc_look_cast(ptr, seen);
	else
		qdisc_look_probe(ptr, seen);
}

int depth_read(__u32 ref_index, struct qdisc_seen *seen)
{
	struct qdisc_ref *ref = bpf_map_lookup_elem(&qdisc_refs, &ref_index);
	__u64 ptr;

	if (!ref || !seen)
		return 0;
	ptr = ref->ptr;
	if (!ptr)
		return 0;
	qdisc_look(ptr, seen);
	return seen->handle == ref->handle && seen->parent == ref->parent &&
	       seen->dev_queue == ref->dev_queue && seen->refs > 0;
}

/*
 * Where a qdisc of ours belongs among its port's refs, or -1. The parent must be the one that the
 * tree gives it: a foreign qdisc that borrowed a handle of ours is not taken for it.
 */
static inline __attribute__((always_inline)) int depth_place(
	const struct conf *conf, const struct port_conf *port, const struct qdisc_seen *seen)
{
	__u32 major = seen->handle >> 16, cls, slot;

	if (major >= TREE_GATE && major < TREE_GATE + CLASSES_MAX) {
		cls = major - TREE_GATE;
		if (seen->parent == TREE_CLASS(TREE_ROOT, MINOR_PRIORITY + cls))
			return ref_gate(cls);
	} else if (major >= TREE_SLOT_LEAF && major < TREE_SLOT_LEAF + CLASSES_MAX * SLOTS_MAX) {
		cls = (major - TREE_SLOT_LEAF) / SLOTS_MAX;
		slot = (major - TREE_SLOT_LEAF) % SLOTS_MAX;
		if (slot < conf->slots &&
			seen->parent == TREE_CLASS(TREE_INNER + cls, MINOR_SLOT + slot))
			return ref_slot_leaf(cls, conf->slots, slot);
	} else if (major >= TREE_QP_LEAF && major < TREE_QP_LEAF + QP_CLASSES_MAX) {
		slot = major - TREE_QP_LEAF;
		if (slot < port->qp_count &&
			seen->parent ==
				TREE_CLASS(TREE_INNER + port->reaction_class, MINOR_QP + slot))
			return ref_qp_leaf(conf->slots, slot);
	}
	return -1;
}

/*
 * Always 0, which no verifier knows. Those before Linux 6.7 look at a loop's function once, with
 * what the first step finds, and cut out what that does not reach.
 */
__u32 depth_start;

struct depth_walk {
	const struct conf *conf;
	const struct port_conf *port;
	__u64 dev;
	__u64 node; /* address of the next qdisc's hash node */
	__u32 bucket;
	__u32 found;
};

static inline __attribute__((always_inline)) void depth_note(struct depth_walk *walk, __u64 ptr)
{
	struct qdisc_seen seen = {};
	struct qdisc_ref ref = {};
	__u32 index;
	int place;

	qdisc_look(ptr, &seen);
	if (seen.flags & QDISC_REFUSED_FLAGS || seen.refs <= 0)
		return;
	place = depth_place(walk->conf, walk->port, &seen);
	if (place < 0)
		return;
	index = walk->port->refs_base + place;
	ref.ptr = ptr;
	ref.handle = seen.handle;
	ref.parent = seen.parent;
	ref.dev_queue = seen.dev_queue;
	bpf_map_update_elem(&qdisc_by_ptr, &ptr, &index, BPF_ANY);
	bpf_map_update_elem(&qdisc_refs, &index, &ref, BPF_ANY);
	walk->found++;
}

static long depth_walk_step(__u32 step, struct depth_walk *walk)
{
	const struct net_device *dev = (const struct net_device *)walk->dev;
	__u64 next = 0;

	if (!walk->node) {
		if (walk->bucket >= QDISC_HASH_BUCKETS)
			return 1;
		bpf_probe_read_kernel(&next, sizeof(next),
			(void *)(walk->dev + bpf_core_field_offset(dev->qdisc_hash) +
				 walk->bucket * sizeof(__u64)));
		walk->bucket++;
		walk->node = next;
		return 0;
	}
	depth_note(walk, walk->node - bpf_core_field_offset(struct Qdisc, hash));
	bpf_probe_read_kernel(&next, sizeof(next), (void *)walk->node);
	walk->node = next;
	return 0;
}

/* How many qdiscs that frames wait in the port's tree has when it is whole. */
static inline __attribute__((always_inline)) __u32 depth_wanted(
	const struct conf *conf, const struct port_conf *port)
{
	__u32 wanted = port->qp_count;
	int i;

	for (i = 0; i < CLASSES_MAX; i++)
		if (conf->classes[i].limit_bytes)
			wanted += 1 + conf->slots;
	return wanted;
}

int depth_resolve(struct __sk_buff *skb, struct conf *conf, struct port_conf *port)
{
	struct depth_walk walk = {.conf = conf,
		.port = port,
		.node = depth_start,
		.bucket = depth_start,
		.found = depth_start};
	struct port_state *state;
	__u64 now;

	if (!conf || !port)
		return 0;
	state = state_get(port->slot);
	if (!state)
		return 0;
	now = bpf_ktime_get_coarse_ns();
	if ((state->generation == port->generation || !state->generation) && now < state->retry_ns)
		return 0;
	state->generation = port->generation;
	state->retry_ns = now + WALK_RETRY_NS;
	bpf_core_read(&walk.dev, sizeof(walk.dev), &((struct sk_buff *)skb)->dev);
	bpf_loop(WALK_STEPS_MAX, depth_walk_step, &walk, 0);
	state->found = walk.found;
	if (walk.found < depth_wanted(conf, port))
		state->generation = 0; /* not whole: look again */
	return walk.found;
}
