// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A frame arrives: say what it is, keep its flow's record, tell the agent what it must know.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "event.bpf.h"
#include "flow.bpf.h"

static inline __attribute__((always_inline)) void on_roce(
	const struct wire_frame *f, const struct port_conf *port, struct port_stats *stats)
{
	struct conf *conf = conf_get();
	struct flow *flow;

	if (wire_is_ce(f->tos))
		stats->ce_received++;
	flow = bpf_map_lookup_elem(&flows, &f->key);
	if (!flow) {
		struct flow fresh = {.cpu = bpf_get_smp_processor_id()};

		bpf_map_update_elem(&flows, &f->key, &fresh, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&flows, &f->key);
	}
	if (flow && conf)
		flow_note(flow, f, port->slot, conf->now_ns);
	else
		stats->flows_full++;
}

/* A CNP goes from the data's receiver to its sender: the flow that it is about runs the other way.
 */
static inline __attribute__((always_inline)) void on_cnp(
	const struct wire_frame *f, const struct port_conf *port, struct port_stats *stats)
{
	struct pair *pair = bpf_map_lookup_elem(&pairs, &f->key);
	struct flow_key data = {};

	stats->cnp_received++;
	if (!pair) {
		stats->cnp_unknown_pair++;
		return;
	}
	__builtin_memcpy(data.src, f->key.dst, sizeof(data.src));
	__builtin_memcpy(data.dst, f->key.src, sizeof(data.dst));
	data.dst_qpn = pair->peer_qpn;
	flow_note_cnp(&data);
	if (port->flags & PORT_REACTION)
		event_send_cnp(&data, port, stats);
}

SEC("xdp.frags")
int quench_xdp(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct port_conf *port = port_get(ctx->ingress_ifindex);
	struct port_stats *stats;
	struct wire_frame f;

	if (!port)
		return XDP_PASS;
	stats = stats_get(port->slot);
	if (!stats)
		return XDP_PASS;
	wire_frame_init(&f);
	wire_parse(data, end, &f);
	if (f.kind < WIRE_KIND_COUNT)
		stats->frames[f.kind]++;
	switch (f.kind) {
	case WIRE_ROCEV2:
	case WIRE_ROCEV1:
		on_roce(&f, port, stats);
		return XDP_PASS;
	case WIRE_CNP:
		on_cnp(&f, port, stats);
		return XDP_PASS;
	case WIRE_CM:
		event_send_cm(data, end, &f, port, stats);
		return XDP_PASS;
	case WIRE_PFC:
	case WIRE_PAUSE:
	case WIRE_MAC_CONTROL:
		if (!(port->flags & PORT_ENDS_PAUSE))
			return XDP_PASS;
		stats->drops[PORT_DROP_PAUSE]++;
		return XDP_DROP;
	}
	return XDP_PASS;
}
