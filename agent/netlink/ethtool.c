// SPDX-License-Identifier: BSD-2-Clause
// Features of an interface, by ethtool's ioctl.
#include "netlink/ethtool.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	STATISTICS_MAX = 65536,
	FEATURES_MAX = 256,
	BLOCK_BITS = 32,
	BLOCKS_MAX = FEATURES_MAX / BLOCK_BITS
};

/* The requests, each with room for its answer. */
union string_count {
	struct ethtool_sset_info head;
	char room[sizeof(struct ethtool_sset_info) + sizeof(uint32_t)];
};

union names {
	struct ethtool_gstrings head;
	char room[sizeof(struct ethtool_gstrings) + FEATURES_MAX * ETH_GSTRING_LEN];
};

union features {
	struct ethtool_gfeatures head;
	char room[sizeof(struct ethtool_gfeatures) +
		  BLOCKS_MAX * sizeof(struct ethtool_get_features_block)];
};

static int ask(int fd, const char *port, void *request)
{
	struct ifreq ifr = {.ifr_data = request};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", port);
	return ioctl(fd, SIOCETHTOOL, &ifr) ? -errno : 0;
}

static int count_features(int fd, const char *port, uint32_t *count)
{
	union string_count request = {
		.head = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_FEATURES}};
	int code = ask(fd, port, &request);

	if (code)
		return code;
	*count = request.head.data[0];
	return !request.head.sset_mask || *count > FEATURES_MAX ? -EOPNOTSUPP : 0;
}

/* Where the feature stands among the kernel's. */
static int find_feature(int fd, const char *port, const char *feature, uint32_t *index)
{
	union names *names = calloc(1, sizeof(*names));
	uint32_t count = 0;
	int code = names ? count_features(fd, port, &count) : -ENOMEM;

	if (!code) {
		names->head = (struct ethtool_gstrings){
			.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_FEATURES, .len = count};
		code = ask(fd, port, names);
	}
	for (*index = 0; !code && *index < count; ++*index)
		if (!strncmp((char *)&names->head.data[*index * ETH_GSTRING_LEN], feature,
			    ETH_GSTRING_LEN))
			break;
	if (!code && *index == count)
		code = -ENOENT;
	free(names);
	return code;
}

static int read_feature(int fd, const char *port, uint32_t index, bool *on)
{
	union features features = {.head = {.cmd = ETHTOOL_GFEATURES, .size = BLOCKS_MAX}};
	int code = ask(fd, port, &features);

	*on = features.head.features[index / BLOCK_BITS].active >> index % BLOCK_BITS & 1;
	return code;
}

int ethtool_feature(const char *port, const char *feature, bool *on)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), code;
	uint32_t index;

	if (fd < 0)
		return -errno;
	code = find_feature(fd, port, feature, &index);
	if (!code)
		code = read_feature(fd, port, index, on);
	close(fd);
	return code;
}

/* One request that needs nothing else. */
static int ask_once(const char *port, void *request)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), code;

	if (fd < 0)
		return -errno;
	code = ask(fd, port, request);
	close(fd);
	return code;
}

uint64_t ethtool_speed_bps(const char *port)
{
	struct ethtool_cmd request = {.cmd = ETHTOOL_GSET};
	uint32_t mbit;

	if (ask_once(port, &request))
		return 0;
	mbit = ethtool_cmd_speed(&request);
	return mbit == (uint32_t)SPEED_UNKNOWN ? 0 : mbit * 1000000ull;
}

int ethtool_driver(const char *port, char *name, size_t size)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	int code = ask_once(port, &info);

	snprintf(name, size, "%.*s", (int)sizeof(info.driver), code ? "" : info.driver);
	return code;
}

int ethtool_pause(const char *port, bool *rx, bool *tx)
{
	struct ethtool_pauseparam pause = {.cmd = ETHTOOL_GPAUSEPARAM};
	int code = ask_once(port, &pause);

	*rx = pause.rx_pause;
	*tx = pause.tx_pause;
	return code;
}

int ethtool_channels(const char *port, uint32_t *count, uint32_t *most)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	int code = ask_once(port, &channels);

	*count = channels.combined_count + channels.rx_count;
	*most = channels.max_combined + channels.max_rx;
	return code;
}

static int statistics_count(int fd, const char *port, uint32_t *count)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	int code = ask(fd, port, &info);

	*count = info.n_stats;
	if (!code && (!*count || *count > STATISTICS_MAX))
		return -EOPNOTSUPP;
	return code;
}

/* The names and the values come behind the requests' heads. */
static int read_statistics(int fd, const char *port, uint32_t count, struct ethtool_gstrings *names,
	struct ethtool_stats *values)
{
	int code;

	*names = (struct ethtool_gstrings){
		.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_STATS, .len = count};
	*values = (struct ethtool_stats){.cmd = ETHTOOL_GSTATS, .n_stats = count};
	code = ask(fd, port, names);
	if (!code)
		code = ask(fd, port, values);
	if (!code && (names->len != count || values->n_stats != count))
		code = -EAGAIN; /* a queue came or went */
	return code;
}

int ethtool_statistics(
	const char *port, char (**names)[ETH_GSTRING_LEN], uint64_t **values, uint32_t *count)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), code;
	struct ethtool_gstrings *strings = NULL;
	struct ethtool_stats *stats = NULL;

	if (fd < 0)
		return -errno;
	code = statistics_count(fd, port, count);
	if (!code) {
		/* the kernel writes as many as there are by then: room for more */
		strings = calloc(1, sizeof(*strings) + 2 * *count * (size_t)ETH_GSTRING_LEN);
		stats = calloc(1, sizeof(*stats) + 2 * *count * sizeof(uint64_t));
		code = strings && stats ? read_statistics(fd, port, *count, strings, stats)
					: -ENOMEM;
	}
	close(fd);
	if (!code) {
		memmove(strings, strings->data, *count * (size_t)ETH_GSTRING_LEN);
		memmove(stats, stats->data, *count * sizeof(uint64_t));
		*names = (void *)strings;
		*values = (void *)stats;
		return 0;
	}
	free(strings);
	free(stats);
	return code;
}
