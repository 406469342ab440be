/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which TCP connections are iWARP: those that began with MPA, and those on ports that policy names.
 */
#ifndef QUENCH_IWARP_BPF_H
#define QUENCH_IWARP_BPF_H

#include "maps.bpf.h"

/* Set by the first start frame, and by the agent when it takes over a table: most hosts have none.
 */
extern volatile __u32 iwarp_known;

static inline __attribute__((always_inline)) bool iwarp_has_port(
	const struct conf *conf, __u32 ports)
{
	__be16 src = WIRE_HTONS((__u16)(ports >> 16)), dst = WIRE_HTONS((__u16)ports);
	int i;

	for (i = 0; i < IWARP_PORTS_MAX && conf->iwarp_ports[i]; i++)
		if (conf->iwarp_ports[i] == src || conf->iwarp_ports[i] == dst)
			return true;
	return false;
}

/* The connection of this start frame is iWARP from now on, in both directions (iwarp.bpf.c). */
int iwarp_learn(struct xdp_md *ctx, const struct wire_frame *f);

/* A frame of such a connection (iwarp.bpf.c). */
int iwarp_count(struct xdp_md *ctx, const struct wire_frame *f, __u64 now_ns);

/* Is this TCP segment one of an iWARP connection? */
static inline __attribute__((always_inline)) bool iwarp_is(
	const struct conf *conf, const struct wire_frame *f)
{
	if (conf->iwarp_ports[0] && iwarp_has_port(conf, f->key.dst_qpn))
		return true;
	return iwarp_known && bpf_map_lookup_elem(&iwarp, &f->key);
}

#endif
