/* SPDX-License-Identifier: BSD-2-Clause */
/* What a NIC does to frames by itself. */
#ifndef QUENCH_ETHTOOL_H
#define QUENCH_ETHTOOL_H

#include <linux/ethtool.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Is the interface's feature on? It goes by the kernel's name for it ("rx-vlan-hw-parse"), which
 * `ethtool -k` shows under names of its own. 0 with *on, or -errno: -ENOENT where the kernel has no
 * such feature.
 */
int ethtool_feature(const char *port, const char *feature, bool *on);

/* What the driver says of the link's speed, in bit/s; 0: nothing. */
uint64_t ethtool_speed_bps(const char *port);

/* The driver's name, "mlx5_core". 0 or -errno. */
int ethtool_driver(const char *port, char *name, size_t size);

/* Does the port obey (rx) or send (tx) pauses of the whole link, IEEE 802.3x? 0 or -errno. */
int ethtool_pause(const char *port, bool *rx, bool *tx);

/* How many channels with a receive queue there are, and could be. 0 or -errno. */
int ethtool_channels(const char *port, uint32_t *count, uint32_t *most);

/*
 * All of the driver's statistics: *count names, of ETH_GSTRING_LEN bytes and not always with an
 * end, and their values, both for free(). -errno and neither where it has none.
 */
int ethtool_statistics(
	const char *port, char (**names)[ETH_GSTRING_LEN], uint64_t **values, uint32_t *count);

#endif
