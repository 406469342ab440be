/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every map, defined once (in maps.bpf.c, which sets MAPS_DEFINE) and declared everywhere else. */
#ifndef QUENCH_MAPS_BPF_H
#define QUENCH_MAPS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "quench/abi.h"

#ifdef MAPS_DEFINE
#define MAP
#else
#define MAP extern
#endif

enum { IWARP_MAX = 16384, ASKED_MAX = 16384, FAR_HEADERS_BYTES = 256 };

/* Sizes of 1 are placeholders: the agent sets them from the policy before loading. */

MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct conf);
} conf_map SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS_MAX);
	__type(key, __u32); /* slot */
	__type(value, struct port_conf);
} ports SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SLOTS_MAX);
	__type(key, __u32);   /* ifindex */
	__type(value, __u32); /* slot */
} port_slots SEC(".maps");

/* The same at a glance, for most ports: a hash lookup costs more than telling what a frame is. */
MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORT_PLACES);
	__type(key, __u32); /* port_place(ifindex) */
	__type(value, struct port_place);
} port_places SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SLOTS_MAX);
	__type(key, __u32); /* slot */
	__type(value, struct port_stats);
} port_stats SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS_MAX);
	__type(key, __u32); /* slot */
	__type(value, struct port_state);
} port_state SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow_key);
	__type(value, struct qp);
} qps SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow_key);
	__type(value, struct pair);
} pairs SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, ASKED_MAX);
	__type(key, struct flow_key); /* with the PSN in the place of the QPN */
	__type(value, struct asked);
} asked_map SEC(".maps");

/* A copy of the first bytes of a frame that is not linear, and room behind it (wire_take). */
struct far_headers {
	__u32 count;
	__u8 bytes[FAR_HEADERS_BYTES + 64];
};

MAP struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct far_headers);
} far_scratch SEC(".maps");

/* Connections that speak iWARP, each direction an entry; the key's QPN is the two ports. */
MAP struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, IWARP_MAX);
	__type(key, struct flow_key);
	__type(value, struct iwarp_way);
} iwarp SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32); /* port_conf.qp_base + QP class */
	__type(value, struct qp_class);
} qp_classes SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);   /* port_conf.qp_base + place in the ring */
	__type(value, __u64); /* QP class; 8 bytes, for an array's elements are that far apart */
} qp_free SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS_MAX);
	__type(key, __u32); /* slot */
	__type(value, struct qp_pool);
} qp_pools SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS_MAX);
	__type(key, __u32); /* slot */
	__type(value, struct port_pauses);
} pauses SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS_MAX * CLASSES_MAX);
	__type(key, __u32); /* gate_index() */
	__type(value, struct gate_counters);
} gates SEC(".maps");

/* A map with timers cannot be shared memory, so they have one of their own. */
struct pause_timer {
	struct bpf_timer timer;
};

MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS_MAX);
	__type(key, __u32); /* slot */
	__type(value, struct pause_timer);
} pause_timers SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32); /* port_conf.refs_base + ref_*() */
	__type(value, struct qdisc_ref);
} qdisc_refs SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);   /* address of a qdisc */
	__type(value, __u32); /* its entry of qdisc_refs */
} qdisc_by_ptr SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct agent_counters);
} agent_counters SEC(".maps");

MAP struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

static inline __attribute__((always_inline)) struct conf *conf_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&conf_map, &zero);
}

/* The port that is this interface, or NULL. */
static inline __attribute__((always_inline)) struct port_conf *port_get(__u32 ifindex)
{
	__u32 index = port_place(ifindex), *slot;
	struct port_place *place = bpf_map_lookup_elem(&port_places, &index);

	if (place && place->ifindex == ifindex)
		return bpf_map_lookup_elem(&ports, &place->slot);
	slot = bpf_map_lookup_elem(&port_slots, &ifindex);
	return slot ? bpf_map_lookup_elem(&ports, slot) : NULL;
}

static inline __attribute__((always_inline)) struct port_stats *stats_get(__u32 slot)
{
	return bpf_map_lookup_elem(&port_stats, &slot);
}

static inline __attribute__((always_inline)) struct port_state *state_get(__u32 slot)
{
	return bpf_map_lookup_elem(&port_state, &slot);
}

#endif
