// SPDX-License-Identifier: BSD-2-Clause
// What takes the whole capture to judge: rules over flows, and the findings in words.
#include "analyze/analyze.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyze/follow.h"
#include "analyze/infiniband.h"

enum {
	ALL_CE_FRAMES_MIN = 100, /* fewer may all be marked by chance */
	WHO_BYTES = 2 * ANALYZE_ADDRESS_BYTES + 32,
};

/* Both frames that show it; the second may be 0. */
struct proof {
	uint64_t frame, other_frame;
};

static bool over_ip(const struct analyze_flow *flow)
{
	return flow->versions & (1 << L3_IPV4 | 1 << L3_IPV6);
}

static uint64_t ect_frames(const struct analyze_flow *flow)
{
	return flow->data_ecn[1] + flow->data_ecn[2] + flow->data_ecn[3];
}

static uint64_t first_ect_frame(const struct analyze_flow *flow)
{
	uint64_t first = 0;

	for (int ecn = 1; ecn < 4; ecn++)
		if (flow->data_ecn_frame[ecn] && (!first || flow->data_ecn_frame[ecn] < first))
			first = flow->data_ecn_frame[ecn];
	return first;
}

static bool only_not_ect(const struct analyze_flow *flow)
{
	return flow->data_ecn[0] && !ect_frames(flow);
}

static bool only_ect(const struct analyze_flow *flow)
{
	return !flow->data_ecn[0] && ect_frames(flow);
}

static bool is_not_ect(
	const struct analyze *a, const struct analyze_flow *flow, struct proof *proof)
{
	(void)a;
	proof->frame = flow->data_ecn_frame[0];
	return over_ip(flow) && only_not_ect(flow);
}

/* A QP that had two connections may have had two settings. */
static bool is_bleached(
	const struct analyze *a, const struct analyze_flow *flow, struct proof *proof)
{
	const struct analyze_flow *reverse = analyze_reverse(a, flow);

	if (!over_ip(flow) || flow->reused || !flow->data_ecn[0])
		return false;
	proof->frame = flow->data_ecn_frame[0];
	if (ect_frames(flow)) {
		proof->other_frame = first_ect_frame(flow);
		return true;
	}
	if (!reverse || reverse->reused || !only_ect(reverse))
		return false;
	proof->other_frame = first_ect_frame(reverse);
	return true;
}

static bool is_all_ce(const struct analyze *a, const struct analyze_flow *flow, struct proof *proof)
{
	uint64_t ce = flow->data_ecn[ECN_CE];

	(void)a;
	proof->frame = flow->data_ecn_frame[ECN_CE];
	return over_ip(flow) && ce >= ALL_CE_FRAMES_MIN &&
	       ce == flow->data_ecn[0] + ect_frames(flow);
}

static bool is_tunnel_not_ect(
	const struct analyze *a, const struct analyze_flow *flow, struct proof *proof)
{
	(void)a;
	proof->frame = flow->first_frame;
	return flow->outer_ecn[ECN_NOT_ECT] && only_ect(flow);
}

static bool is_dscp_asymmetric(
	const struct analyze *a, const struct analyze_flow *flow, struct proof *proof)
{
	const struct analyze_flow *reverse = analyze_reverse(a, flow);

	if (!reverse || reverse <= flow || flow->reused || reverse->reused)
		return false;
	proof->frame = flow->first_frame;
	proof->other_frame = reverse->first_frame;
	return flow->dscps && reverse->dscps && flow->dscps != reverse->dscps;
}

/* The way back must be in the capture, or a missing CNP says nothing. */
static bool is_ce_without_cnp(
	const struct analyze *a, const struct analyze_flow *flow, struct proof *proof)
{
	const struct analyze_host *back = analyze_host_back(a, flow);

	proof->frame = flow->data_ecn_frame[ECN_CE];
	return over_ip(flow) && flow->data_ecn[ECN_CE] && back && back->packets && !back->cnps;
}

static bool is_unclassed(
	const struct analyze *a, const struct analyze_flow *flow, struct proof *proof)
{
	(void)a;
	proof->frame = flow->unclassed_frame;
	return flow->unclassed_frame;
}

static bool is_lossy(const struct analyze *a, const struct analyze_flow *flow, struct proof *proof)
{
	(void)a;
	proof->frame = flow->lossy_frame;
	return flow->lossy_frame;
}

static bool shows_mtu(const struct analyze *a, const struct analyze_flow *flow, struct proof *proof)
{
	(void)a;
	proof->frame = flow->first_frame;
	return flow->path_mtu_bytes;
}

/* One row a finding that is true or not of a flow. */
static const struct {
	enum finding_id id;
	bool (*holds)(const struct analyze *, const struct analyze_flow *, struct proof *);
} flow_rules[] = {
	{FINDING_NOT_ECT, is_not_ect},
	{FINDING_ECN_BLEACHED, is_bleached},
	{FINDING_ECN_ALL_CE, is_all_ce},
	{FINDING_TUNNEL_NOT_ECT, is_tunnel_not_ect},
	{FINDING_DSCP_ASYMMETRY, is_dscp_asymmetric},
	{FINDING_ROCE_UNCLASSED, is_unclassed},
	{FINDING_ROCE_LOSSY, is_lossy},
	{FINDING_CE_WITHOUT_CNP, is_ce_without_cnp},
	{FINDING_PATH_MTU, shows_mtu},
};

static void judge_flow(struct analyze *a, struct analyze_flow *flow)
{
	for (size_t i = 0; i < sizeof(flow_rules) / sizeof(flow_rules[0]); i++) {
		struct proof proof = {};

		if (!flow_rules[i].holds(a, flow, &proof))
			continue;
		analyze_note(a, flow_rules[i].id, proof.frame, flow);
		evidence_cite(&a->evidence[flow_rules[i].id], proof.other_frame);
	}
}

void analyze_finish(struct analyze *a)
{
	for (uint32_t i = 0; i < a->pausers.count; i++)
		pause_finish(table_at(&a->pausers, i), a->last_ns, a->quantum_ps);
	series_finish(&a->series, &a->flows);
	follow_finish(a);
	for (uint32_t i = 0; i < a->flows.count; i++) {
		struct analyze_flow *flow = analyze_flow_at(a, i);
		struct analyze_flow *about = analyze_reverse(a, flow);

		if (about)
			about->cnp += flow->cnp_carried;
	}
	for (uint32_t i = 0; i < a->flows.count; i++)
		judge_flow(a, analyze_flow_at(a, i));
	if (!a->kinds[WIRE_PFC])
		a->evidence[FINDING_LINK_PAUSE_BESIDE_PFC].count = 0;
}

/* Words */

const char *analyze_address(const __be32 addr[4], char buf[ANALYZE_ADDRESS_BYTES])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	bool v4 = !memcmp(addr, mapped, sizeof(mapped));
	uint16_t lid;

	if (infiniband_is_lid(addr, &lid))
		snprintf(buf, ANALYZE_ADDRESS_BYTES, "LID %u", lid);
	else
		inet_ntop(
			v4 ? AF_INET : AF_INET6, v4 ? &addr[3] : addr, buf, ANALYZE_ADDRESS_BYTES);
	return buf;
}

static void describe_mtu(const struct analyze *a, char *buf, size_t size)
{
	size_t used = 0;

	for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2) {
		uint32_t flows = 0;

		for (uint32_t i = 0; i < a->flows.count; i++)
			flows += analyze_flow_at(a, i)->path_mtu_bytes == mtu;
		if (flows && used < size)
			used += snprintf(buf + used, size - used, "%s%u bytes in %u flow%s",
				used ? ", " : "", mtu, flows, flows == 1 ? "" : "s");
	}
}

static void describe_storm(const struct analyze *a, char *buf, size_t size)
{
	const struct pauser *worst = NULL;
	char what[16] = "the link";
	uint64_t longest_ns = 0;
	int row = 0;

	for (uint32_t i = 0; i < a->pausers.count; i++) {
		const struct pauser *p = table_at(&a->pausers, i);

		for (int r = 0; r < PAUSE_ROWS; r++)
			if (p->row[r].longest_ns > longest_ns) {
				longest_ns = p->row[r].longest_ns;
				worst = p;
				row = r;
			}
	}
	if (!worst)
		return;
	if (row < PAUSE_LINK)
		snprintf(what, sizeof(what), "priority %d", row);
	snprintf(buf, size, "%" PRIu64 " ms, by %02x:%02x:%02x:%02x:%02x:%02x for %s",
		longest_ns / 1000000, worst->mac[0], worst->mac[1], worst->mac[2], worst->mac[3],
		worst->mac[4], worst->mac[5], what);
}

/* What {d} stands for. */
static void (*const details[FINDING_COUNT])(const struct analyze *, char *, size_t) = {
	[FINDING_PATH_MTU] = describe_mtu,
	[FINDING_PAUSE_STORM] = describe_storm,
};

/* The flow with most of it, and how many have some. */
static const struct analyze_flow *worst_flow(
	const struct analyze *a, enum finding_id id, uint32_t *flows)
{
	const struct analyze_flow *worst = NULL;

	*flows = 0;
	for (uint32_t i = 0; i < a->flows.count; i++) {
		const struct analyze_flow *flow = analyze_flow_at(a, i);

		if (!flow->noted[id])
			continue;
		++*flows;
		if (!worst || flow->noted[id] > worst->noted[id])
			worst = flow;
	}
	return worst;
}

static void describe_flows(const struct analyze *a, enum finding_id id, char *buf, size_t size)
{
	char src[ANALYZE_ADDRESS_BYTES], dst[ANALYZE_ADDRESS_BYTES], who[WHO_BYTES];
	uint32_t flows;
	const struct analyze_flow *worst = worst_flow(a, id, &flows);

	buf[0] = '\0';
	if (!worst)
		return;
	snprintf(who, sizeof(who), "%s > %s QP 0x%06x", analyze_address(worst->key.src, src),
		analyze_address(worst->key.dst, dst), worst->key.dst_qpn);
	if (flows == 1)
		snprintf(buf, size, " (%s)", who);
	else if (worst->noted[id] == 1)
		snprintf(buf, size, " (%s and others)", who);
	else
		snprintf(buf, size, " (in %u flows, most in %s: %u)", flows, who, worst->noted[id]);
}

void analyze_finding_text(const struct analyze *a, enum finding_id id, char *buf, size_t size)
{
	char detail[256] = "", flows[256];
	size_t used;

	buf[0] = '\0';
	if (!a->evidence[id].count)
		return;
	if (details[id])
		details[id](a, detail, sizeof(detail));
	describe_flows(a, id, flows, sizeof(flows));
	finding_format(id, &a->evidence[id], detail, buf, size);
	used = strlen(buf);
	snprintf(buf + used, size - used, "%s", flows);
}
