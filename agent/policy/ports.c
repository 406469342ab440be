// SPDX-License-Identifier: BSD-2-Clause
// Ports that the policy names by a pattern, a driver or a MAC address.
#include "policy/ports.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t any_mac[6];

static bool is_pattern(const struct policy_port *port)
{
	return strpbrk(port->name, "*?[");
}

static bool has_mac(const struct policy_port *port)
{
	return memcmp(port->mac, any_mac, sizeof(any_mac)) != 0;
}

bool policy_port_is_open(const struct policy_port *port)
{
	return is_pattern(port) || *port->driver || has_mac(port);
}

/* Driver and address, where the policy has them. */
static bool fits(const struct policy_port *port, const struct policy_device *device)
{
	return (!*port->driver || !strcmp(port->driver, device->driver)) &&
	       (!has_mac(port) || !memcmp(port->mac, device->mac, sizeof(device->mac)));
}

static bool is_named(const struct policy_port *ports, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(ports[i].name, name))
			return true;
	return false;
}

/* The port's device, if it is there, must be the one that is meant. */
static int check_named(const struct policy_port *port, const struct policy_device *devices,
	size_t n, struct qerr *err)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(port->name, devices[i].name) && !fits(port, &devices[i]))
			return qerr_set(err, -ENODEV,
				"port %s: the interface of that name has another driver (%s) or "
				"another MAC address than the policy says",
				port->name, *devices[i].driver ? devices[i].driver : "none");
	return 0;
}

struct finding {
	const struct policy *policy; /* as it was read */
	struct policy_port ports[POLICY_PORTS_MAX];
	size_t count;
};

static int add_port(
	struct finding *f, const struct policy_port *port, const char *name, struct qerr *err)
{
	struct policy_port *to = &f->ports[f->count];

	if (f->count == POLICY_PORTS_MAX)
		return qerr_set(err, -E2BIG, "ports: %s and the others stand for more than %d",
			port->name, POLICY_PORTS_MAX);
	*to = *port;
	memcpy(to->name, name, sizeof(to->name));
	f->count++;
	return 0;
}

static int add_matches(struct finding *f, const struct policy_port *port,
	const struct policy_device *devices, size_t n, struct qerr *err)
{
	size_t before = f->count;
	int code = 0;

	for (size_t i = 0; i < n && !code; i++)
		if (devices[i].lowest && !fnmatch(port->name, devices[i].name, 0) &&
			fits(port, &devices[i]) &&
			!is_named(f->policy->ports, f->policy->ports_count, devices[i].name) &&
			!is_named(f->ports, f->count, devices[i].name))
			code = add_port(f, port, devices[i].name, err);
	if (!code && f->count == before)
		code = qerr_set(err, -ENODEV, "port %s: no interface is meant by that%s%s",
			port->name, *port->driver ? ", with the driver " : "", port->driver);
	return code;
}

static int find_all(
	struct finding *f, const struct policy_device *devices, size_t n, struct qerr *err)
{
	int code = 0;

	for (size_t i = 0; i < f->policy->ports_count && !code; i++) {
		const struct policy_port *port = &f->policy->ports[i];

		if (is_pattern(port)) {
			code = add_matches(f, port, devices, n, err);
			continue;
		}
		code = check_named(port, devices, n, err);
		if (!code)
			code = add_port(f, port, port->name, err);
	}
	return code;
}

int policy_find_ports(
	struct policy *policy, const struct policy_device *devices, size_t n, struct qerr *err)
{
	struct finding *f = calloc(1, sizeof(*f));
	int code;

	if (!f)
		return qerr_set(err, -ENOMEM, "out of memory");
	f->policy = policy;
	code = find_all(f, devices, n, err);
	memcpy(policy->ports, f->ports, sizeof(f->ports));
	policy->ports_count = f->count;
	free(f);
	return code;
}
