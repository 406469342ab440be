// SPDX-License-Identifier: BSD-2-Clause
/*
 * load: does this kernel take quench's programs? Loads each alone, and prints for each
 *     NAME INSTRUCTIONS         as many as the verifier looked at, or
 *     NAME refused: REASON
 * With an interface, attaches the XDP program to it natively and takes it off again. Exit status 1
 * where something was refused.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/dataplane.h"
#include "quench.skel.h"

enum { LOG_STATISTICS = 4, LOG_BYTES = 1 << 20 };

static char log_text[LOG_BYTES];

/* The verifier's reason, which stands before its statistics. */
static const char *reason(void)
{
	static const char *const statistics[] = {"\nprocessed ", "\nverification time "};
	char *end, *line;

	for (size_t i = 0; i < sizeof(statistics) / sizeof(statistics[0]); i++) {
		end = strstr(log_text, statistics[i]);
		if (end)
			*end = '\0';
	}
	line = strrchr(log_text, '\n');
	return line ? line + 1 : log_text;
}

/* A skeleton of which only the named program is to be loaded. */
static struct quench_bpf *open_only(const char *name, bool rdonly_cast)
{
	struct quench_bpf *skel = quench_bpf__open();
	struct bpf_program *program;

	if (!skel)
		return NULL;
	skel->rodata->depth_rdonly_cast = rdonly_cast;
	bpf_object__for_each_program(program, skel->obj)
	{
		bpf_program__set_autoload(program, !strcmp(bpf_program__name(program), name));
		bpf_program__set_log_buf(program, log_text, sizeof(log_text));
		bpf_program__set_log_level(program, LOG_STATISTICS);
	}
	return skel;
}

static int load_one(const char *name, bool rdonly_cast)
{
	struct quench_bpf *skel = open_only(name, rdonly_cast);
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);
	int code;

	log_text[0] = '\0';
	code = skel ? quench_bpf__load(skel) : -errno;
	if (!code) {
		int fd = bpf_program__fd(bpf_object__find_program_by_name(skel->obj, name));

		code = bpf_obj_get_info_by_fd(fd, &info, &len) ? -errno : 0;
	}
	if (code)
		printf("%s refused: %s: %s\n", name, strerror(-code), reason());
	else
		printf("%s %u\n", name, info.verified_insns);
	quench_bpf__destroy(skel);
	return code;
}

static int attach_xdp(const char *device, bool rdonly_cast)
{
	struct quench_bpf *skel = open_only("quench_xdp", rdonly_cast);
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	int ifindex = if_nametoindex(device);
	int code = skel ? quench_bpf__load(skel) : -errno;

	if (!code)
		code = bpf_xdp_attach(
			ifindex, bpf_program__fd(skel->progs.quench_xdp), XDP_FLAGS_DRV_MODE, NULL);
	if (!code)
		code = bpf_xdp_query(ifindex, 0, &query);
	if (!code && !query.drv_prog_id)
		code = -EIO;
	if (code)
		printf("%s refused: %s\n", device, strerror(-code));
	else
		printf("%s native\n", device);
	bpf_xdp_detach(ifindex, XDP_FLAGS_DRV_MODE, NULL);
	quench_bpf__destroy(skel);
	return code;
}

int main(int argc, char **argv)
{
	bool rdonly_cast = dataplane_kernel_has_function("bpf_rdonly_cast");
	struct quench_bpf *skel;
	struct bpf_program *program;
	int failed = 0;

	libbpf_set_print(NULL);
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	printf("depth_rdonly_cast %s\n", rdonly_cast ? "true" : "false");
	skel = quench_bpf__open();
	if (!skel) {
		perror("load: the BPF object cannot be opened");
		return EXIT_FAILURE;
	}
	bpf_object__for_each_program(program, skel->obj) failed |=
		load_one(bpf_program__name(program), rdonly_cast);
	quench_bpf__destroy(skel);
	if (argc > 1)
		failed |= attach_xdp(argv[1], rdonly_cast);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
