// SPDX-License-Identifier: BSD-2-Clause
// The plots of `quench analyze`: a gnuplot beside us, which draws the time series at the end.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/analyze_report.h"

enum { PLOT_FLOWS_MAX = 8 };

#define SERIES_FILE "series.csv"

extern char **environ;

struct plot {
	char directory[4096];
	FILE *series, *script;
	pid_t pid;
};

/* One PNG a row. Columns as in analyze_csv_header(). */
static const struct {
	const char *file, *title, *value;
	bool whole_only; /* a quantity of the link, not of a flow */
} plots[] = {
	{"rate.png", "rate, Mbit/s", "$8/1e6", false},
	{"ce.png", "frames marked CE, per interval", "$9", false},
	{"cnp.png", "CNPs, per interval", "$10", false},
	{"pause.png", "XOFFs, per interval", "$11", true},
};

static int fail(struct qerr *err, const char *directory, const char *what, int code)
{
	return qerr_set(err, -code, "%s%s: %s", directory, what, strerror(code));
}

static int open_series(struct plot *p, struct qerr *err)
{
	int directory, fd;

	if (mkdir(p->directory, 0777) && errno != EEXIST)
		return fail(err, p->directory, "", errno);
	directory = open(p->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return fail(err, p->directory, "", errno);
	fd = openat(directory, SERIES_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	close(directory);
	p->series = fd < 0 ? NULL : fdopen(fd, "w");
	if (!p->series) {
		fail(err, p->directory, "/" SERIES_FILE, errno);
		if (fd >= 0)
			close(fd);
		return -EIO;
	}
	analyze_csv_header(p->series);
	return 0;
}

/*
 * gnuplot in that directory, its script from our pipe, what it says to our stderr; in a process
 * group of its own, so that the Ctrl-C that ends our listening does not end it.
 */
static int spawn_gnuplot(struct plot *p, struct qerr *err)
{
	char *const argv[] = {"gnuplot", "-", NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int ends[2], code;

	if (pipe2(ends, O_CLOEXEC))
		return fail(err, "gnuplot", "", errno);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
	posix_spawn_file_actions_addchdir_np(&actions, p->directory);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
	code = posix_spawnp(&p->pid, argv[0], &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[0]);
	p->script = fdopen(ends[1], "w");
	if (!p->script)
		close(ends[1]);
	if (code == ENOENT)
		return qerr_set(err, -ENOENT,
			"gnuplot is not installed, and --plot needs it; --csv does not");
	return code || !p->script ? fail(err, "gnuplot", "", code ?: errno) : 0;
}

int plot_start(const char *directory, struct plot **out, struct qerr *err)
{
	struct plot *p = calloc(1, sizeof(*p));
	int code;

	if (!p)
		return qerr_set(err, -ENOMEM, "out of memory");
	if (strlen(directory) >= sizeof(p->directory)) {
		free(p);
		return fail(err, directory, "", ENAMETOOLONG);
	}
	strcpy(p->directory, directory);
	code = open_series(p, err);
	if (!code)
		code = spawn_gnuplot(p, err);
	if (code) {
		plot_free(p);
		return code;
	}
	*out = p;
	return 0;
}

FILE *plot_series(struct plot *p)
{
	return p->series;
}

/* A line of the plot command. Rows of others are no numbers, and the lines go past them. */
static void write_curve(FILE *script, const char *value, uint64_t flow, const char *title)
{
	fprintf(script,
		", '" SERIES_FILE "' skip 1 using ($2==%" PRIu64 "?$1-start:NaN):($2==%" PRIu64
		"?%s:NaN) with steps lw 2 title '%s'",
		flow, flow, value, title);
}

static void write_plot(FILE *script, const struct analyze *a, size_t row,
	struct analyze_flow **flows, size_t count)
{
	char src[ANALYZE_ADDRESS_BYTES], dst[ANALYZE_ADDRESS_BYTES], title[160];

	fprintf(script, "set output '%s'\nset ylabel '%s'\nplot 1 lt nodraw notitle",
		plots[row].file, plots[row].title);
	write_curve(script, plots[row].value, SERIES_WHOLE_CAPTURE, "all");
	for (size_t i = 0; i < count && !plots[row].whole_only; i++) {
		snprintf(title, sizeof(title), "%s > %s QP 0x%06x",
			analyze_address(flows[i]->key.src, src),
			analyze_address(flows[i]->key.dst, dst), flows[i]->key.dst_qpn);
		write_curve(script, plots[row].value, table_index(&a->flows, flows[i]) + 1, title);
	}
	fprintf(script, "\nunset output\n");
}

static void write_script(
	FILE *script, const struct analyze *a, struct analyze_flow **flows, size_t count)
{
	uint64_t start_ns = a->series.first_ns;
	uint64_t end_ns = a->last_ns > start_ns ? a->last_ns - start_ns : 1;

	fprintf(script,
		"set terminal pngcairo size 1200,600 noenhanced\n"
		"set datafile separator ','\n"
		"set datafile missing NaN\n"
		"set key outside below\n"
		"set grid\n"
		"set xlabel 'seconds'\n"
		"set xrange [0:%g]\n"
		"set yrange [0:*]\n"
		"start = %" PRIu64 ".%09" PRIu64 "\n",
		(double)end_ns / 1e9, start_ns / 1000000000, start_ns % 1000000000);
	for (size_t row = 0; row < sizeof(plots) / sizeof(plots[0]); row++)
		write_plot(script, a, row, flows, count < PLOT_FLOWS_MAX ? count : PLOT_FLOWS_MAX);
}

static int end_stream(FILE **stream)
{
	bool bad = ferror(*stream);

	bad |= fclose(*stream) != 0;
	*stream = NULL;
	return bad ? -EIO : 0;
}

static int wait_gnuplot(struct plot *p)
{
	int status;
	pid_t pid = p->pid;

	p->pid = 0;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EIO;
}

int plot_finish(struct plot *p, const struct analyze *a, struct qerr *err)
{
	size_t count;
	struct analyze_flow **flows = analyze_busiest(a, &count);
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);
	int code = end_stream(&p->series), failed;

	if (code)
		qerr_set(err, code, "%s/" SERIES_FILE ": cannot be written", p->directory);
	if (!code && a->frames)
		write_script(p->script, a, flows, flows ? count : 0);
	failed = end_stream(&p->script); /* gnuplot ends when its script does */
	failed |= wait_gnuplot(p);
	if (failed && !code)
		code = qerr_set(err, -EIO, "gnuplot failed in %s", p->directory);
	signal(SIGPIPE, before);
	free(flows);
	return code;
}

void plot_free(struct plot *p)
{
	if (!p)
		return;
	if (p->series)
		fclose(p->series);
	if (p->script)
		fclose(p->script);
	if (p->pid > 0)
		wait_gnuplot(p);
	free(p);
}
