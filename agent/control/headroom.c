// SPDX-License-Identifier: BSD-2-Clause
// Headroom: the models, each a row, each a sum of named addends.
#include "control/headroom.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define GBIT	     1000000000ull
#define QUANTUM_BITS 512
#define KIB	     1024

enum {
	HEADER_BYTES = 14 + 2 * 4, /* Ethernet, two tags */
	WIRE_BYTES = 8 + 4 + 12,   /* preamble, FCS, gap */
	PAUSE_BYTES = 60 + WIRE_BYTES,
};

/* Light in fibre at 0.65 c, the slowest medium in use: Cisco, Nexus 5000, 513 ns for 100 m. */
#define CABLE_NS_PER_M 5.13

static const struct speed {
	uint64_t bps;
	uint32_t response_quanta;
	uint32_t cisco_interface_bits, cisco_response_bits; /* 0: not published */
} speeds[] = {
	{1 * GBIT, 2, 0, 0},
	{10 * GBIT, 67, 8192, 30720},
	{25 * GBIT, 80, 6144, 40960},
	{40 * GBIT, 118, 24576, 60416},
	{50 * GBIT, 147, 0, 0},
	{100 * GBIT, 394, 122880, 201728},
	{200 * GBIT, 453, 0, 0},
	{400 * GBIT, 905, 0, 0},
	{800 * GBIT, 905, 0, 0},
};

static const struct speed *find_speed(uint64_t bps)
{
	for (size_t i = 0; i < ARRAY_SIZE(speeds); i++)
		if (speeds[i].bps == bps)
			return &speeds[i];
	return NULL;
}

uint32_t headroom_response_quanta(uint64_t speed_bps)
{
	const struct speed *speed = find_speed(speed_bps);

	return speed ? speed->response_quanta : 0;
}

uint32_t headroom_frame_bytes(uint32_t mtu_bytes)
{
	return mtu_bytes + HEADER_BYTES;
}

/* What the link carries in that time. */
static double bytes_in(const struct headroom_link *link, double ns)
{
	return ns * (double)link->speed_bps / 8e9;
}

static double meters(const struct headroom_link *link)
{
	return (double)link->cable_mm / 1000;
}

static void add(struct headroom *h, const char *what, double bytes)
{
	h->parts[h->parts_count++] = (struct headroom_part){what, bytes};
}

static double sum(const struct headroom *h)
{
	double bytes = 0;

	for (size_t i = 0; i < h->parts_count; i++)
		bytes += h->parts[i].bytes;
	return bytes;
}

static uint64_t round_up(double bytes, uint64_t unit)
{
	return (uint64_t)ceil(bytes / (double)unit) * unit;
}

/* ---- quench ---- */

static int response_bytes(const struct headroom_link *link, double *bytes, struct qerr *err)
{
	uint32_t quanta = headroom_response_quanta(link->speed_bps);

	if (!link->response_ns && !quanta)
		return qerr_set(err, -EINVAL,
			"802.3 has no response time for this speed, only for 1, 10, 25, 40, 50, "
			"100, 200, 400 and 800 Gbit/s: give the peer's own");
	*bytes = link->response_ns ? bytes_in(link, (double)link->response_ns)
				   : (double)quanta * QUANTUM_BITS / 8;
	return 0;
}

/*
 * XOFF goes out when a frame would lift the queue above the mark, and that frame still goes in; the
 * gate may hold one more that the queue does not show. The way back, from XON to the first frame,
 * takes as long as the way there: with so much below the XON mark the queue does not run dry.
 */
static int compute_quench(const struct headroom_link *link, struct headroom *out, struct qerr *err)
{
	double frame = headroom_frame_bytes(link->mtu_bytes);
	double response = 0, around;
	int code = response_bytes(link, &response, err);

	if (code)
		return code;
	add(out, "a frame that XOFF waits for",
		headroom_frame_bytes(link->port_mtu_bytes) + WIRE_BYTES);
	add(out, "quench's reaction", bytes_in(link, (double)link->reaction_ns));
	add(out, "the XOFF frame", PAUSE_BYTES);
	add(out, "cable, there and back", bytes_in(link, 2 * CABLE_NS_PER_M * meters(link)));
	add(out, "the peer's response", response);
	around = sum(out);
	add(out, "the frame that crosses the mark", frame);
	add(out, "a frame that the gate holds", frame);
	add(out, "the frame that the peer has begun", frame);
	out->bytes = round_up(sum(out), 1);
	out->xon_gap_bytes = 2 * (uint64_t)frame;
	out->buffer_min_bytes = out->bytes + out->xon_gap_bytes + (uint64_t)frame;
	out->buffer_bytes = out->bytes + out->xon_gap_bytes + round_up(around, 1);
	return 0;
}

/* ---- Linux, drivers/net/ethernet/mellanox/mlx5/core/en/port_buffer.c ---- */

#define MLX5_SPEED_MIN_MBIT 40000

static int compute_mlx5(const struct headroom_link *link, struct headroom *out, struct qerr *err)
{
	uint64_t mbit = link->speed_bps / 1000000;
	uint64_t cable = 301 + 216 * (link->cable_mm / 1000) / 100;

	(void)err;
	if (mbit < MLX5_SPEED_MIN_MBIT)
		mbit = MLX5_SPEED_MIN_MBIT;
	add(out, "cable and port, by speed", (double)(cable * mbit / 1000));
	add(out, "frames, 2.72 MTU", 272 * link->mtu_bytes / 100);
	out->bytes = round_up(sum(out), 1);
	out->xon_gap_bytes = link->port_mtu_bytes;
	out->buffer_min_bytes = out->bytes + link->port_mtu_bytes + link->cell_bytes;
	out->buffer_bytes = out->buffer_min_bytes;
	return 0;
}

/* ---- SONiC, sonic-swss cfgmgr/buffer_headroom_mellanox.lua; up to four lanes, no gearbox ---- */

#define SONIC_MAC_PHY_KIB      0.8
#define SONIC_PIPELINE_KIB     18
#define SONIC_LIGHT_M_PER_S    1.98e8
#define SONIC_BYTES_PER_QUANTA 64

/* How much memory the worst frames take for each byte of theirs: every frame starts a cell. */
static double sonic_cells(double cell)
{
	return cell > 128 ? cell / 64 : 2 * cell / (1 + cell);
}

static int compute_sonic(const struct headroom_link *link, struct headroom *out, struct qerr *err)
{
	uint32_t quanta = headroom_response_quanta(link->speed_bps);
	double cells = sonic_cells(link->cell_bytes);
	double cable_ns = 2 * meters(link) * 1e9 / SONIC_LIGHT_M_PER_S;
	double mbit = (double)link->speed_bps / 1e6;

	if (!quanta)
		return qerr_set(err, -EINVAL,
			"this model has speeds of 1, 10, 25, 40, 50, 100, 200, 400 and 800 Gbit/s");
	add(out, "a lossless frame", link->mtu_bytes);
	add(out, "a frame on its way, in cells", link->port_mtu_bytes * cells);
	add(out, "cable, there and back, in cells", cable_ns * mbit / (8 * KIB) * cells);
	add(out, "MAC and PHY, in cells", SONIC_MAC_PHY_KIB * KIB * cells);
	add(out, "the peer's response, in cells", quanta * SONIC_BYTES_PER_QUANTA * cells);
	out->bytes = round_up(sum(out), KIB);
	out->xon_bytes = SONIC_PIPELINE_KIB * KIB;
	out->buffer_min_bytes = out->bytes + out->xon_bytes;
	out->buffer_bytes = out->buffer_min_bytes;
	return 0;
}

/* ---- Cisco, "Detecting, Troubleshooting, and Preventing Congestion in Storage Networks", 7 ----
 */

#define CISCO_FRAME_OVERHEAD_BITS 160 /* gap and preamble */
#define CISCO_PAUSE_BITS	  672
#define CISCO_NS_PER_M		  5

static double cisco_frame_bits(uint32_t bytes)
{
	return 8.0 * bytes + CISCO_FRAME_OVERHEAD_BITS;
}

static int compute_cisco(const struct headroom_link *link, struct headroom *out, struct qerr *err)
{
	const struct speed *speed = find_speed(link->speed_bps);

	if (!speed || !speed->cisco_interface_bits)
		return qerr_set(err, -EINVAL, "this model has speeds of 10, 25, 40 and 100 Gbit/s");
	add(out, "the longest frame, XOFF behind it", cisco_frame_bits(link->port_mtu_bytes) / 8);
	add(out, "the XOFF frame", CISCO_PAUSE_BITS / 8.0);
	add(out, "both interfaces", 2 * speed->cisco_interface_bits / 8.0);
	add(out, "cable, there and back", bytes_in(link, 2 * CISCO_NS_PER_M * meters(link)));
	add(out, "the peer's response", speed->cisco_response_bits / 8.0);
	add(out, "the last lossless frame", cisco_frame_bits(link->mtu_bytes) / 8);
	out->bytes = round_up(sum(out), 1);
	out->buffer_min_bytes = out->bytes;
	out->buffer_bytes = out->bytes;
	return 0;
}

/* ---- Intel 10 Gbit/s, "from 802.1bb Annex O" in the ixgbe driver's ixgbe_dcb_82599.h ---- */

#define INTEL_PAUSE_BITS      672
#define INTEL_CABLE_BITS      5556 /* 100 m of copper */
#define INTEL_LAYER_BITS      6144
#define INTEL_PCI_BITS	      10000
#define INTEL_CABLE_MAX_MM    100000
#define INTEL_82599_PORT_BITS (4096 + 2048 + 12800)
#define INTEL_X540_PORT_BITS  (8192 + 4096 + 25600)

/* The driver's 1.44, and its rounding. */
static uint64_t intel_scaled(uint64_t bits)
{
	return 36 * bits / 25;
}

static int compute_intel(const struct headroom_link *link, struct headroom *out, uint64_t port_bits,
	struct qerr *err)
{
	uint64_t frame = 8ull * headroom_frame_bytes(link->port_mtu_bytes);
	uint64_t frame_tc = 8ull * headroom_frame_bytes(link->mtu_bytes);
	uint64_t way =
		frame + INTEL_PAUSE_BITS + 2 * INTEL_CABLE_BITS + 2 * port_bits + INTEL_LAYER_BITS;
	uint64_t low = 2 * (2 * frame_tc + intel_scaled(INTEL_PCI_BITS) + 1);

	if (link->speed_bps != 10 * GBIT || link->cable_mm > INTEL_CABLE_MAX_MM)
		return qerr_set(
			err, -EINVAL, "this model is of 10 Gbit/s and up to 100 m of copper");
	add(out, "the longest frame, XOFF behind it", (double)frame / 8);
	add(out, "the XOFF frame", INTEL_PAUSE_BITS / 8.0);
	add(out, "100 m of copper, there and back", 2 * INTEL_CABLE_BITS / 8.0);
	add(out, "both interfaces", 2 * (double)port_bits / 8);
	add(out, "the layers above", INTEL_LAYER_BITS / 8.0);
	add(out, "a margin of 44 %", (double)(intel_scaled(way) + 1 - way) / 8);
	add(out, "two lossless frames", 2 * (double)frame_tc / 8);
	out->bytes = round_up(sum(out), KIB);
	out->xon_bytes = round_up((double)low / 8, KIB);
	out->buffer_min_bytes = out->bytes + out->xon_bytes;
	out->buffer_bytes = out->buffer_min_bytes;
	return 0;
}

static int compute_82599(const struct headroom_link *link, struct headroom *out, struct qerr *err)
{
	return compute_intel(link, out, INTEL_82599_PORT_BITS, err);
}

static int compute_x540(const struct headroom_link *link, struct headroom *out, struct qerr *err)
{
	return compute_intel(link, out, INTEL_X540_PORT_BITS, err);
}

/* ---- the table ---- */

const struct headroom_model headroom_models[] = {
	{"quench", "a port whose queues quench keeps",
		HEADROOM_PORT_MTU | HEADROOM_REACTION | HEADROOM_RESPONSE, 0, 0, compute_quench},
	{"mlx5", "Linux's driver for ConnectX", HEADROOM_PORT_MTU | HEADROOM_CELL, 9216, 128,
		compute_mlx5},
	{"sonic", "SONiC on Spectrum", HEADROOM_PORT_MTU | HEADROOM_CELL, 9100, 144, compute_sonic},
	{"cisco", "the sum in Cisco's book on congestion", HEADROOM_PORT_MTU, 9216, 0,
		compute_cisco},
	{"intel-82599", "Linux's driver for Intel 82599, 10 Gbit/s", HEADROOM_PORT_MTU, 0, 0,
		compute_82599},
	{"intel-x540", "the same for X540, 10GBASE-T", HEADROOM_PORT_MTU, 0, 0, compute_x540},
};

const size_t headroom_models_count = ARRAY_SIZE(headroom_models);

const struct headroom_model *headroom_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(headroom_models); i++)
		if (!strcmp(headroom_models[i].name, name))
			return &headroom_models[i];
	return NULL;
}

int headroom_compute(const struct headroom_model *model, const struct headroom_link *link,
	struct headroom *out, struct qerr *err)
{
	struct headroom_link whole = *link;

	if (!whole.port_mtu_bytes)
		whole.port_mtu_bytes = model->port_mtu_bytes;
	if (whole.port_mtu_bytes < whole.mtu_bytes && !link->port_mtu_bytes)
		whole.port_mtu_bytes = whole.mtu_bytes;
	if (!whole.cell_bytes)
		whole.cell_bytes = model->cell_bytes;
	*out = (struct headroom){};
	return model->compute(&whole, out, err);
}

int headroom_marks(
	const struct headroom *h, uint64_t buffer_bytes, uint64_t *xoff_bytes, uint64_t *xon_bytes)
{
	if (buffer_bytes < h->buffer_min_bytes)
		return -ERANGE;
	*xoff_bytes = buffer_bytes - h->bytes;
	*xon_bytes = h->xon_gap_bytes ? *xoff_bytes - h->xon_gap_bytes : h->xon_bytes;
	return 0;
}
