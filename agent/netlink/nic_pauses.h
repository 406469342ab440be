/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pauses as a NIC counts them. Many end PFC frames in hardware, so that no program ever sees them:
 * that none was seen does not mean that none came.
 */
#ifndef QUENCH_NIC_PAUSES_H
#define QUENCH_NIC_PAUSES_H

#include <stdbool.h>
#include <stdint.h>

enum { NIC_PRIORITIES = 8 };

struct nic_pauses { /* PFC frames since the driver was loaded, by priority */
	bool known; /* the driver counts them */
	uint64_t received[NIC_PRIORITIES];
	uint64_t sent[NIC_PRIORITIES];
};

/*
 * Where in *pauses the driver's statistic of that name belongs; NULL for any other. Names are those
 * of mlx5, mlx4, ixgbe, i40e, ice and bnxt.
 */
uint64_t *nic_pauses_place(struct nic_pauses *pauses, const char *name);

/* Ask the driver of the port (`ethtool -S`). Nothing is known where it does not say. */
void nic_pauses_read(const char *port, struct nic_pauses *pauses);

#endif
