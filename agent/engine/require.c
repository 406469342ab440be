// SPDX-License-Identifier: BSD-2-Clause
// What the machine must offer before anything is touched.
#include "engine/require.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const struct {
	int number;
	const char *name;
	const char *why;
} capabilities[] = {
	{CAP_NET_ADMIN, "CAP_NET_ADMIN", "to attach programs and to set up queues"},
	{CAP_NET_RAW, "CAP_NET_RAW", "to make a queue run"},
	{CAP_BPF, "CAP_BPF", "to load programs"},
	{CAP_PERFMON, "CAP_PERFMON", "to read queue depths in the kernel"},
};

/* The process's effective capabilities, one bit each; 0 when they cannot be told. */
static uint64_t effective_capabilities(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned long long bits = 0;
	char line[256];

	if (!status)
		return 0;
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "CapEff: %llx", &bits) == 1)
			break;
	fclose(status);
	return bits;
}

static int require_capabilities(struct qerr *err)
{
	uint64_t have = effective_capabilities();

	for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++)
		if (!(have >> capabilities[i].number & 1))
			return qerr_set(err, -EPERM, "%s is missing (%s); run as root or grant it",
				capabilities[i].name, capabilities[i].why);
	return 0;
}

static int require_kernel(struct qerr *err)
{
	struct utsname name;
	int major = 0, minor = 0;

	uname(&name);
	sscanf(name.release, "%d.%d", &major, &minor);
	if (major * 1000 + minor < 6001)
		return qerr_set(
			err, -ENOSYS, "kernel %s is too old: 6.1 or later is needed", name.release);
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		return qerr_set(err, -ENOSYS,
			"the kernel has no BTF at /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)");
	return 0;
}

static int require_no_lockdown(struct qerr *err)
{
	FILE *lockdown = fopen("/sys/kernel/security/lockdown", "re");
	char line[256] = "";

	if (!lockdown)
		return 0;
	if (!fgets(line, sizeof(line), lockdown))
		line[0] = '\0';
	fclose(lockdown);
	if (strstr(line, "[confidentiality]"))
		return qerr_set(err, -EPERM,
			"the kernel is locked down for confidentiality: queue depths cannot be "
			"read");
	return 0;
}

int require_machine(struct qerr *err)
{
	int code = require_capabilities(err);

	if (!code)
		code = require_kernel(err);
	if (!code)
		code = require_no_lockdown(err);
	return code;
}
