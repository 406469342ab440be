// SPDX-License-Identifier: BSD-2-Clause
// The agent's control socket: one command word a connection, one JSON document back.
#include "observe/control.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { COMMAND_MAX = 64, CLIENT_SECONDS = 1, ANSWER_SECONDS = 30 };

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

/* Read one line; false when the client is silent, gone or long-winded. */
static bool read_command(int fd, char *command)
{
	size_t len = 0;
	ssize_t n;

	while (len < COMMAND_MAX - 1) {
		n = read(fd, command + len, COMMAND_MAX - 1 - len);
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

/* Through a buffer: jansson writes a token at a time. */
static void answer(int fd, const json_t *doc)
{
	FILE *out = fdopen(dup(fd), "w");

	if (!out)
		return;
	json_dumpf(doc, out, JSON_INDENT(2));
	fclose(out);
}

void control_serve(int listen_fd, control_fn fn, void *arg)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	char command[COMMAND_MAX];
	json_t *doc = NULL;

	if (fd < 0)
		return;
	limit_time(fd, CLIENT_SECONDS);
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
