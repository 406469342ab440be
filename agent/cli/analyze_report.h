/* SPDX-License-Identifier: BSD-2-Clause */
/* What `quench analyze` gives out: a text, a JSON document, CSV files and plots. */
#ifndef QUENCH_CLI_ANALYZE_REPORT_H
#define QUENCH_CLI_ANALYZE_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "analyze/analyze.h"
#include "qerr.h"

/* What was read, for the head of a report. */
struct analyze_source {
	const char *name; /* the file or port */
	const char *link;
	bool is_port;
	bool complete;	    /* read to its end */
	uint64_t speed_bps; /* 0: not known */
};

/*
 * Read the policy at path for the analysis. Frames are classed as on its port of that name, and
 * where it has none (or port is NULL) by DSCP, or else by VLAN priority. EXIT_OK, or EXIT_POLICY or
 * EXIT_FAILED with the faults on stderr.
 */
int analyze_policy_load(const char *path, const char *port, struct analyze_policy *out);

/* The flows that carried frames, busiest first. The caller frees the array; NULL without memory. */
struct analyze_flow **analyze_busiest(const struct analyze *a, size_t *count);

/* Bits a second between the flow's first and last frame; 0 when that is no time. */
uint64_t analyze_rate_bps(const struct analyze_flow *flow);

/* The summary that a person reads. Returns 0 or -ENOMEM. */
int analyze_print(FILE *out, const struct analyze *a, const struct analyze_source *source);

/* The document of --json, the caller's to release; NULL without memory. */
json_t *analyze_json(const struct analyze *a, const struct analyze_source *source);

/* The time series as CSV: a header line, then a line a row (a series_emit; arg is the FILE). */
void analyze_csv_header(FILE *out);
void analyze_csv_row(void *arg, const struct series_row *row);

/* Every frame as CSV: a header line, then a line a frame. */
void analyze_frames_header(FILE *out);
void analyze_frames_row(
	FILE *out, const struct analyze_frame *frame, const struct analyze_seen *seen);

/* A gnuplot that waits for its script. */
struct plot;

/*
 * Start gnuplot in directory (made if need be) and open the time series there that it will draw.
 * -ENOENT and a hint in *err when gnuplot is not installed.
 */
int plot_start(const char *directory, struct plot **out, struct qerr *err);

/* Where the time series is to be written to. */
FILE *plot_series(struct plot *p);

/* Draw one PNG a quantity, each with the busiest flows, and wait for gnuplot's end. */
int plot_finish(struct plot *p, const struct analyze *a, struct qerr *err);

/* Free; gnuplot ends without having drawn if plot_finish() was not called. NULL is allowed. */
void plot_free(struct plot *p);

#endif
