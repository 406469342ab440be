// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A frame arrives: say what it is, keep its flow's record, tell the agent what it must know.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "event.bpf.h"
#include "far.bpf.h"
#include "flow.bpf.h"
#include "frame.bpf.h"
#include "iwarp.bpf.h"
#include "pairing.bpf.h"
#include "pause.bpf.h"

static inline __attribute__((always_inline)) struct flow *flow_get(const struct flow_key *key)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, key);
	struct flow fresh = {};

	if (flow)
		return flow;
	fresh.cpu = bpf_get_smp_processor_id();
	bpf_map_update_elem(&flows, key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&flows, key);
}

static inline __attribute__((always_inline)) void count_tunnel(
	const struct wire_frame *f, struct port_stats *stats)
{
	__u32 i = f->tunnel;

	asm volatile(""
		     : "+r"(i)); /* one register for the check and the access: the verifier looks */
	i -= 1;
	if (i < TUNNEL_COUNT)
		stats->tunnels[i]++;
	if (wire_is_ce(f->inner_tos))
		stats->ce_inside++;
}

static inline __attribute__((always_inline)) void count_class(const struct wire_frame *f,
	const struct conf *conf, const struct port_conf *port, struct port_stats *stats)
{
	__u32 cls = frame_class(conf, port, f);

	if (cls > CLASSES_MAX) /* of none */
		cls = CLASSES_MAX;
	stats->roce_class[cls]++;
}

static inline __attribute__((always_inline)) void on_roce(const struct wire_frame *f,
	const struct conf *conf, const struct port_conf *port, struct port_stats *stats)
{
	struct flow *flow = flow_get(&f->key);

	if (wire_is_ce(f->tos))
		stats->ce_received++;
	if (f->pcp != WIRE_PCP_NONE && frame_disagrees(conf, f))
		stats->trust_disagrees++;
	if (f->tunnel)
		count_tunnel(f, stats);
	count_class(f, conf, port, stats);
	if (!flow) {
		stats->flows_full++;
		return;
	}
	flow_note(flow, f, port->slot, conf->now_ns);
	pairing_note(f, flow, port, stats);
}

/* Has a CNP of ours about the flow gone out so lately that its receiver's is about the same marks?
 */
static inline __attribute__((always_inline)) bool cnp_is_echo(
	const struct conf *conf, const struct flow_key *data)
{
	struct pair *pair = bpf_map_lookup_elem(&pairs, data);
	__u64 last = pair ? *(volatile __u64 *)&pair->last_cnp_ns : 0;

	return last && bpf_ktime_get_ns() - last < conf->cnp_echo_ns;
}

/* A CNP goes from the data's receiver to its sender: the flow that it is about runs the other way.
 */
static inline __attribute__((always_inline)) int on_cnp(const struct wire_frame *f,
	const struct conf *conf, const struct port_conf *port, struct port_stats *stats)
{
	struct pair *pair = bpf_map_lookup_elem(&pairs, &f->key);
	struct flow_key data = {};

	stats->cnp_received++;
	if (!pair) {
		stats->cnp_unknown_pair++;
		return XDP_PASS;
	}
	__builtin_memcpy(data.src, f->key.dst, sizeof(data.src));
	__builtin_memcpy(data.dst, f->key.src, sizeof(data.dst));
	data.dst_qpn = pair->peer_qpn;
	if (conf->cnp_echo_ns && cnp_is_echo(conf, &data)) {
		stats->drops[PORT_DROP_CNP]++;
		return XDP_DROP;
	}
	flow_note_cnp(&data);
	if (port->flags & PORT_REACTION)
		event_send_cnp(&data, port, stats);
	return XDP_PASS;
}

static inline __attribute__((always_inline)) void on_cm(struct xdp_md *ctx,
	const struct wire_frame *f, const struct port_conf *port, struct port_stats *stats)
{
	__u32 at = cm_offset(f);
	struct cm_bytes bytes;

	if (at && !bpf_xdp_load_bytes(ctx, at, &bytes, sizeof(bytes)))
		event_send_cm(&bytes, f, port, stats);
}

static inline __attribute__((always_inline)) void on_pfc(struct xdp_md *ctx,
	const struct wire_frame *f, const struct conf *conf, const struct port_conf *port,
	struct port_stats *stats)
{
	struct wire_mac_control m;

	if (!bpf_xdp_load_bytes(ctx, f->mac_control_off, &m, sizeof(m)))
		pause_hear(&m, conf, port, stats);
}

/* What there is to do about a frame that is no RoCE data; the verdict. */
static inline __attribute__((always_inline)) int on_other(struct xdp_md *ctx, struct wire_frame *f,
	const struct conf *conf, const struct port_conf *port, struct port_stats *stats)
{
	switch (f->kind) {
	case WIRE_OTHER:
		if (!f->tcp_payload_off || !iwarp_is(conf, f))
			break;
		f->kind = WIRE_IWARP;
		iwarp_count(ctx, f, conf->now_ns);
		break;
	case WIRE_IWARP:
		iwarp_learn(ctx, f);
		iwarp_count(ctx, f, conf->now_ns);
		break;
	case WIRE_CNP:
		if (!f->tunnel)
			return on_cnp(f, conf, port, stats);
		break;
	case WIRE_CM:
		if (!f->tunnel)
			on_cm(ctx, f, port, stats);
		break;
	case WIRE_PFC:
		on_pfc(ctx, f, conf, port, stats);
		/* fall through */
	case WIRE_PAUSE:
	case WIRE_MAC_CONTROL:
		if (!(port->flags & PORT_ENDS_PAUSE))
			break;
		stats->drops[PORT_DROP_PAUSE]++;
		return XDP_DROP;
	}
	return XDP_PASS;
}

SEC("xdp.frags")
int quench_xdp(struct xdp_md *ctx)
{
	struct port_conf *port = port_get(ctx->ingress_ifindex);
	struct conf *conf = conf_get();
	struct port_stats *stats;
	struct wire_frame f = {};
	int verdict = XDP_PASS;

	if (!port || !conf)
		return XDP_PASS;
	stats = stats_get(port->slot);
	if (!stats)
		return XDP_PASS;
	frame_parse_xdp(ctx, conf, &f);
	if (f.kind == WIRE_TRUNCATED && far_read(ctx, conf, &f))
		stats->headers_far++;
	if (wire_is_roce(f.kind))
		on_roce(&f, conf, port, stats);
	else
		verdict = on_other(ctx, &f, conf, port, stats);
	if (f.kind < WIRE_KIND_COUNT)
		stats->frames[f.kind]++;
	return verdict;
}
