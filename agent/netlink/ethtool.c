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

enum { FEATURES_MAX = 256, BLOCK_BITS = 32, BLOCKS_MAX = FEATURES_MAX / BLOCK_BITS };

/* The requests, each with room for its answer. */
struct string_count {
	struct ethtool_sset_info head;
	uint32_t count;
};

struct names {
	struct ethtool_gstrings head;
	char name[FEATURES_MAX][ETH_GSTRING_LEN];
};

struct features {
	struct ethtool_gfeatures head;
	struct ethtool_get_features_block block[BLOCKS_MAX];
};

static int ask(int fd, const char *port, void *request)
{
	struct ifreq ifr = {.ifr_data = request};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", port);
	return ioctl(fd, SIOCETHTOOL, &ifr) ? -errno : 0;
}

static int count_features(int fd, const char *port, uint32_t *count)
{
	struct string_count request = {
		.head = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_FEATURES}};
	int code = ask(fd, port, &request);

	*count = request.count;
	if (!code && (!request.head.sset_mask || request.count > FEATURES_MAX))
		return -EOPNOTSUPP;
	return code;
}

/* Where the feature stands among the kernel's. */
static int find_feature(int fd, const char *port, const char *feature, uint32_t *index)
{
	struct names *names = calloc(1, sizeof(*names));
	uint32_t count;
	int code = names ? count_features(fd, port, &count) : -ENOMEM;

	if (!code) {
		names->head = (struct ethtool_gstrings){
			.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_FEATURES, .len = count};
		code = ask(fd, port, names);
	}
	for (*index = 0; !code && *index < count; ++*index)
		if (!strncmp(names->name[*index], feature, ETH_GSTRING_LEN))
			break;
	if (!code && *index == count)
		code = -ENOENT;
	free(names);
	return code;
}

static int read_feature(int fd, const char *port, uint32_t index, bool *on)
{
	struct features features = {.head = {.cmd = ETHTOOL_GFEATURES, .size = BLOCKS_MAX}};
	int code = ask(fd, port, &features);

	*on = features.block[index / BLOCK_BITS].active >> index % BLOCK_BITS & 1;
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

uint64_t ethtool_speed_bps(const char *port)
{
	struct ethtool_cmd request = {.cmd = ETHTOOL_GSET};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t mbit = 0;

	if (fd < 0)
		return 0;
	if (!ask(fd, port, &request))
		mbit = ethtool_cmd_speed(&request);
	close(fd);
	return mbit == (uint32_t)SPEED_UNKNOWN ? 0 : mbit * 1000000ull;
}
