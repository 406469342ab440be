// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// For tests: the marking curve drawn many times at given depths, and one frame marked at one depth.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "frame.bpf.h"
#include "mark.bpf.h"

enum { DEPTHS_MAX = 16, DRAWS_MAX = 1 << 22 };

struct conf conf = {.udp_ports = WIRE_PORTS_DEFAULT};
struct class_conf cls;
__u32 depths[DEPTHS_MAX];
__u32 depth_count;
__u32 draws;
__u32 marked[DEPTHS_MAX];
struct port_stats stats;

struct draw {
	__u32 depth_bytes, marked;
};

static long draw_step(__u32 i, struct draw *draw)
{
	draw->marked += mark_wanted(&cls, draw->depth_bytes);
	return i + 1 >= draws;
}

/* For each depth: how many of so many frames are to be marked. */
SEC("tc")
int quench_draw(struct __sk_buff *skb)
{
	for (__u32 i = 0; i < DEPTHS_MAX && i < depth_count; i++) {
		struct draw draw = {.depth_bytes = depths[i]};

		bpf_loop(DRAWS_MAX, draw_step, &draw, 0);
		marked[i] = draw.marked;
	}
	return 0;
}

/* Mark the frame, at the first depth; returns the TOS that the rest of the program would see. */
SEC("tc")
int quench_mark(struct __sk_buff *skb)
{
	struct wire_frame f;

	frame_read(skb, &conf, &f);
	mark_frame(skb, &cls, &f, depths[0], &stats);
	return f.tos;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
