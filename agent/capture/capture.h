/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames from a capture file or from a port, in the one form that the analysis reads. */
#ifndef QUENCH_CAPTURE_H
#define QUENCH_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/frame.h"
#include "qerr.h"

struct capture;

/*
 * Open a capture file: pcap in both byte orders and both resolutions, or pcapng; plain or gzip;
 * "-" is the standard input. Its link type must be one of link_types, others are refused by name.
 * 0 or a negative errno with *err, which names the file.
 */
int capture_open_file(const char *path, struct capture **out, struct qerr *err);

/*
 * Listen on a port, in promiscuous mode, whole frames, both directions; nothing is sent and
 * nothing changed. Needs CAP_NET_RAW. 0 or a negative errno with *err, which names the port.
 */
int capture_open_port(const char *port, struct capture **out, struct qerr *err);

void capture_close(struct capture *c);

enum capture_step {
	CAPTURE_FRAME,
	CAPTURE_IDLE, /* a port had none for a tenth of a second, or a signal came */
	CAPTURE_END,  /* of the file */
	CAPTURE_FAILED,
};

/*
 * The next frame, valid until the next call. CAPTURE_FAILED fills *err, which says after how many
 * frames: what came before is good.
 */
enum capture_step capture_next(struct capture *c, struct analyze_frame *frame, struct qerr *err);

/* How much of a regular file has been read. False where that is not known. */
bool capture_progress(const struct capture *c, uint64_t *done_bytes, uint64_t *all_bytes);

/* Frames that the kernel had no room for; 0 for a file. */
uint64_t capture_lost(struct capture *c);

/* The name of the link type. */
const char *capture_link_name(const struct capture *c);

/* The speed that a port's driver reports, 0 where it reports none, and for a file. */
uint64_t capture_speed_bps(const char *port);

#endif
