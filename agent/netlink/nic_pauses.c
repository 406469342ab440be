// SPDX-License-Identifier: BSD-2-Clause
// Pauses as a NIC counts them, by ethtool's statistics.
#include "netlink/nic_pauses.h"

#include <linux/ethtool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netlink/ethtool.h"

/* As sscanf reads them: the priority, and %n for the end. */
static const struct {
	const char *name;
	bool sent;
} names[] = {
	{"rx_prio%1u_pause%n", false}, /* mlx5 */
	{"tx_prio%1u_pause%n", true},
	{"rx_pause_prio_%1u%n", false}, /* mlx4, mlxsw */
	{"tx_pause_prio_%1u%n", true},
	{"rx_pb_%1u_pxoff%n", false}, /* ixgbe */
	{"tx_pb_%1u_pxoff%n", true},
	{"port.rx_priority_%1u_xoff%n", false}, /* i40e, and newer */
	{"port.tx_priority_%1u_xoff%n", true},
	{"port.rx_priority_%1u_xoff_rx%n", false},
	{"port.tx_priority_%1u_xoff_tx%n", true},
	{"rx_priority_%1u_xoff.nic%n", false}, /* ice */
	{"tx_priority_%1u_xoff.nic%n", true},
	{"rx_pfc_ena_frames_pri%1u%n", false}, /* bnxt */
	{"tx_pfc_ena_frames_pri%1u%n", true},
};

uint64_t *nic_pauses_place(struct nic_pauses *pauses, const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		unsigned int priority;
		int end = 0;

		if (sscanf(name, names[i].name, &priority, &end) != 1 || !end || name[end] ||
			priority >= NIC_PRIORITIES)
			continue;
		return names[i].sent ? &pauses->sent[priority] : &pauses->received[priority];
	}
	return NULL;
}

void nic_pauses_read(const char *port, struct nic_pauses *pauses)
{
	char(*list)[ETH_GSTRING_LEN];
	uint64_t *values;
	uint32_t count;

	memset(pauses, 0, sizeof(*pauses));
	if (ethtool_statistics(port, &list, &values, &count))
		return;
	for (uint32_t i = 0; i < count; i++) {
		char name[ETH_GSTRING_LEN + 1] = "";
		uint64_t *place;

		memcpy(name, list[i], ETH_GSTRING_LEN);
		place = nic_pauses_place(pauses, name);
		if (!place)
			continue;
		*place = values[i];
		pauses->known = true;
	}
	free(list);
	free(values);
}
