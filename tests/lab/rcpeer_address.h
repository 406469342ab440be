/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of the lab's peer: as text, as the kernel's sockaddr, as what an interface has. Here
 * they are 128 bits, IPv4 mapped, as in flow_key.
 */
#ifndef RCPEER_ADDRESS_H
#define RCPEER_ADDRESS_H

#include <err.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "rcpeer_frame.h"

enum { ADDRESSES_MAX = 16 };

struct address {
	__be32 word[4];
};

union address_socket {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Which addresses can talk to each other. */
enum address_scope { SCOPE_IPV4, SCOPE_LINK, SCOPE_GLOBAL };

static enum address_scope address_scope(const __be32 addr[4])
{
	if (address_is_ipv4(addr))
		return SCOPE_IPV4;
	return (WIRE_NTOHL(addr[0]) & 0xffc00000) == 0xfe800000 ? SCOPE_LINK : SCOPE_GLOBAL;
}

static bool address_equal(const __be32 a[4], const __be32 b[4])
{
	return !memcmp(a, b, sizeof(struct address));
}

/* False when text is neither an IPv4 nor an IPv6 address. */
static bool address_parse(const char *text, struct address *out)
{
	struct in_addr in;

	if (inet_pton(AF_INET, text, &in) == 1) {
		wire_map_ipv4(out->word, in.s_addr);
		return true;
	}
	return inet_pton(AF_INET6, text, out->word) == 1 && !address_is_ipv4(out->word);
}

/* Fill the form that the kernel takes and return its length. */
static socklen_t address_to_socket(const __be32 addr[4], __u16 port, union address_socket *out)
{
	memset(out, 0, sizeof(*out));
	if (address_is_ipv4(addr)) {
		out->in.sin_family = AF_INET;
		out->in.sin_port = WIRE_HTONS(port);
		out->in.sin_addr.s_addr = addr[3];
		return sizeof(out->in);
	}
	out->in6.sin6_family = AF_INET6;
	out->in6.sin6_port = WIRE_HTONS(port);
	memcpy(&out->in6.sin6_addr, addr, sizeof(out->in6.sin6_addr));
	return sizeof(out->in6);
}

/* False when it is of another family. */
static bool address_from_socket(const struct sockaddr *from, struct address *out)
{
	if (from->sa_family == AF_INET) {
		wire_map_ipv4(out->word, ((const struct sockaddr_in *)from)->sin_addr.s_addr);
		return true;
	}
	if (from->sa_family != AF_INET6)
		return false;
	memcpy(out, &((const struct sockaddr_in6 *)from)->sin6_addr, sizeof(*out));
	return true;
}

/* The addresses of an interface, at most ADDRESSES_MAX, IPv4 first as the kernel lists them. */
static unsigned int interface_addresses(const char *ifname, struct address out[ADDRESSES_MAX])
{
	struct ifaddrs *all, *i;
	unsigned int n = 0;

	if (getifaddrs(&all))
		err(1, "addresses of %s", ifname);
	for (i = all; i && n < ADDRESSES_MAX; i = i->ifa_next)
		if (i->ifa_addr && !strcmp(i->ifa_name, ifname))
			n += address_from_socket(i->ifa_addr, &out[n]);
	freeifaddrs(all);
	return n;
}

#endif
