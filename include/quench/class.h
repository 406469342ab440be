/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The class that policy puts a frame in: one answer for the programs and for `quench analyze`. */
#ifndef QUENCH_CLASS_H
#define QUENCH_CLASS_H

#include "quench/abi.h"

/*
 * The class that policy puts the frame in, or CLASS_NONE: that of its DSCP or of its PCP, as the
 * port trusts them. Of two that it trusts, the first that the frame has decides.
 */
WIRE_INLINE __u8 frame_class(
	const struct conf *conf, const struct port_conf *port, const struct wire_frame *f)
{
	bool has_dscp = f->l3 == L3_IPV4 || f->l3 == L3_IPV6, has_pcp = f->pcp < 8;

	if (has_pcp && port->flags & PORT_TRUST_PCP && (port->flags & PORT_PCP_FIRST || !has_dscp))
		return conf->pcp_class[f->pcp & 7];
	if (has_dscp && port->flags & PORT_TRUST_DSCP)
		return conf->dscp_class[(f->tos >> 2) & 63];
	if (has_pcp && port->flags & PORT_TRUST_PCP)
		return conf->pcp_class[f->pcp & 7];
	return CLASS_NONE;
}

/* Has the frame a DSCP and a PCP that mean different classes? One that means none says nothing. */
WIRE_INLINE bool frame_disagrees(const struct conf *conf, const struct wire_frame *f)
{
	__u8 by_dscp = conf->dscp_class[(f->tos >> 2) & 63], by_pcp = conf->pcp_class[f->pcp & 7];

	return f->pcp < 8 && (f->l3 == L3_IPV4 || f->l3 == L3_IPV6) && by_dscp != CLASS_NONE &&
	       by_pcp != CLASS_NONE && by_dscp != by_pcp;
}

#endif
