// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The maps themselves, and the licence of all programs.
#define MAPS_DEFINE
#include "maps.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool depth_rdonly_cast = false;
const volatile __u32 our_netns = 0;
volatile __u32 iwarp_known = 0;
