// SPDX-License-Identifier: BSD-2-Clause
// The HTTP endpoint: what it answers, and that clients who say nothing do not keep it from doing
// so.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "observe/http.h"

enum {
	SOME = 40,	/* silent clients */
	TOO_MANY = 300, /* more than are served at a time */
	SOON_MS = 1000,
	IN_TIME_MS = 4000, /* silence is borne for two seconds */
	ANSWER_SECONDS = 10,
};

static struct http *http;
static struct sockaddr_in address;

static void write_metrics(void *arg, FILE *out)
{
	(void)arg;
	fputs("quench_test 1\n", out);
}

/* A port that nobody listens on. */
static uint16_t free_port(void)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	close(fd);
	address = addr;
	return ntohs(addr.sin_port);
}

static int start(void **state)
{
	struct qerr err = {};

	(void)state;
	if (!http_start(&http, "127.0.0.1", free_port(), write_metrics, NULL, &err))
		return 0;
	fprintf(stderr, "%s\n", err.text);
	return -1;
}

static int stop(void **state)
{
	(void)state;
	http_stop(http);
	return 0;
}

static int client(void)
{
	const struct timeval limit = {.tv_sec = ANSWER_SECONDS};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

/* Ask for the path; the first bytes of the answer, "" when there is none. */
static void get(const char *path, char *answer, size_t size)
{
	size_t len = 0;
	int fd = client();
	ssize_t n;

	dprintf(fd, "GET %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n", path);
	while (len < size - 1 && (n = recv(fd, answer + len, size - 1 - len, 0)) > 0)
		len += n;
	answer[len] = '\0';
	close(fd);
}

/* Who is turned away asks again. */
static void assert_metrics_within(uint64_t limit_ms)
{
	const struct timespec pause = {.tv_nsec = 50000000};
	uint64_t started_ms = clock_ms();
	char answer[512];

	do {
		get("/metrics", answer, sizeof(answer));
		if (strstr(answer, "200 OK") && strstr(answer, "quench_test 1\n"))
			return;
		nanosleep(&pause, NULL);
	} while (clock_ms() - started_ms < limit_ms);
	fail_msg("no metrics within %u ms", (unsigned int)limit_ms);
}

static void metrics_are_served_and_nothing_else_is(void **state)
{
	char answer[512];

	(void)state;
	assert_metrics_within(SOON_MS);
	get("/nothing", answer, sizeof(answer));
	assert_non_null(strstr(answer, "404"));
}

static void silent_clients_hold_nobody_up(void **state)
{
	int fds[SOME];

	(void)state;
	for (int i = 0; i < SOME; i++)
		fds[i] = client();
	assert_metrics_within(SOON_MS);
	for (int i = 0; i < SOME; i++)
		close(fds[i]);
}

static void too_many_silent_clients_are_let_go_in_time(void **state)
{
	int fds[TOO_MANY];

	(void)state;
	for (int i = 0; i < TOO_MANY; i++)
		fds[i] = client();
	assert_metrics_within(IN_TIME_MS);
	for (int i = 0; i < TOO_MANY; i++)
		close(fds[i]);
}

#define http_test(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		http_test(metrics_are_served_and_nothing_else_is),
		http_test(silent_clients_hold_nobody_up),
		http_test(too_many_silent_clients_are_let_go_in_time),
	};

	return cmocka_run_group_tests_name("unit_http", tests, NULL, NULL);
}
