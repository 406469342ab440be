// SPDX-License-Identifier: BSD-2-Clause
// The guardian: opens everything when the agent dies or hangs.
#include "engine/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/dataplane.h"
#include "netlink/link.h"
#include "netlink/rtnl.h"
#include "reconcile/apply.h"

static int pid_open(pid_t pid)
{
	return syscall(SYS_pidfd_open, pid, 0);
}

/* In the child: only calls that are safe after fork. The descriptors must outlive exec. */
static void become_guardian(const char *instance, const int fds[GUARDIAN_FDS])
{
	char numbers[GUARDIAN_FDS][16];

	for (int i = 0; i < GUARDIAN_FDS; i++) {
		snprintf(numbers[i], sizeof(numbers[i]), "%d", fds[i]);
		fcntl(fds[i], F_SETFD, 0);
	}
	setsid(); /* a Ctrl-C for the agent is none for the guardian */
	execl("/proc/self/exe", "quench", "guardian", "--instance", instance, numbers[0],
		numbers[1], numbers[2], NULL);
	_exit(127);
}

static void forget_ready(struct guardian *guardian)
{
	if (guardian->ready_fd >= 0)
		close(guardian->ready_fd);
	guardian->ready_fd = -1;
}

void guardian_reap(struct guardian *guardian)
{
	if (guardian->pid)
		waitpid(guardian->pid, NULL, 0);
	if (guardian->pid_fd >= 0)
		close(guardian->pid_fd);
	forget_ready(guardian);
	guardian->pid = 0;
	guardian->pid_fd = -1;
}

int guardian_prepare(struct guardian *guardian, struct qerr *err)
{
	*guardian = (struct guardian){.pid_fd = -1, .beats = {-1, -1}, .ready_fd = -1};
	if (pipe2(guardian->beats, O_CLOEXEC | O_NONBLOCK))
		return qerr_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
	return 0;
}

static int cannot_start(struct qerr *err)
{
	return qerr_set(err, -errno, "cannot start the guardian: %s", strerror(errno));
}

/* With the agent's own pidfd and both ends of the pipe that says ready. */
static int spawn(struct guardian *guardian, const struct instance *instance, int agent_fd,
	const int ready[2], struct qerr *err)
{
	pid_t pid = fork();

	if (!pid)
		become_guardian(
			instance->name, (const int[]){agent_fd, guardian->beats[0], ready[1]});
	if (pid < 0)
		return cannot_start(err);
	guardian->pid = pid;
	guardian->pid_fd = pid_open(pid);
	guardian->ready_fd = ready[0];
	return 0;
}

int guardian_start(struct guardian *guardian, const struct instance *instance, struct qerr *err)
{
	int agent_fd, ready[2], code;

	guardian_reap(guardian);
	if (pipe2(ready, O_CLOEXEC))
		return cannot_start(err);
	agent_fd = pid_open(getpid());
	code = agent_fd < 0 ? cannot_start(err) : spawn(guardian, instance, agent_fd, ready, err);
	close(agent_fd);
	close(ready[1]);
	if (code)
		close(ready[0]);
	return code;
}

int guardian_wait(struct guardian *guardian, struct qerr *err)
{
	struct pollfd fd = {.fd = guardian->ready_fd, .events = POLLIN};
	char byte;
	bool ready = poll(&fd, 1, GUARDIAN_START_MS) > 0 && read(fd.fd, &byte, 1) == 1;

	forget_ready(guardian);
	return ready ? 0 : qerr_set(err, -ESRCH, "the guardian does not start");
}

void guardian_beat(const struct guardian *guardian)
{
	if (write(guardian->beats[1], "", 1) < 0)
		return; /* a full pipe has signs of life enough */
}

void guardian_stop(struct guardian *guardian)
{
	if (guardian->pid)
		kill(guardian->pid, SIGKILL);
	guardian_reap(guardian);
	for (int i = 0; i < 2; i++)
		if (guardian->beats[i] >= 0)
			close(guardian->beats[i]);
	guardian->beats[0] = guardian->beats[1] = -1;
}

static void open_ports(struct rtnl *nl, const struct instance *instance)
{
	struct instance_state state;
	struct qerr err = {};

	if (instance_load(instance, &state, &err))
		fprintf(stderr, "quench guardian: %s\n", err.text);
	for (size_t i = 0; i < state.ports_count; i++) {
		const struct instance_port *port = &state.ports[i];

		if (tree_release(nl, port->ifindex, port->line_rate_bps, &err))
			fprintf(stderr, "quench guardian: port %s: %s\n", port->name, err.text);
	}
	dataplane_calm(instance->pin_dir);
}

static void take_beats(int fd)
{
	char beats[256];

	while (read(fd, beats, sizeof(beats)) > 0)
		;
}

/* Tell the agent that it is watched. One that has died meanwhile shows itself at once. */
static void say_ready(int fd)
{
	signal(SIGPIPE, SIG_IGN);
	if (write(fd, "", 1) < 0)
		return;
	close(fd);
}

int guardian_watch(const struct instance *instance, const int with[GUARDIAN_FDS], struct qerr *err)
{
	const struct sched_param first = {.sched_priority = 1};
	struct pollfd fds[] = {{.fd = with[GUARDIAN_AGENT], .events = POLLIN},
		{.fd = with[GUARDIAN_BEATS], .events = POLLIN}};
	bool hung = false;
	struct rtnl *nl;
	int code = rtnl_open(&nl, err);

	if (code)
		return code;
	sched_setscheduler(0, SCHED_RR, &first); /* it runs for some milliseconds in its life */
	say_ready(with[GUARDIAN_READY]);
	for (;;) {
		int n = poll(fds, 2, GUARDIAN_PATIENCE_MS);

		if (n > 0 && (fds[0].revents || fds[1].revents & POLLHUP))
			break;
		if (n > 0) {
			take_beats(with[GUARDIAN_BEATS]);
			hung = false;
		} else if (n == 0 && !hung) {
			fprintf(stderr, "quench guardian: instance %s hangs: all open\n",
				instance->name);
			open_ports(nl, instance);
			hung = true;
		}
	}
	open_ports(nl, instance);
	fprintf(stderr,
		"quench guardian: instance %s died: all open; `quench run` takes over, "
		"`quench release` cleans up\n",
		instance->name);
	rtnl_close(nl);
	return 0;
}
