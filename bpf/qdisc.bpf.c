// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A qdisc is destroyed, anywhere on this machine: if it is one of ours, stop believing its address
// and let the agent have a look.
#include "kernel.bpf.h"
#include "maps.bpf.h"

#include <bpf/bpf_tracing.h>

/* The agent's network namespace, as its inode number: ifindex means nothing without it. */
extern const volatile __u32 our_netns;

static inline __attribute__((always_inline)) void forget(struct Qdisc *qdisc)
{
	__u64 ptr = (__u64)qdisc;
	__u32 *index = bpf_map_lookup_elem(&qdisc_by_ptr, &ptr);
	struct qdisc_ref *ref;

	if (!index)
		return;
	ref = bpf_map_lookup_elem(&qdisc_refs, index);
	if (ref && ref->ptr == ptr)
		ref->ptr = 0;
	bpf_map_delete_elem(&qdisc_by_ptr, &ptr);
}

/* The port of ours that it was part of the tree of, if any. */
static inline __attribute__((always_inline)) struct port_conf *port_of(struct Qdisc *qdisc)
{
	struct net_device *dev;

	if (qdisc->handle < TREE_HANDLE(TREE_ROOT) || qdisc->handle >= TREE_HANDLE(TREE_END))
		return NULL;
	dev = BPF_CORE_READ(qdisc, dev_queue, dev);
	if (BPF_CORE_READ(dev, nd_net.net, ns.inum) != our_netns)
		return NULL;
	return port_get(BPF_CORE_READ(dev, ifindex));
}

/* There may soon be another in its place. */
static inline __attribute__((always_inline)) void look_again(const struct port_conf *port)
{
	struct port_state *state = state_get(port->slot);

	if (state)
		state->generation = 0;
}

/* Tell the agent, once until it has looked: a whole tree dies qdisc by qdisc. */
static inline __attribute__((always_inline)) void report_gone(void)
{
	__u32 zero = 0;
	struct agent_counters *shared = bpf_map_lookup_elem(&agent_counters, &zero);
	struct event *e;

	if (!shared || __sync_val_compare_and_swap(&shared->qdisc_gone, 0, 1))
		return;
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e)
		return; /* the flag stays up, and the agent looks at it now and then */
	__builtin_memset(e, 0, sizeof(*e));
	e->type = EVENT_QDISC_GONE;
	bpf_ringbuf_submit(e, 0);
}

SEC("tp_btf/qdisc_destroy")
int BPF_PROG(quench_qdisc_destroy, struct Qdisc *qdisc)
{
	struct port_conf *port;

	forget(qdisc);
	port = port_of(qdisc);
	if (!port)
		return 0;
	look_again(port);
	if (qdisc->handle == TREE_HANDLE(TREE_ROOT))
		port->flags &= ~PORT_ARMED; /* with it went the sink that stops a stray clone */
	report_gone();
	return 0;
}
