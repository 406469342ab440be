/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that the policy names by a pattern, a driver or a MAC address. Pure. */
#ifndef QUENCH_POLICY_PORTS_H
#define QUENCH_POLICY_PORTS_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/policy.h"
#include "qerr.h"

/* An interface of the machine. */
struct policy_device {
	char name[IFNAMSIZ];
	char driver[POLICY_NAME_MAX];
	uint8_t mac[6];
	bool lowest; /* frames wait on it: no bridge, bond, VLAN or loopback; what patterns stand
			for */
};

/* Does the port go by a pattern, a driver or an address? Then policy_find_ports has work to do. */
bool policy_port_is_open(const struct policy_port *port);

/*
 * Put the devices' names in the place of patterns: a port with a pattern becomes as many as it
 * stands for, in the devices' order; a device belongs to the port that names it in full, else to
 * the first whose pattern, driver and address fit. Negative errno and *err, with *policy spoilt,
 * when nothing fits, a device named in full has another driver or address, or there are too many.
 */
int policy_find_ports(
	struct policy *policy, const struct policy_device *devices, size_t n, struct qerr *err);

#endif
