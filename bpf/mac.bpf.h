/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a frame starts for a tc hook behind generic XDP. */
#ifndef QUENCH_MAC_BPF_H
#define QUENCH_MAC_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "quench/wire.h"

static inline __attribute__((always_inline)) bool mac_is_same(const __u8 *a, const __u8 *b)
{
	int i;

	for (i = 0; i < ETH_HEADER_BYTES; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

/*
 * Generic XDP copies frames that have too little room in front, and the copy knows its MAC header
 * no longer (Linux 6.18, skb_pp_cow_data: mac_len is 0): tc is shown what lies behind it, and a
 * clone would leave without it. Make the frame start there again, for everybody who comes after.
 */
static inline __attribute__((always_inline)) void mac_restore(struct __sk_buff *skb)
{
	__u8 mac[ETH_HEADER_BYTES] = {}, first[ETH_HEADER_BYTES] = {};

	if (bpf_skb_load_bytes_relative(skb, 0, mac, sizeof(mac), BPF_HDR_START_MAC))
		return;
	bpf_skb_load_bytes(skb, 0, first, sizeof(first));
	if (mac_is_same(mac, first))
		return;
	if (!bpf_skb_change_head(skb, sizeof(mac), 0))
		bpf_skb_store_bytes(skb, 0, mac, sizeof(mac), 0);
}

#endif
