// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// For tests: what tc_classid an skb program leaves behind, which BPF_PROG_RUN does not tell. Run
// twice on one skb (repeat 2): the first run is the program itself, the second one looks.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} program SEC(".maps");

enum { LOOK = 1 };

SEC("tc")
int quench_classid(struct __sk_buff *skb)
{
	if (skb->cb[0] != LOOK) {
		skb->cb[0] = LOOK;
		bpf_tail_call(skb, &program, 0);
		return -2; /* there was none */
	}
	return skb->tc_classid;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
