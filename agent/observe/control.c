// SPDX-License-Identifier: BSD-2-Clause
// The agent's control socket: one command word a connection, one JSON document back.
#include "observe/control.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	COMMAND_MAX = 64,
	CLIENT_MS = 1000,    /* for its command */
	ANSWER_MS = 5000,    /* to take the answer */
	ANSWER_SECONDS = 30, /* that a client waits for the next part of it */
};

static int socket_at(const char *path, struct sockaddr_un *addr, struct qerr *err)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return qerr_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	memset(addr, 0, sizeof(*addr));
	addr->sun_family = AF_UNIX;
	snprintf(addr->sun_path, sizeof(addr->sun_path), "%s", path);
	return fd;
}

static void limit_time(int fd, int seconds)
{
	struct timeval limit = {.tv_sec = seconds};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

int control_listen(const char *path, struct qerr *err)
{
	struct sockaddr_un addr;
	int fd = socket_at(path, &addr, err);
	mode_t mask;
	int failed;

	if (fd < 0)
		return fd;
	unlink(path); /* ours: the instance's lock is held */
	mask = umask(0177);
	failed = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 8);
	umask(mask);
	if (failed) {
		int code = -errno;

		close(fd);
		return qerr_set(err, code, "cannot listen at %s: %s", path, strerror(-code));
	}
	return fd;
}

static uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

/* Is the descriptor ready before the deadline? A client holds everybody up: it has so long in all.
 */
static bool wait_for(int fd, short events, uint64_t deadline_ms)
{
	struct pollfd pfd = {.fd = fd, .events = events};
	uint64_t now_ms = clock_ms();

	return now_ms < deadline_ms && poll(&pfd, 1, deadline_ms - now_ms) > 0;
}

/* Read one line; false when the client is silent, gone, slow or long-winded. */
static bool read_command(int fd, char *command)
{
	uint64_t deadline_ms = clock_ms() + CLIENT_MS;
	size_t len = 0;
	ssize_t n;

	while (len < COMMAND_MAX - 1 && wait_for(fd, POLLIN, deadline_ms)) {
		n = recv(fd, command + len, COMMAND_MAX - 1 - len, MSG_DONTWAIT);
		if (n <= 0)
			return false;
		len += n;
		command[len] = '\0';
		if (strchr(command, '\n')) {
			*strchr(command, '\n') = '\0';
			return true;
		}
	}
	return false;
}

/* An answer on its way: jansson writes a token at a time. */
struct answer {
	int fd;
	uint64_t deadline_ms;
	size_t len;
	char text[65536];
};

static int answer_flush(struct answer *a)
{
	size_t sent = 0;
	ssize_t n;

	while (sent < a->len) {
		if (!wait_for(a->fd, POLLOUT, a->deadline_ms))
			return -1;
		n = send(a->fd, a->text + sent, a->len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return -1;
		sent += n;
	}
	a->len = 0;
	return 0;
}

static int answer_take(const char *text, size_t len, void *arg)
{
	struct answer *a = arg;

	while (len) {
		size_t part = sizeof(a->text) - a->len;

		part = part < len ? part : len;
		memcpy(a->text + a->len, text, part);
		a->len += part;
		text += part;
		len -= part;
		if (a->len == sizeof(a->text) && answer_flush(a))
			return -1;
	}
	return 0;
}

static void answer(int fd, const json_t *doc)
{
	struct answer *a = calloc(1, sizeof(*a));

	if (!a)
		return;
	a->fd = fd;
	a->deadline_ms = clock_ms() + ANSWER_MS;
	if (!json_dump_callback(doc, answer_take, a, JSON_INDENT(2)))
		answer_flush(a);
	free(a);
}

void control_serve(int listen_fd, control_fn fn, void *arg)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	char command[COMMAND_MAX];
	json_t *doc = NULL;

	if (fd < 0)
		return;
	if (read_command(fd, command)) {
		doc = fn(arg, command);
		if (!doc)
			doc = json_pack("{s:s}", "error", "unknown command");
		answer(fd, doc);
	}
	json_decref(doc);
	close(fd);
}

int control_ask(const char *path, const char *command, json_t **doc, struct qerr *err)
{
	struct sockaddr_un addr;
	json_error_t where = {};
	FILE *in;
	int fd = socket_at(path, &addr, err);

	if (fd < 0)
		return fd;
	limit_time(fd, ANSWER_SECONDS);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		int code = -errno;

		close(fd);
		return qerr_set(err, code, "no agent answers at %s: %s", path, strerror(-code));
	}
	dprintf(fd, "%s\n", command);
	in = fdopen(fd, "r");
	*doc = in ? json_loadf(in, 0, &where) : NULL;
	if (in)
		fclose(in);
	else
		close(fd);
	if (!*doc)
		return qerr_set(
			err, -EPROTO, "the agent at %s gave no answer: %s", path, where.text);
	if (json_object_get(*doc, "error")) {
		int code = qerr_set(err, -EPROTO, "the agent says: %s",
			json_string_value(json_object_get(*doc, "error")));

		json_decref(*doc);
		return code;
	}
	return 0;
}
