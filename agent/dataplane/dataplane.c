// SPDX-License-Identifier: BSD-2-Clause
// The programs and maps in the kernel: loaded, attached, pinned, read and written.
#include "dataplane/dataplane.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "quench.skel.h"

/* Attach types of tcx (6.6+), which Debian 12's headers do not know. */
enum { TCX_INGRESS = 46, TCX_EGRESS = 47 };

enum { LINKS_MAX = SLOTS_MAX * 3 + 1, LINK_PATH_MAX = PATH_MAX + 64 };

struct dataplane {
	struct quench_bpf *skel;
	struct ring_buffer *ring;
	dataplane_event_fn event_fn;
	void *event_arg;
	char pin_dir[PATH_MAX];
	bool pinned; /* what is in pin_dir is ours to remove */
	struct bpf_link *destroy_link;
	struct {
		int fd;
		int ifindex; /* 0: of no interface */
		const char *what;
	} links[LINKS_MAX];
	size_t links_count;
	struct qp_class *qp_classes;
	uint64_t *qp_free;
	struct qp_pool *qp_pools;
	struct agent_counters *counters;
	struct port_pauses *pauses;
	struct gate_counters *gates;
	struct conf *conf;
};

/* libbpf speaks only when asked to; what it says last is kept for the error line. */
static char libbpf_words[QERR_TEXT_MAX];

static int libbpf_listen(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (level == LIBBPF_WARN)
		vsnprintf(libbpf_words, sizeof(libbpf_words), fmt, ap);
	return 0;
}

static size_t page_round(size_t bytes)
{
	size_t page = sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

static void *map_memory(struct bpf_map *map)
{
	size_t bytes = (size_t)((bpf_map__value_size(map) + 7) & ~7u) * bpf_map__max_entries(map);
	void *at = mmap(
		NULL, page_round(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	return at == MAP_FAILED ? NULL : at;
}

static void unmap_memory(void *at, struct bpf_map *map)
{
	if (at)
		munmap(at, page_round((size_t)((bpf_map__value_size(map) + 7) & ~7u) *
				      bpf_map__max_entries(map)));
}

bool dataplane_kernel_has_function(const char *name)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool has = btf && btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;

	btf__free(btf);
	return has;
}

/* mkdir -p; 0 or -errno, which is EEXIST when all of it was there. */
static int make_dirs(const char *path)
{
	char part[PATH_MAX];
	char *slash;

	snprintf(part, sizeof(part), "%s", path);
	for (slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0700) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(path, 0700) ? -errno : 0;
}

/* A directory for the pins, on a bpffs. Other instances remove empty parents as they go. */
static int make_pin_dir(const char *path, bool adopt, struct qerr *err)
{
	struct statfs fs;
	int code = -ENOENT;

	if (statfs("/sys/fs/bpf", &fs) || fs.f_type != BPF_FS_MAGIC)
		return qerr_set(err, -ENOENT,
			"no bpffs at /sys/fs/bpf; mount it: mount -t bpf bpf /sys/fs/bpf");
	for (int i = 0; code == -ENOENT && i < 10; i++)
		code = make_dirs(path);
	if (!code || (adopt && code == -EEXIST))
		return 0;
	return qerr_set(err, code, "cannot make %s: %s", path, strerror(-code));
}

void dataplane_link_path(
	const char *pin_dir, const char *what, int ifindex, char *path, size_t size)
{
	snprintf(path, size, "%s/link_%s_%d", pin_dir, what, ifindex);
}

static void link_path(const struct dataplane *dp, const char *what, int ifindex, char *path)
{
	dataplane_link_path(dp->pin_dir, what, ifindex, path, LINK_PATH_MAX);
}

static int keep_link(struct dataplane *dp, int fd, const char *what, int ifindex, struct qerr *err)
{
	if (dp->links_count >= LINKS_MAX) {
		close(fd);
		return qerr_set(err, -ENOSPC, "too many attachments");
	}
	dp->links[dp->links_count].fd = fd;
	dp->links[dp->links_count].what = what;
	dp->links[dp->links_count++].ifindex = ifindex;
	return 0;
}

/* Pin a new link, in the place of an old one that may still be pinned there. */
static int pin_link(struct dataplane *dp, int fd, const char *what, int ifindex, struct qerr *err)
{
	char path[LINK_PATH_MAX];

	link_path(dp, what, ifindex, path);
	unlink(path);
	if (bpf_obj_pin(fd, path)) {
		int code = -errno;

		close(fd);
		return qerr_set(err, code, "cannot pin %s: %s", path, strerror(-code));
	}
	return keep_link(dp, fd, what, ifindex, err);
}

/* Is the link's program still where it was attached? Every kind of ours says ifindex first. */
static bool link_is_alive(int fd, int ifindex)
{
	struct bpf_link_info info = {};
	__u32 len = sizeof(info);

	return !bpf_obj_get_info_by_fd(fd, &info, &len) && (int)info.xdp.ifindex == ifindex;
}

static int held_link(const struct dataplane *dp, const char *what, int ifindex)
{
	for (size_t i = 0; i < dp->links_count; i++)
		if (dp->links[i].ifindex == ifindex && !strcmp(dp->links[i].what, what))
			return dp->links[i].fd;
	return -1;
}

/* Put our program into the link that we hold, or that an earlier agent pinned, if it is alive. */
static bool adopt_link(
	struct dataplane *dp, const char *what, int ifindex, const struct bpf_program *program)
{
	char path[LINK_PATH_MAX];
	int fd = held_link(dp, what, ifindex);

	if (fd >= 0)
		return !bpf_link_update(fd, bpf_program__fd(program), NULL);
	link_path(dp, what, ifindex, path);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return false;
	if (bpf_link_update(fd, bpf_program__fd(program), NULL)) {
		close(fd);
		unlink(path);
		return false;
	}
	return !keep_link(dp, fd, what, ifindex, NULL);
}

/* Give each map its place in pin_dir: libbpf takes over what is pinned there, and pins the rest. */
static int place_maps(struct dataplane *dp, struct qerr *err)
{
	char path[LINK_PATH_MAX];
	struct bpf_map *map;

	bpf_object__for_each_map(map, dp->skel->obj)
	{
		if (bpf_map__is_internal(map))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dp->pin_dir, bpf_map__name(map));
		if (bpf_map__set_pin_path(map, path))
			return qerr_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int load(
	struct dataplane *dp, const struct dataplane_size *size, bool adopt, struct qerr *err)
{
	struct quench_bpf *skel = dp->skel;
	struct stat netns;
	int code;

	if (stat("/proc/self/ns/net", &netns))
		return qerr_set(
			err, -errno, "cannot tell the network namespace: %s", strerror(errno));
	skel->rodata->our_netns = netns.st_ino;
	skel->bss->iwarp_known = adopt; /* there may be connections in the table */
	skel->rodata->depth_rdonly_cast = dataplane_kernel_has_function("bpf_rdonly_cast");
	bpf_map__set_max_entries(skel->maps.flows, size->flows);
	bpf_map__set_max_entries(skel->maps.qps, size->flows);
	bpf_map__set_max_entries(skel->maps.pairs, size->pairs);
	bpf_map__set_max_entries(skel->maps.qp_classes, size->qp_classes);
	bpf_map__set_max_entries(skel->maps.qp_free, size->qp_classes);
	bpf_map__set_max_entries(skel->maps.qdisc_refs, size->refs);
	bpf_map__set_max_entries(skel->maps.qdisc_by_ptr, size->refs * 2);
	code = quench_bpf__load(skel);
	if (code)
		return qerr_set(err, code, "cannot load the BPF programs: %s: %s", strerror(-code),
			libbpf_words);
	return 0;
}

static int share_memory(struct dataplane *dp, struct qerr *err)
{
	dp->qp_classes = map_memory(dp->skel->maps.qp_classes);
	dp->qp_free = map_memory(dp->skel->maps.qp_free);
	dp->qp_pools = map_memory(dp->skel->maps.qp_pools);
	dp->counters = map_memory(dp->skel->maps.agent_counters);
	dp->pauses = map_memory(dp->skel->maps.pauses);
	dp->gates = map_memory(dp->skel->maps.gates);
	dp->conf = map_memory(dp->skel->maps.conf_map);
	if (!dp->qp_classes || !dp->qp_free || !dp->qp_pools || !dp->counters || !dp->pauses ||
		!dp->gates || !dp->conf)
		return qerr_set(err, -ENOMEM, "cannot map the memory shared with the programs");
	return 0;
}

static int watch_qdiscs(struct dataplane *dp, struct qerr *err)
{
	dp->destroy_link = bpf_program__attach(dp->skel->progs.quench_qdisc_destroy);
	if (!dp->destroy_link)
		return qerr_set(err, -errno, "cannot attach to the tracepoint qdisc_destroy: %s",
			strerror(errno));
	return pin_link(dp, dup(bpf_link__fd(dp->destroy_link)), "qdisc_destroy", 0, err);
}

static int open_and_load(
	struct dataplane *dp, const struct dataplane_size *size, bool adopt, struct qerr *err)
{
	int code = make_pin_dir(dp->pin_dir, adopt, err);

	if (code)
		return code;
	dp->pinned = !adopt;
	dp->skel = quench_bpf__open();
	if (!dp->skel)
		return qerr_set(err, -errno, "cannot open the BPF object: %s", libbpf_words);
	code = place_maps(dp, err);
	if (!code)
		code = load(dp, size, adopt, err);
	if (!code)
		code = share_memory(dp, err);
	if (!code)
		code = watch_qdiscs(dp, err);
	return code;
}

int dataplane_open(struct dataplane **out, const struct dataplane_size *size, const char *pin_dir,
	bool adopt, struct qerr *err)
{
	struct dataplane *dp = calloc(1, sizeof(*dp));
	int code;

	if (!dp)
		return qerr_set(err, -ENOMEM, "out of memory");
	libbpf_set_print(libbpf_listen);
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	snprintf(dp->pin_dir, sizeof(dp->pin_dir), "%s", pin_dir);
	code = open_and_load(dp, size, adopt, err);
	if (code) {
		dataplane_close(dp);
		return code;
	}
	dp->pinned = true;
	*out = dp;
	return 0;
}

void dataplane_close(struct dataplane *dp)
{
	if (dp && dp->pinned)
		dataplane_unpin(dp->pin_dir, NULL);
	dataplane_leave(dp);
}

void dataplane_leave(struct dataplane *dp)
{
	if (!dp)
		return;
	ring_buffer__free(dp->ring);
	for (size_t i = 0; i < dp->links_count; i++)
		close(dp->links[i].fd);
	bpf_link__destroy(dp->destroy_link);
	if (dp->skel) {
		unmap_memory(dp->qp_classes, dp->skel->maps.qp_classes);
		unmap_memory(dp->qp_free, dp->skel->maps.qp_free);
		unmap_memory(dp->qp_pools, dp->skel->maps.qp_pools);
		unmap_memory(dp->counters, dp->skel->maps.agent_counters);
		unmap_memory(dp->pauses, dp->skel->maps.pauses);
		unmap_memory(dp->gates, dp->skel->maps.gates);
		unmap_memory(dp->conf, dp->skel->maps.conf_map);
		quench_bpf__destroy(dp->skel);
	}
	free(dp);
}

static int open_pinned(const char *pin_dir, const char *name)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/%s", pin_dir, name);
	return bpf_obj_get(path);
}

/* Through the maps that a dead agent left: no port knows itself any more, so none clones. */
static void forget_ports(const char *pin_dir)
{
	int slots = open_pinned(pin_dir, "port_slots"),
	    places = open_pinned(pin_dir, "port_places");
	struct port_place none = {};
	__u32 ifindex;

	for (__u32 i = 0; i < PORT_PLACES && places >= 0; i++)
		bpf_map_update_elem(places, &i, &none, BPF_ANY);
	while (slots >= 0 && !bpf_map_get_next_key(slots, NULL, &ifindex) &&
		!bpf_map_delete_elem(slots, &ifindex))
		;
	close(places);
	close(slots);
}

void dataplane_calm(const char *pin_dir)
{
	size_t bytes = page_round(SLOTS_MAX * sizeof(struct port_pauses));
	int fd = open_pinned(pin_dir, "pauses");
	struct port_pauses *pauses;

	if (fd < 0)
		return;
	pauses = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (uint32_t slot = 0; pauses != MAP_FAILED && slot < SLOTS_MAX; slot++) {
		__atomic_store_n(&pauses[slot].dropped, 0, __ATOMIC_RELEASE);
		__atomic_store_n(&pauses[slot].stormed, 0, __ATOMIC_RELEASE);
		__atomic_store_n(&pauses[slot].closed, 0, __ATOMIC_RELEASE);
	}
	if (pauses != MAP_FAILED)
		munmap(pauses, bytes);
	close(fd);
}

int dataplane_unpin(const char *pin_dir, struct qerr *err)
{
	DIR *dir = opendir(pin_dir);
	struct dirent *entry;
	char path[PATH_MAX];

	if (!dir)
		return errno == ENOENT ? 0 : qerr_set(err, -errno, "cannot read %s", pin_dir);
	forget_ports(pin_dir); /* before the hooks go that turn clones into CNPs */
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", pin_dir, entry->d_name);
		if (entry->d_name[0] != '.')
			unlink(path);
	}
	closedir(dir);
	if (rmdir(pin_dir))
		return qerr_set(err, -errno, "cannot remove %s: %s", pin_dir, strerror(errno));
	snprintf(path, sizeof(path), "%s", pin_dir);
	for (int level = 0; level < 2; level++) { /* v1 and quench, if this was the last instance */
		*strrchr(path, '/') = '\0';
		if (rmdir(path))
			break;
	}
	return 0;
}

static __u32 program_id(const struct bpf_program *program)
{
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &len))
		return 0;
	return info.id;
}

enum xdp_mode dataplane_xdp_mode(const struct dataplane *dp, int ifindex)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	__u32 ours = program_id(dp->skel->progs.quench_xdp);

	if (bpf_xdp_query(ifindex, 0, &query) || !ours)
		return XDP_MODE_NONE;
	if (query.drv_prog_id == ours || query.hw_prog_id == ours)
		return XDP_MODE_IS_NATIVE;
	return query.skb_prog_id == ours ? XDP_MODE_IS_GENERIC : XDP_MODE_NONE;
}

static int refuse_foreign_xdp(const char *name, int ifindex, struct qerr *err)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	__u32 id;

	if (bpf_xdp_query(ifindex, 0, &query))
		return 0;
	id = query.drv_prog_id ? query.drv_prog_id : query.skb_prog_id;
	id = id ? id : query.hw_prog_id;
	if (!id)
		return 0;
	return qerr_set(err, -EBUSY,
		"port %s: another XDP program (id %u) is attached; quench does not replace it",
		name, id);
}

static int link_xdp(const struct dataplane *dp, int ifindex, __u32 flags)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = flags);

	return bpf_link_create(
		bpf_program__fd(dp->skel->progs.quench_xdp), ifindex, BPF_XDP, &opts);
}

int dataplane_attach_xdp(struct dataplane *dp, const char *name, int ifindex, bool generic_ok,
	enum xdp_mode *live, struct qerr *err)
{
	int code, fd;

	if (adopt_link(dp, "xdp", ifindex, dp->skel->progs.quench_xdp)) {
		*live = dataplane_xdp_mode(dp, ifindex);
		return 0;
	}
	code = refuse_foreign_xdp(name, ifindex, err);
	if (code)
		return code;
	fd = link_xdp(dp, ifindex, XDP_FLAGS_DRV_MODE);
	if (fd < 0 && generic_ok)
		fd = link_xdp(dp, ifindex, XDP_FLAGS_SKB_MODE);
	if (fd < 0)
		return qerr_set(err, fd, "port %s: cannot attach XDP in %s mode: %s%s", name,
			generic_ok ? "native or generic" : "native", strerror(-fd),
			generic_ok ? "" : "; `xdp: generic-ok` in the policy allows generic mode");
	code = pin_link(dp, fd, "xdp", ifindex, err);
	*live = dataplane_xdp_mode(dp, ifindex);
	if (!code && *live == XDP_MODE_NONE)
		return qerr_set(err, -EIO,
			"port %s: XDP was attached, yet the kernel does not show it", name);
	return code;
}

static int link_tcx(struct dataplane *dp, const struct bpf_program *program, const char *name,
	int ifindex, int type, struct qerr *err)
{
	const char *what = type == TCX_EGRESS ? "tc_egress" : "tc_ingress";
	int fd;

	if (adopt_link(dp, what, ifindex, program))
		return 0;
	fd = bpf_link_create(bpf_program__fd(program), ifindex, (enum bpf_attach_type)type, NULL);
	if (fd < 0)
		return qerr_set(err, fd, "port %s: cannot attach %s (tcx, kernel 6.6 or later): %s",
			name, what, strerror(-fd));
	return pin_link(dp, fd, what, ifindex, err);
}

int dataplane_attach_tc(
	struct dataplane *dp, const char *name, int ifindex, uint32_t flags, struct qerr *err)
{
	const struct bpf_program *egress = flags & (PORT_NOTIFY_EGRESS | PORT_PAUSES)
						   ? dp->skel->progs.quench_tc_ahead
						   : dp->skel->progs.quench_tc_egress;
	const struct bpf_program *ingress = dataplane_xdp_mode(dp, ifindex) == XDP_MODE_IS_GENERIC
						    ? dp->skel->progs.quench_tc_ingress_generic
						    : dp->skel->progs.quench_tc_ingress;
	int code = link_tcx(dp, egress, name, ifindex, TCX_EGRESS, err);

	if (code || !(flags & PORT_NOTIFY_INGRESS))
		return code;
	return link_tcx(dp, ingress, name, ifindex, TCX_INGRESS, err);
}

int dataplane_root_fd(const struct dataplane *dp)
{
	return bpf_program__fd(dp->skel->progs.quench_root);
}

static int map_set(struct bpf_map *map, const void *key, const void *value, struct qerr *err)
{
	if (bpf_map_update_elem(bpf_map__fd(map), key, value, BPF_ANY))
		return qerr_set(err, -errno, "cannot write map %s: %s", bpf_map__name(map),
			strerror(errno));
	return 0;
}

int dataplane_set_conf(struct dataplane *dp, const struct conf *conf, struct qerr *err)
{
	return map_set(dp->skel->maps.conf_map, &(__u32){0}, conf, err);
}

void dataplane_set_now(struct dataplane *dp, uint64_t now_ns)
{
	*(volatile __u64 *)&dp->conf->now_ns = now_ns;
}

int dataplane_set_port(
	struct dataplane *dp, int ifindex, const struct port_conf *port, struct qerr *err)
{
	struct port_place place = {.ifindex = ifindex, .slot = port->slot};
	__u32 index = port_place(ifindex);
	int code = map_set(dp->skel->maps.ports, &port->slot, port, err);

	if (!code)
		code = map_set(dp->skel->maps.port_slots, &place.ifindex, &place.slot, err);
	return code ? code : map_set(dp->skel->maps.port_places, &index, &place, err);
}

/* The interface is no port any more; another one may have its place. */
static void clear_port(struct dataplane *dp, __u32 ifindex)
{
	int fd = bpf_map__fd(dp->skel->maps.port_places);
	struct port_place place, none = {};
	__u32 index = port_place(ifindex);

	if (!bpf_map_lookup_elem(fd, &index, &place) && place.ifindex == ifindex)
		bpf_map_update_elem(fd, &index, &none, BPF_ANY);
	bpf_map_delete_elem(bpf_map__fd(dp->skel->maps.port_slots), &ifindex);
}

bool dataplane_get_pair(const struct dataplane *dp, const struct flow_key *flow, struct pair *pair)
{
	return !bpf_map_lookup_elem(bpf_map__fd(dp->skel->maps.pairs), flow, pair);
}

/* Step to the key behind *key, or to the first one when there is none yet. */
static bool next_key(int fd, struct flow_key *key, bool *started)
{
	struct flow_key next;

	if (bpf_map_get_next_key(fd, *started ? key : NULL, &next))
		return false;
	*key = next;
	*started = true;
	return true;
}

void dataplane_each_pair(const struct dataplane *dp, dataplane_pair_fn fn, void *arg)
{
	int fd = bpf_map__fd(dp->skel->maps.pairs);
	struct flow_key key;
	struct pair pair;
	bool started = false;

	while (next_key(fd, &key, &started))
		if (!bpf_map_lookup_elem(fd, &key, &pair))
			fn(arg, &key, &pair);
}

bool dataplane_drop_dead_hooks(struct dataplane *dp, int ifindex)
{
	char path[LINK_PATH_MAX];
	size_t kept = 0;
	bool dead = false;

	for (size_t i = 0; i < dp->links_count; i++) {
		if (dp->links[i].ifindex != ifindex || link_is_alive(dp->links[i].fd, ifindex)) {
			dp->links[kept++] = dp->links[i];
			continue;
		}
		link_path(dp, dp->links[i].what, ifindex, path);
		unlink(path);
		close(dp->links[i].fd);
		dead = true;
	}
	dp->links_count = kept;
	return dead;
}

void dataplane_drop_tc(struct dataplane *dp, int ifindex)
{
	static const char *const whats[] = {"tc_egress", "tc_ingress"};
	char path[LINK_PATH_MAX];

	for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
		link_path(dp, whats[i], ifindex, path);
		unlink(path);
	}
}

void dataplane_forget_port(struct dataplane *dp, int ifindex)
{
	static const char *const whats[] = {"xdp", "tc_egress", "tc_ingress"};
	char path[LINK_PATH_MAX];
	size_t kept = 0;

	clear_port(dp, ifindex);
	for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
		link_path(dp, whats[i], ifindex, path);
		unlink(path);
	}
	for (size_t i = 0; i < dp->links_count; i++)
		if (dp->links[i].ifindex == ifindex)
			close(dp->links[i].fd);
		else
			dp->links[kept++] = dp->links[i];
	dp->links_count = kept;
}

int dataplane_set_pair(struct dataplane *dp, const struct flow_key *flow, uint32_t peer_qpn,
	enum pair_source source)
{
	struct pair pair = {};

	if (!dataplane_get_pair(dp, flow, &pair) || pair.peer_qpn != peer_qpn)
		pair = (struct pair){.peer_qpn = peer_qpn};
	if (pair.source == source)
		return 0;
	pair.source = source;
	return map_set(dp->skel->maps.pairs, flow, &pair, NULL);
}

void dataplane_clear_pair(struct dataplane *dp, const struct flow_key *flow)
{
	bpf_map_delete_elem(bpf_map__fd(dp->skel->maps.pairs), flow);
}

int dataplane_get_stats(const struct dataplane *dp, uint32_t slot, struct port_stats *stats)
{
	int cpus = libbpf_num_possible_cpus();
	struct port_stats *each;
	__u64 *sum = (__u64 *)stats;

	if (cpus <= 0)
		return -EINVAL;
	each = calloc(cpus, sizeof(*each));
	if (!each)
		return -ENOMEM;
	memset(stats, 0, sizeof(*stats));
	if (bpf_map_lookup_elem(bpf_map__fd(dp->skel->maps.port_stats), &slot, each)) {
		free(each);
		return -errno;
	}
	for (int cpu = 0; cpu < cpus; cpu++)
		for (size_t i = 0; i < sizeof(*stats) / sizeof(__u64); i++)
			sum[i] += ((__u64 *)&each[cpu])[i];
	free(each);
	return 0;
}

int dataplane_get_state(const struct dataplane *dp, uint32_t slot, struct port_state *state)
{
	return bpf_map_lookup_elem(bpf_map__fd(dp->skel->maps.port_state), &slot, state) ? -errno
											 : 0;
}

bool dataplane_get_qp(const struct dataplane *dp, const struct flow_key *key, struct qp *qp)
{
	return !bpf_map_lookup_elem(bpf_map__fd(dp->skel->maps.qps), key, qp);
}

/*
 * The next entries of a table from where the walk stands. The kernel goes bucket by bucket: what is
 * deleted meanwhile does not send it back to the start.
 */
static size_t next_entries(
	const struct bpf_map *map, struct dataplane_walk *walk, struct flow_key *keys, void *values)
{
	uint32_t place = walk->place, count = DATAPLANE_PAGE;
	int code = 0;

	if (walk->over)
		return 0;
	code = bpf_map_lookup_batch(bpf_map__fd(map), walk->started ? &place : NULL, &walk->place,
		keys, values, &count, NULL);
	walk->started = true;
	walk->over = code;
	return code && code != -ENOENT ? 0 : count;
}

size_t dataplane_next_flows(const struct dataplane *dp, struct dataplane_walk *walk,
	struct flow_key keys[DATAPLANE_PAGE], struct flow flows[DATAPLANE_PAGE])
{
	return next_entries(dp->skel->maps.flows, walk, keys, flows);
}

size_t dataplane_next_qps(const struct dataplane *dp, struct dataplane_walk *walk,
	struct flow_key keys[DATAPLANE_PAGE], struct qp qps[DATAPLANE_PAGE])
{
	return next_entries(dp->skel->maps.qps, walk, keys, qps);
}

size_t dataplane_next_iwarp(const struct dataplane *dp, struct dataplane_walk *walk,
	struct flow_key keys[DATAPLANE_PAGE], struct iwarp_way ways[DATAPLANE_PAGE])
{
	return next_entries(dp->skel->maps.iwarp, walk, keys, ways);
}

/* Both values start with a struct flow. */
static size_t age_map(int fd, uint64_t before_ns)
{
	union {
		struct flow flow;
		struct qp qp;
	} value;
	struct flow_key key, old;
	bool started = false, have_old = false;
	size_t aged = 0;

	while (next_key(fd, &key, &started)) {
		if (have_old)
			bpf_map_delete_elem(fd, &old);
		have_old = !bpf_map_lookup_elem(fd, &key, &value) && value.flow.last_ns < before_ns;
		old = key;
		aged += have_old;
	}
	if (have_old)
		bpf_map_delete_elem(fd, &old);
	return aged;
}

size_t dataplane_age(struct dataplane *dp, uint64_t before_ns)
{
	return age_map(bpf_map__fd(dp->skel->maps.flows), before_ns) +
	       age_map(bpf_map__fd(dp->skel->maps.qps), before_ns);
}

struct qp_class *dataplane_qp_classes(const struct dataplane *dp)
{
	return dp->qp_classes;
}

uint64_t *dataplane_qp_free(const struct dataplane *dp)
{
	return dp->qp_free;
}

struct qp_pool *dataplane_qp_pools(const struct dataplane *dp)
{
	return dp->qp_pools;
}

struct agent_counters *dataplane_counters(const struct dataplane *dp)
{
	return dp->counters;
}

struct port_pauses *dataplane_pauses(const struct dataplane *dp)
{
	return dp->pauses;
}

struct gate_counters *dataplane_gates(const struct dataplane *dp)
{
	return dp->gates;
}

void dataplane_pause_look(const struct dataplane *dp, uint32_t slot)
{
	struct pause_look_args args = {.slot = slot};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &args, .ctx_size_in = sizeof(args));

	bpf_prog_test_run_opts(bpf_program__fd(dp->skel->progs.quench_pause_look), &opts);
}

static int on_event(void *arg, void *data, size_t bytes)
{
	struct dataplane *dp = arg;

	if (bytes >= sizeof(struct event) && !dp->event_fn(dp->event_arg, data))
		return -EAGAIN; /* taken, but no further */
	return 0;
}

int dataplane_events_open(struct dataplane *dp, dataplane_event_fn fn, void *arg, struct qerr *err)
{
	dp->event_fn = fn;
	dp->event_arg = arg;
	dp->ring = ring_buffer__new(bpf_map__fd(dp->skel->maps.events), on_event, dp, NULL);
	if (!dp->ring)
		return qerr_set(err, -errno, "cannot open the event ring: %s", strerror(errno));
	return 0;
}

int dataplane_events_fd(const struct dataplane *dp)
{
	return ring_buffer__epoll_fd(dp->ring);
}

void dataplane_events_take(struct dataplane *dp)
{
	ring_buffer__consume(dp->ring);
}
