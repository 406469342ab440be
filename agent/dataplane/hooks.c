// SPDX-License-Identifier: BSD-2-Clause
// Whatever programs are on an interface, and which of them are an instance's of ours.
#include "dataplane/hooks.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dataplane/dataplane.h"

/* Attach types of tcx (6.6+), which Debian 12's headers do not know. */
enum { TCX_INGRESS = 46, TCX_EGRESS = 47 };

/* The program that the link pinned for that hook holds; 0 when there is none. */
static uint32_t pinned_program(const char *pin_dir, const char *what, int ifindex)
{
	struct bpf_link_info info = {};
	__u32 len = sizeof(info);
	char path[PATH_MAX + 64];
	int fd, code;

	dataplane_link_path(pin_dir, what, ifindex, path, sizeof(path));
	fd = bpf_obj_get(path);
	if (fd < 0)
		return 0;
	code = bpf_obj_get_info_by_fd(fd, &info, &len);
	close(fd);
	return code || (int)info.xdp.ifindex != ifindex ? 0 : info.prog_id;
}

static struct hook_program program_of(uint32_t id, uint32_t ours)
{
	struct hook_program program = {.id = id, .ours = id && id == ours};
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);
	int fd = id ? bpf_prog_get_fd_by_id(id) : -1;

	if (fd < 0)
		return program;
	if (!bpf_obj_get_info_by_fd(fd, &info, &len))
		snprintf(program.name, sizeof(program.name), "%s", info.name);
	close(fd);
	return program;
}

static int read_xdp(const char *pin_dir, int ifindex, struct hooks *hooks, struct qerr *err)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	int code = bpf_xdp_query(ifindex, 0, &query);
	uint32_t id;

	if (code)
		return qerr_set(err, code, "cannot read the XDP program: %s", strerror(-code));
	id = query.drv_prog_id ? query.drv_prog_id : query.hw_prog_id;
	hooks->xdp_generic = !id && query.skb_prog_id;
	hooks->xdp =
		program_of(id ? id : query.skb_prog_id, pinned_program(pin_dir, "xdp", ifindex));
	return 0;
}

static int read_chain(
	int type, uint32_t ours, int ifindex, struct hook_chain *chain, struct qerr *err)
{
	__u32 ids[HOOK_PROGRAMS_MAX] = {};
	LIBBPF_OPTS(bpf_prog_query_opts, query, .prog_ids = ids, .prog_cnt = HOOK_PROGRAMS_MAX);
	int code = bpf_prog_query_opts(ifindex, (enum bpf_attach_type)type, &query);

	if (code == -EPERM)
		return qerr_set(err, code, "cannot read the tcx programs: %s", strerror(-code));
	if (code)
		return 0;
	for (chain->count = 0; chain->count < query.prog_cnt; chain->count++)
		chain->programs[chain->count] = program_of(ids[chain->count], ours);
	return 0;
}

int hooks_read(const char *pin_dir, int ifindex, struct hooks *hooks, struct qerr *err)
{
	int code;

	memset(hooks, 0, sizeof(*hooks));
	code = read_xdp(pin_dir, ifindex, hooks, err);
	if (!code)
		code = read_chain(TCX_INGRESS, pinned_program(pin_dir, "tc_ingress", ifindex),
			ifindex, &hooks->ingress, err);
	if (!code)
		code = read_chain(TCX_EGRESS, pinned_program(pin_dir, "tc_egress", ifindex),
			ifindex, &hooks->egress, err);
	return code;
}

static int read_conf(int fd, struct conf *conf)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.value_size != sizeof(*conf))
		return -EPROTO;
	return bpf_map_lookup_elem(fd, &(__u32){0}, conf) ? -errno : 0;
}

int hooks_read_conf(const char *pin_dir, struct conf *conf)
{
	char path[PATH_MAX + 16];
	int fd, code;

	snprintf(path, sizeof(path), "%s/conf_map", pin_dir);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return -errno;
	code = read_conf(fd, conf);
	close(fd);
	return code;
}
