// SPDX-License-Identifier: BSD-2-Clause
// The control socket: answers at once and in parts, and clients that are slow, silent or too many.
// Server and clients live in this one thread: a server that waited for a client would never end.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "observe/control.h"

enum {
	PARTS = 500,
	PART_BYTES = 10000,
	TAKEN_MAX = 100, /* parts that fit into a socket that nobody reads */
	WAIT_MS = 5000,
	CLIENTS_ALLOWED = 16,
};

static char directory[] = "/tmp/quench-control-XXXXXX";
static char path[64];
static struct control *control;
static int parts_made;

struct state {
	int left;
};

/* Lines of PART_BYTES, numbered from PARTS down. */
static bool write_part(void *arg, FILE *out)
{
	struct state *state = arg;

	fprintf(out, "%0*d\n", PART_BYTES - 1, state->left);
	parts_made++;
	return --state->left;
}

static bool answer(void *arg, const char *command, struct control_answer *answer)
{
	struct state *state;

	(void)arg;
	if (!strcmp(command, "short"))
		answer->doc = json_pack("{s:i}", "answer", 42);
	if (strcmp(command, "long"))
		return answer->doc;
	state = malloc(sizeof(*state));
	assert_non_null(state);
	state->left = PARTS;
	*answer = (struct control_answer){.part = write_part, .state = state};
	return true;
}

static int open_control(void **state)
{
	struct qerr err = {};

	(void)state;
	parts_made = 0;
	if (control_open(&control, path, answer, NULL, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return -1;
	}
	return 0;
}

static int close_control(void **state)
{
	(void)state;
	control_close(control);
	return 0;
}

static int make_directory(void **state)
{
	(void)state;
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/socket", directory);
	return 0;
}

static int remove_directory(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(directory);
}

static uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

/* Serve while there is something to do, as the agent's loop does. */
static void serve(int patience_ms)
{
	struct pollfd fd = {.fd = control_fd(control), .events = POLLIN};

	if (poll(&fd, 1, patience_ms) > 0)
		control_serve(control);
}

static int ask(const char *text)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, path);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* Serve until the client's answer is at its end; how many bytes of it, the first in *begin. */
static size_t take_all(int fd, char *begin, size_t begin_bytes)
{
	uint64_t deadline_ms = clock_ms() + WAIT_MS;
	static char buf[65536];
	size_t sum = 0;
	ssize_t n;

	while (clock_ms() < deadline_ms) {
		serve(1);
		n = recv(fd, buf, sizeof(buf), 0);
		if (!n || (n < 0 && errno != EAGAIN))
			break;
		if (n < 0)
			continue;
		for (ssize_t i = 0; i < n && sum + i + 1 < begin_bytes; i++)
			begin[sum + i] = buf[i];
		sum += n;
	}
	if (begin_bytes)
		begin[sum < begin_bytes ? sum : begin_bytes - 1] = '\0';
	close(fd);
	return sum;
}

static void command_is_answered_by_its_document(void **state)
{
	char text[64];

	(void)state;
	take_all(ask("short\n"), text, sizeof(text));
	assert_string_equal(text, "{\n  \"answer\": 42\n}");
}

static void unknown_command_is_told(void **state)
{
	char text[64];

	(void)state;
	take_all(ask("nonsense\n"), text, sizeof(text));
	assert_non_null(strstr(text, "unknown command"));
}

static void long_answer_comes_whole(void **state)
{
	(void)state;
	assert_int_equal(take_all(ask("long\n"), NULL, 0), PARTS * PART_BYTES);
	assert_int_equal(parts_made, PARTS);
}

/* What a client does not take is not made, and others need not wait for it. */
static void client_that_does_not_read_costs_little_and_holds_nobody_up(void **state)
{
	int slow = ask("long\n");
	char text[64];

	(void)state;
	for (int i = 0; i < 200; i++)
		serve(1);
	assert_in_range(parts_made, 1, TAKEN_MAX);
	take_all(ask("short\n"), text, sizeof(text));
	assert_non_null(strstr(text, "42"));
	assert_int_equal(take_all(slow, NULL, 0), PARTS * PART_BYTES);
}

static void command_in_pieces_is_understood_and_silence_ends(void **state)
{
	int pieces = ask("sho"), silent = ask("s");
	uint64_t started_ms = clock_ms();
	char text[64];

	(void)state;
	serve(100);
	assert_int_equal(send(pieces, "rt\n", 3, 0), 3);
	take_all(pieces, text, sizeof(text));
	assert_non_null(strstr(text, "42"));
	assert_true(clock_ms() - started_ms < 900);
	assert_int_equal(take_all(silent, NULL, 0), 0);
	assert_in_range(clock_ms() - started_ms, 900, 2000);
}

static void command_without_end_is_let_go(void **state)
{
	char endless[200];

	(void)state;
	memset(endless, 'x', sizeof(endless));
	endless[sizeof(endless) - 1] = '\0';
	assert_int_equal(take_all(ask(endless), NULL, 0), 0);
}

static void one_client_too_many_is_turned_away(void **state)
{
	int fds[CLIENTS_ALLOWED], one_more;
	char text[64];

	(void)state;
	for (int i = 0; i < CLIENTS_ALLOWED; i++) {
		fds[i] = ask("s");
		serve(100);
	}
	one_more = ask("short\n");
	assert_int_equal(take_all(one_more, NULL, 0), 0);
	assert_int_equal(send(fds[0], "hort\n", 5, 0), 5);
	take_all(fds[0], text, sizeof(text));
	assert_non_null(strstr(text, "42"));
	for (int i = 1; i < CLIENTS_ALLOWED; i++)
		close(fds[i]);
}

static void client_that_goes_is_forgotten(void **state)
{
	(void)state;
	for (int i = 0; i < 3 * CLIENTS_ALLOWED; i++) {
		close(ask("long\n"));
		for (int n = 0; n < 10; n++)
			serve(1);
	}
	assert_int_equal(take_all(ask("long\n"), NULL, 0), PARTS * PART_BYTES);
}

#define control_test(name) cmocka_unit_test_setup_teardown(name, open_control, close_control)

int main(void)
{
	const struct CMUnitTest tests[] = {
		control_test(command_is_answered_by_its_document),
		control_test(unknown_command_is_told),
		control_test(long_answer_comes_whole),
		control_test(client_that_does_not_read_costs_little_and_holds_nobody_up),
		control_test(command_in_pieces_is_understood_and_silence_ends),
		control_test(command_without_end_is_let_go),
		control_test(one_client_too_many_is_turned_away),
		control_test(client_that_goes_is_forgotten),
	};

	return cmocka_run_group_tests_name("unit_control", tests, make_directory, remove_directory);
}
