// SPDX-License-Identifier: BSD-2-Clause
// Which devices stand on others, and the walk down to those that do not.
#include "netlink/link_upper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOWERS_BYTES 160

/* The kinds as IFLA_INFO_KIND has them, and how they know what they stand on. */
static const struct upper {
	const char *kind;
	bool has_ports; /* devices that have it as their master; else the one of IFLA_LINK */
} uppers[] = {
	{"bond", true},
	{"bridge", true},
	{"team", true},
	{"vlan", false},
	{"macvlan", false},
	{"macvtap", false},
	{"ipvlan", false},
};

static const struct upper *upper_find(const struct link_info *link)
{
	for (size_t i = 0; i < sizeof(uppers) / sizeof(uppers[0]); i++)
		if (!strcmp(uppers[i].kind, link->kind))
			return &uppers[i];
	return NULL;
}

const char *link_upper_kind(const struct link_info *link)
{
	const struct upper *upper = upper_find(link);

	return upper ? upper->kind : NULL;
}

static bool stands_on(const struct link_info *link, const struct link_info *below)
{
	if (upper_find(link)->has_ports)
		return below->master_ifindex == link->ifindex;
	return !link->lower_elsewhere && below->ifindex == link->lower_ifindex;
}

struct walk {
	const struct link_info *list;
	size_t n;
	bool *seen; /* each of list: the walk has been there */
	char *buf;
	size_t size, used;
	size_t left_out;
};

static void add_name(struct walk *w, const char *name)
{
	enum { ROOM_FOR_MORE = sizeof(" and 4294967295 more") };

	if (w->used + strlen(", ") + strlen(name) + ROOM_FOR_MORE > w->size) {
		w->left_out++;
		return;
	}
	w->used += snprintf(w->buf + w->used, w->size - w->used, "%s%s", w->used ? ", " : "", name);
}

static void walk_down(struct walk *w, const struct link_info *upper)
{
	for (size_t i = 0; i < w->n; i++) {
		const struct link_info *below = &w->list[i];

		if (w->seen[i] || !stands_on(upper, below))
			continue;
		w->seen[i] = true;
		if (upper_find(below))
			walk_down(w, below);
		else
			add_name(w, below->name);
	}
}

int link_upper_bottoms(const struct link_info *list, size_t n, const struct link_info *upper,
	char *buf, size_t size)
{
	struct walk w = {
		.list = list,
		.n = n,
		.seen = calloc(n + 1, sizeof(*w.seen)),
		.buf = buf,
		.size = size,
	};

	*buf = '\0';
	if (!w.seen)
		return -ENOMEM;
	walk_down(&w, upper);
	if (w.left_out)
		snprintf(buf + w.used, size - w.used, " and %zu more", w.left_out);
	free(w.seen);
	return 0;
}

int link_upper_refuse(
	struct rtnl *nl, const struct link_info *link, const char *name, struct qerr *err)
{
	const char *kind = link_upper_kind(link);
	char lowers[LOWERS_BYTES];
	struct link_info *list;
	size_t n;
	int code;

	if (!kind)
		return 0;
	code = link_list(nl, &list, &n, err);
	if (code)
		return qerr_prefix(err, code, "port %s", name);
	code = link_upper_bottoms(list, n, link, lowers, sizeof(lowers));
	free(list);
	if (code)
		return qerr_set(err, code, "port %s: out of memory", name);
	if (!*lowers)
		return qerr_set(err, -EOPNOTSUPP,
			"port %s: no frames wait on an interface of kind %s, and this network "
			"namespace has none under it",
			name, kind);
	return qerr_set(err, -EOPNOTSUPP,
		"port %s: no frames wait on an interface of kind %s; name what is under it "
		"instead: %s",
		name, kind, lowers);
}
