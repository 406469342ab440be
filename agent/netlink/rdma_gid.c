// SPDX-License-Identifier: BSD-2-Clause
// The GIDs of an RDMA device, which netlink does not tell, from sysfs.
#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netlink/rdma.h"

/* A GID as an address; false for an empty place of the table. */
static bool read_gid(const char *path, __be32 addr[4])
{
	static const __be32 none[4];
	char text[INET6_ADDRSTRLEN];
	FILE *file = fopen(path, "re");
	bool read = file && fgets(text, sizeof(text), file);

	if (file)
		fclose(file);
	if (!read)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return inet_pton(AF_INET6, text, addr) == 1 && memcmp(addr, none, sizeof(none));
}

static int add_address(
	struct local_address **list, size_t *count, uint32_t device, const __be32 addr[4])
{
	struct local_address *more = realloc(*list, (*count + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	*list = more;
	more[*count].device = device;
	memcpy(more[*count].addr, addr, sizeof(more->addr));
	++*count;
	return 0;
}

int rdma_addresses(const char *class, const struct rdma_device *device, struct local_address **list,
	size_t *count)
{
	char pattern[512];
	glob_t paths;
	__be32 addr[4];
	int rc = 0;

	snprintf(pattern, sizeof(pattern), "%s/%s/ports/*/gids/*", class, device->name);
	if (glob(pattern, GLOB_NOSORT, NULL, &paths))
		return 0;
	for (size_t i = 0; !rc && i < paths.gl_pathc; i++)
		if (read_gid(paths.gl_pathv[i], addr))
			rc = add_address(list, count, device->index, addr);
	globfree(&paths);
	return rc;
}
