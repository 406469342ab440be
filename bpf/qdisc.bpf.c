// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A qdisc is destroyed, anywhere on this machine: if it is one of ours, stop believing its address.
#include "kernel.bpf.h"
#include "maps.bpf.h"

#include <bpf/bpf_tracing.h>

SEC("tp_btf/qdisc_destroy")
int BPF_PROG(quench_qdisc_destroy, struct Qdisc *qdisc)
{
	__u64 ptr = (__u64)qdisc;
	__u32 *index = bpf_map_lookup_elem(&qdisc_by_ptr, &ptr);
	struct qdisc_ref *ref;

	if (!index)
		return 0;
	ref = bpf_map_lookup_elem(&qdisc_refs, index);
	if (ref && ref->ptr == ptr)
		ref->ptr = 0;
	bpf_map_delete_elem(&qdisc_by_ptr, &ptr);
	return 0;
}
