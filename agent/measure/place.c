// SPDX-License-Identifier: BSD-2-Clause
// A place to measure in: the namespaces, the links, the agent.
#include "measure/place.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/instance.h"
#include "netlink/link.h"
#include "netlink/link_make.h"
#include "observe/control.h"

#define INSTANCE "measure"

enum {
	LOOPBACK_IFINDEX = 1,
	READY_S = 20,
	LOOK_EVERY_NS = 20000000,
};

/* Marks so low that a few frames pass them, and pauses that outlast a round. */
static const char policy_text[] =
	"version: 1\n"
	"ports:\n"
	"  - {name: from_port, role: gateway, rate: 1Gbit, speed: 100Mbit}\n"
	"  - {name: to_port, role: gateway, rate: 1Gbit, speed: 100Mbit}\n"
	"classes:\n"
	"  - {name: measured, priority: 3, dscp: [26], kind: lossless, limit: 1MiB,\n"
	"     pfc: {xoff: 8KB, xon: 4KB}}\n"
	"pfc: {pause: 300ms, watchdog: {detect: off}}\n"
	"realtime: {poll: %s, priority: %s}\n";

static int failed(struct qerr *err, const char *what)
{
	return qerr_set(err, -errno, "%s: %s", what, strerror(errno));
}

/* Nobody outside sees these mounts; they hide the agents that run outside. */
static int enter(struct qerr *err)
{
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount("tmpfs", "/run", "tmpfs", 0, NULL))
		return failed(err, "cannot mount /run anew");
	if (mount("bpf", "/sys/fs/bpf", "bpf", 0, NULL))
		return failed(err, "cannot mount /sys/fs/bpf anew");
	return 0;
}

/* ---- the links ---- */

static int find_end(struct rtnl *nl, const char *name, struct place_end *end, struct qerr *err)
{
	struct link_info info;
	int code = link_get(nl, name, &info, err);

	end->ifindex = info.ifindex;
	memcpy(end->mac, info.mac, sizeof(end->mac));
	return code ? qerr_prefix(err, code, "%s", name) : 0;
}

static int make_links(struct rtnl *nl, struct qerr *err)
{
	int code = link_make_veth(nl, "from", "from_port", err);

	if (!code)
		code = link_make_veth(nl, "to", "to_port", err);
	return code ? code : link_make_bridge(nl, "bridge", err);
}

static int switch_on(struct place *place, int bridge, struct qerr *err)
{
	const struct {
		int ifindex, bridge;
	} links[] = {
		{LOOPBACK_IFINDEX, 0},
		{bridge, 0},
		{place->from_port.ifindex, bridge},
		{place->to_port.ifindex, bridge},
		{place->from.ifindex, 0},
		{place->to.ifindex, 0},
	};
	int code = 0;

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]) && !code; i++)
		code = link_switch_on(place->nl, links[i].ifindex, links[i].bridge, err);
	return code;
}

static int set_up_links(struct place *place, struct qerr *err)
{
	const struct {
		const char *name;
		struct place_end *end;
	} ends[] = {
		{"from", &place->from},
		{"from_port", &place->from_port},
		{"to_port", &place->to_port},
		{"to", &place->to},
	};
	struct place_end bridge;
	int code = rtnl_open(&place->nl, err);

	if (!code)
		code = make_links(place->nl, err);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]) && !code; i++)
		code = find_end(place->nl, ends[i].name, ends[i].end, err);
	if (!code)
		code = find_end(place->nl, "bridge", &bridge, err);
	return code ? code : switch_on(place, bridge.ifindex, err);
}

/* ---- the agent ---- */

/* The policy as a file that only this process and its children have; -errno. */
static int policy_fd(const struct policy_realtime *realtime)
{
	int fd = memfd_create("policy", 0);
	char priority[12] = "off";

	if (realtime->priority)
		snprintf(priority, sizeof(priority), "%u", realtime->priority);

	if (fd >= 0 && dprintf(fd, policy_text, realtime->poll ? "true" : "false", priority) < 0)
		return -errno;
	return fd < 0 ? -errno : fd;
}

static void become_agent(int policy, int log)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", policy);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	execl("/proc/self/exe", "quench", "run", "-c", path, "--instance", INSTANCE, NULL);
	_exit(127);
}

int place_check_agent(struct place *place, struct qerr *err)
{
	char said[256] = "";
	off_t end = lseek(place->log_fd, 0, SEEK_END);
	off_t last = end > (off_t)sizeof(said) - 1 ? end - (off_t)sizeof(said) + 1 : 0;

	if (!waitpid(place->agent, NULL, WNOHANG))
		return 0;
	if (pread(place->log_fd, said, sizeof(said) - 1, last) < 0)
		return failed(err, "the agent ended");
	said[strcspn(said, "\n")] = '\0';
	return qerr_set(err, -ECHILD, "the agent ended: %s", said);
}

/* Its socket answers once everything is in place. */
static int wait_until_ready(struct place *place, struct qerr *err)
{
	const struct timespec pause = {.tv_nsec = LOOK_EVERY_NS};
	struct instance instance;
	json_t *doc;
	int code = instance_init(&instance, INSTANCE, err);

	for (int i = 0; i < READY_S * (1000000000 / LOOK_EVERY_NS) && !code; i++) {
		if (!control_ask(instance.socket_path, "status", &doc, NULL)) {
			json_decref(doc);
			return 0;
		}
		code = place_check_agent(place, err);
		nanosleep(&pause, NULL);
	}
	return code ? code : qerr_set(err, -ETIME, "the agent is not ready in %d s", READY_S);
}

static int start_agent(
	struct place *place, const struct policy_realtime *realtime, struct qerr *err)
{
	int policy = policy_fd(realtime);

	place->log_fd = memfd_create("log", MFD_CLOEXEC);
	if (policy < 0 || place->log_fd < 0)
		return failed(err, "cannot start the agent");
	place->agent = fork();
	if (place->agent < 0)
		return failed(err, "cannot start the agent");
	if (!place->agent)
		become_agent(policy, place->log_fd);
	close(policy);
	return wait_until_ready(place, err);
}

/* ---- the child ---- */

/* What the child has to say, in memory that it shares with its parent. */
struct answer {
	int code;
	struct qerr err;
	_Alignas(max_align_t) char result[];
};

static int work(const struct policy_realtime *realtime,
	int (*fn)(struct place *place, void *result, void *arg, struct qerr *err), void *result,
	void *arg, struct qerr *err)
{
	struct place place = {};
	int code = enter(err);

	if (!code)
		code = set_up_links(&place, err);
	if (!code)
		code = start_agent(&place, realtime, err);
	return code ? code : fn(&place, result, arg, err);
}

/* As fork, but the child is the first process of new namespaces: with it everybody there goes. */
static pid_t fork_apart(void)
{
	struct clone_args args = {
		.flags = CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS, .exit_signal = SIGCHLD};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

int place_run(const struct policy_realtime *realtime,
	int (*fn)(struct place *place, void *result, void *arg, struct qerr *err), void *result,
	size_t size, void *arg, struct qerr *err)
{
	struct answer *answer = mmap(NULL, sizeof(*answer) + size, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int code;
	pid_t pid;

	if (answer == MAP_FAILED)
		return failed(err, "out of memory");
	answer->code = qerr_set(&answer->err, -ECHILD, "the measuring process was killed");
	fflush(NULL);
	pid = fork_apart();
	if (pid < 0)
		answer->code = failed(&answer->err, "cannot make namespaces");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		answer->code = work(realtime, fn, answer->result, arg, &answer->err);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	code = answer->code;
	if (code)
		qerr_set(err, code, "%s", answer->err.text);
	else
		memcpy(result, answer->result, size);
	munmap(answer, sizeof(*answer) + size);
	return code;
}
