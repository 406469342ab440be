// SPDX-License-Identifier: BSD-2-Clause
// The agent's control socket: one command word a connection, one JSON document back.
#include "observe/control.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	CLIENTS_MAX = 16,
	COMMAND_MAX = 64,
	CLIENT_MS = 1000,    /* for its command */
	ANSWER_MS = 5000,    /* to take some more of the answer */
	LOOK_EVERY_MS = 250, /* for clients whose time is over */
	ANSWER_SECONDS = 30, /* that a client waits for the next part of it */
};

struct client {
	int fd; /* -1: none */
	uint64_t deadline_ms;
	size_t command_len;
	char command[COMMAND_MAX];
	bool answering;
	struct control_answer answer;
	char *text; /* the part that is on its way */
	size_t len, sent;
};

struct control {
	int epoll_fd, listen_fd, timer_fd;
	control_fn fn;
	void *arg;
	struct client clients[CLIENTS_MAX];
};

static uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

/* ---- opening and closing ---- */

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

static int listen_at(const char *path, struct qerr *err)
{
	struct sockaddr_un addr;
	int fd = socket_at(path, &addr, err);
	mode_t mask;
	int failed;

	if (fd < 0)
		return fd;
	unlink(path); /* ours: the instance's lock is held */
	mask = umask(0177);
	failed = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, CLIENTS_MAX);
	umask(mask);
	if (failed) {
		int code = -errno;

		close(fd);
		return qerr_set(err, code, "cannot listen at %s: %s", path, strerror(-code));
	}
	return fd;
}

/* What an event is about: of the control itself, or a client. */
static int watch(struct control *control, int how, int fd, uint32_t events, void *about)
{
	struct epoll_event event = {.events = events, .data.ptr = about};

	return epoll_ctl(control->epoll_fd, how, fd, &event);
}

static int open_watches(struct control *control, struct qerr *err)
{
	control->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	control->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (control->epoll_fd < 0 || control->timer_fd < 0 ||
		watch(control, EPOLL_CTL_ADD, control->timer_fd, EPOLLIN, &control->timer_fd) ||
		watch(control, EPOLL_CTL_ADD, control->listen_fd, EPOLLIN, &control->listen_fd))
		return qerr_set(
			err, -errno, "cannot watch the control socket: %s", strerror(errno));
	return 0;
}

int control_open(struct control **out, const char *path, control_fn fn, void *arg, struct qerr *err)
{
	struct control *control = calloc(1, sizeof(*control));
	int code;

	if (!control)
		return qerr_set(err, -ENOMEM, "out of memory");
	control->fn = fn;
	control->arg = arg;
	control->epoll_fd = control->timer_fd = -1;
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		control->clients[i].fd = -1;
	control->listen_fd = code = listen_at(path, err);
	if (code >= 0)
		code = open_watches(control, err);
	if (code < 0) {
		control_close(control);
		return code;
	}
	*out = control;
	return 0;
}

static void let_go(struct client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	json_decref(client->answer.doc);
	free(client->answer.state);
	free(client->text);
	*client = (struct client){.fd = -1};
}

void control_close(struct control *control)
{
	if (!control)
		return;
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		let_go(&control->clients[i]);
	if (control->listen_fd >= 0)
		close(control->listen_fd);
	if (control->timer_fd >= 0)
		close(control->timer_fd);
	if (control->epoll_fd >= 0)
		close(control->epoll_fd);
	free(control);
}

int control_fd(const struct control *control)
{
	return control->epoll_fd;
}

/* ---- serving ---- */

/* Tick while there are clients, and only then. */
static void set_timer(struct control *control, bool on)
{
	const struct timespec every = {.tv_nsec = on ? LOOK_EVERY_MS * 1000000 : 0};
	const struct itimerspec timer = {.it_interval = every, .it_value = every};

	timerfd_settime(control->timer_fd, 0, &timer, NULL);
}

static struct client *free_client(struct control *control)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (control->clients[i].fd < 0)
			return &control->clients[i];
	return NULL;
}

/* One too many is turned away. */
static void welcome(struct control *control)
{
	int fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *client = free_client(control);

	if (fd < 0)
		return;
	if (!client || watch(control, EPOLL_CTL_ADD, fd, EPOLLIN, client)) {
		close(fd);
		return;
	}
	client->fd = fd;
	client->deadline_ms = clock_ms() + CLIENT_MS;
	set_timer(control, true);
}

/* Take in what has come of the command; 0 when its line is whole, -EAGAIN when there is more. */
static int read_command(struct client *client)
{
	size_t room = COMMAND_MAX - 1 - client->command_len;
	ssize_t n = recv(client->fd, client->command + client->command_len, room, 0);
	char *end;

	if (n <= 0)
		return n < 0 ? -errno : -ECONNRESET;
	client->command_len += n;
	end = strchr(client->command, '\n');
	if (!end)
		return client->command_len < COMMAND_MAX - 1 ? -EAGAIN : -EMSGSIZE;
	*end = '\0';
	return 0;
}

/* Write the next part into *text; false when there is none. */
static bool make_part(struct client *client)
{
	struct control_answer *answer = &client->answer;
	FILE *out;

	free(client->text);
	client->text = NULL;
	client->len = client->sent = 0;
	if (answer->doc) {
		client->text = json_dumps(answer->doc, JSON_INDENT(2));
		client->len = client->text ? strlen(client->text) : 0;
		json_decref(answer->doc);
		answer->doc = NULL;
		return client->text;
	}
	out = answer->part ? open_memstream(&client->text, &client->len) : NULL;
	if (!out)
		return false;
	if (!answer->part(answer->state, out))
		answer->part = NULL;
	return !fclose(out);
}

/* Send what the client takes of the part, or of the next one. */
static int send_some(struct client *client)
{
	ssize_t n;

	if (client->sent == client->len && !make_part(client))
		return -EPIPE; /* that was all */
	n = send(client->fd, client->text + client->sent, client->len - client->sent, MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	client->sent += n;
	client->deadline_ms = clock_ms() + ANSWER_MS;
	return client->sent == client->len && !client->answer.part ? -EPIPE : 0;
}

/* What is short is sent at once: after a release nobody serves any more. */
static int start_answer(struct control *control, struct client *client)
{
	client->answering = true;
	if (!control->fn(control->arg, client->command, &client->answer))
		client->answer.doc = json_pack("{s:s}", "error", "unknown command");
	if (watch(control, EPOLL_CTL_MOD, client->fd, EPOLLOUT, client))
		return -errno;
	return send_some(client);
}

static void serve_client(struct control *control, struct client *client)
{
	int code = client->answering ? send_some(client) : read_command(client);

	if (!code && !client->answering)
		code = start_answer(control, client);
	if (code && code != -EAGAIN)
		let_go(client);
}

static void end_the_late(struct control *control)
{
	uint64_t now_ms = clock_ms(), ticks;
	bool some = false;

	if (read(control->timer_fd, &ticks, sizeof(ticks)) < 0)
		return;
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		struct client *client = &control->clients[i];

		if (client->fd >= 0 && now_ms >= client->deadline_ms)
			let_go(client);
		some |= client->fd >= 0;
	}
	if (!some)
		set_timer(control, false);
}

void control_serve(struct control *control)
{
	struct epoll_event events[CLIENTS_MAX + 2];
	int n = epoll_wait(control->epoll_fd, events, CLIENTS_MAX + 2, 0);

	for (int i = 0; i < n; i++) {
		void *about = events[i].data.ptr;

		if (about == &control->listen_fd)
			welcome(control);
		else if (about != &control->timer_fd)
			serve_client(control, about);
	}
	end_the_late(control);
}

/* ---- the client's side ---- */

static void limit_time(int fd, int seconds)
{
	struct timeval limit = {.tv_sec = seconds};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* Send the command; *in is where the answer comes. */
static int start_asking(const char *path, const char *command, FILE **in, struct qerr *err)
{
	struct sockaddr_un addr;
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
	*in = fdopen(fd, "r");
	if (*in)
		return 0;
	close(fd);
	return qerr_set(err, -ENOMEM, "out of memory");
}

int control_ask(const char *path, const char *command, json_t **doc, struct qerr *err)
{
	json_error_t where = {};
	FILE *in;
	int code = start_asking(path, command, &in, err);

	if (code)
		return code;
	*doc = json_loadf(in, 0, &where);
	fclose(in);
	if (!*doc)
		return qerr_set(
			err, -EPROTO, "the agent at %s gave no answer: %s", path, where.text);
	if (json_object_get(*doc, "error")) {
		code = qerr_set(err, -EPROTO, "the agent says: %s",
			json_string_value(json_object_get(*doc, "error")));
		json_decref(*doc);
		return code;
	}
	return 0;
}

int control_ask_lines(const char *path, const char *command, const char *last, control_line_fn fn,
	void *arg, struct qerr *err)
{
	bool whole = false;
	char *line = NULL;
	size_t size = 0;
	FILE *in;
	int code = start_asking(path, command, &in, err);

	if (code)
		return code;
	while (!whole && getline(&line, &size, in) > 0) {
		whole = !strcmp(line, last);
		fn(arg, line);
	}
	free(line);
	fclose(in);
	return whole ? 0 : qerr_set(err, -EPROTO, "the answer of the agent at %s broke off", path);
}
