/* SPDX-License-Identifier: BSD-2-Clause */
/* The QPs of this machine, asked of the kernel's RDMA stack now and then. */
#ifndef QUENCH_LOCAL_QPS_H
#define QUENCH_LOCAL_QPS_H

#include <stdint.h>

struct engine;

/* How long the main thread may sleep, so that local_qps_turn comes in time; INT_MAX: as it likes.
 */
int local_qps_patience_ms(const struct engine *engine);

/*
 * Where a port is a host: look at the QPs when that is due, and hand pairs that came or went to the
 * fast thread. Due every LOCAL_QPS_EVERY_MS, and at most LOCAL_QPS_HASTE_MS after a frame found no
 * pair. Without RDMA on this machine there are none. From the main thread.
 */
enum { LOCAL_QPS_EVERY_MS = 10000, LOCAL_QPS_HASTE_MS = 1000 };
void local_qps_turn(struct engine *engine, uint64_t now_ns);

#endif
