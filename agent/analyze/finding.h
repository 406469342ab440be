/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Findings: what a reader of a capture should know, in plain words, with the frames that show it.
 * A new finding is a row here and a finding_note() where it is seen, or a flow rule in judge.c.
 */
#ifndef QUENCH_ANALYZE_FINDING_H
#define QUENCH_ANALYZE_FINDING_H

#include <stddef.h>
#include <stdint.h>

enum severity { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_INFO, SEVERITY_COUNT };

/*
 * id, code, severity, text. In the text {n} is the count, {s} the plural's s, {v} the largest value
 * noted, {d} what the finding's detail function writes.
 */
#define FINDINGS(X)                                                                                \
	X(ICRC_BAD, "icrc_bad", ERROR,                                                             \
		"{n} frame{s} carried a wrong ICRC: damaged on the way, or changed by a device "   \
		"that does not know RoCE")                                                         \
	X(NAK_INVALID_REQUEST, "nak_invalid_request", ERROR,                                       \
		"{n} NAK{s} for an invalid request: an operation that the receiver does not "      \
		"allow, or a message longer than its buffer")                                      \
	X(NAK_REMOTE_ACCESS, "nak_remote_access", ERROR,                                           \
		"{n} NAK{s} for a remote access error: wrong R_Key, address or permission")        \
	X(NAK_REMOTE_OPERATIONAL, "nak_remote_operational", ERROR,                                 \
		"{n} NAK{s} for a remote operational error: the responder itself failed")          \
	X(NAK_INVALID_RD_REQUEST, "nak_invalid_rd_request", ERROR,                                 \
		"{n} NAK{s} for an invalid RD request")                                            \
	X(NAK_RESERVED, "nak_reserved", WARNING, "{n} NAK{s} with a code that is not defined")     \
	X(NAK_PSN_SEQUENCE, "nak_psn_sequence", WARNING,                                           \
		"{n} NAK{s} for a PSN out of sequence: the receiver missed frames")                \
	X(RNR_NAK, "rnr_nak", WARNING,                                                             \
		"{n} RNR NAK{s}: the receiver had posted no buffer, and the sender had to wait")   \
	X(RETRANSMISSION, "retransmissions", WARNING, "{n} frame{s} came again: retransmitted")    \
	X(PSN_GAP, "psn_gaps", WARNING,                                                            \
		"PSNs jumped ahead {n} time{s}: frames were lost before the point of capture, or " \
		"the capture does not see all")                                                    \
	X(OUT_OF_ORDER, "out_of_order", WARNING,                                                   \
		"{n} frame{s} came late, behind younger ones: reordered on the way")               \
	X(DUPLICATE, "duplicates", WARNING,                                                        \
		"{n} frame{s} came twice within microseconds, not as a retransmission: the "       \
		"capture sees the same link twice, or a device on the way copies")                 \
	X(ECN_BLEACHED, "ecn_bleached", WARNING,                                                   \
		"{n} flow{s} carried data both ECT and Not-ECT, or of one kind in one direction "  \
		"and of the other in the other: something on the way clears the ECN field")        \
	X(ECN_ALL_CE, "ecn_all_ce", WARNING,                                                       \
		"{n} flow{s} carried CE in every data frame: a sender or switch that sets both "   \
		"ECN bits, not congestion")                                                        \
	X(NOT_ECT, "not_ect", WARNING,                                                             \
		"{n} flow{s} of RoCEv2 data {s:was|were} Not-ECT: switches cannot mark, only "     \
		"drop or pause")                                                                   \
	X(TUNNEL_NOT_ECT, "tunnel_not_ect", WARNING,                                               \
		"{n} flow{s} of ECT data went through a tunnel whose outer header was Not-ECT: "   \
		"switches on its way cannot mark")                                                 \
	X(DSCP_ASYMMETRY, "dscp_asymmetry", WARNING,                                               \
		"{n} QP pair{s} used another DSCP in one direction than in the other")             \
	X(ROCE_UNCLASSED, "roce_unclassed", WARNING,                                               \
		"{n} flow{s} of RoCE data had a DSCP or VLAN priority that the policy puts in "    \
		"no class: best effort")                                                           \
	X(ROCE_LOSSY, "roce_lossy", WARNING,                                                       \
		"{n} flow{s} of RoCE data went in a class of kind lossy: RoCE does badly where "   \
		"frames are dropped")                                                              \
	X(TRUST_DISAGREES, "trust_disagrees", WARNING,                                             \
		"{n} frame{s} of RoCE data had a DSCP and a VLAN priority that mean different "    \
		"classes")                                                                         \
	X(V1_BESIDE_V2, "v1_beside_v2", WARNING,                                                   \
		"{n} pair{s} of hosts spoke RoCEv1 and RoCEv2 beside each other: a GID index "     \
		"that differs between applications")                                               \
	X(CNP_FAST, "cnp_fast", WARNING,                                                           \
		"{n} CNP{s} followed another for the same QP within less than 4 us: no moderation" \
		", or a CNP for every CE frame")                                                   \
	X(CE_WITHOUT_CNP, "ce_without_cnp", WARNING,                                               \
		"{n} flow{s} carried CE, and no CNP came back from the receiver: it has no "       \
		"congestion control, or CNPs take another way")                                    \
	X(CNP_ODD, "cnp_odd", WARNING, "{n} CNP{s} had another length than a CNP has")             \
	X(PAUSE_STORM, "pause_storm", ERROR,                                                       \
		"{n} pause storm{s}: XOFF was renewed without a break for up to {d}")              \
	X(LINK_PAUSE_BESIDE_PFC, "link_pause_beside_pfc", WARNING,                                 \
		"802.3x link pause beside PFC on one link: it stops all priorities ({n} "          \
		"frame{s})")                                                                       \
	X(MAC_CONTROL, "mac_control", WARNING,                                                     \
		"{n} MAC control frame{s} had another opcode, address or length than pause and "   \
		"PFC have: without effect")                                                        \
	X(CM_REJECT, "cm_reject", WARNING, "{n} connection{s} {s:was|were} rejected by the peer")  \
	X(UNKNOWN_OPCODE, "unknown_opcode", WARNING,                                               \
		"{n} frame{s} with a BTH opcode or version that is not defined: not RoCE, or a "   \
		"vendor's own")                                                                    \
	X(TOO_MANY_TAGS, "too_many_tags", WARNING,                                                 \
		"{n} frame{s} carried more VLAN tags than quench reads")                           \
	X(TOO_MANY_HEADERS, "too_many_headers", WARNING,                                           \
		"{n} frame{s} carried more IPv6 extension headers than quench reads")              \
	X(MALFORMED, "malformed", WARNING, "{n} frame{s} with lengths that contradict each other") \
	X(SHORT_FRAME, "short_frame", WARNING,                                                     \
		"{n} RoCE frame{s} ended before the length that the IP header gives")              \
	X(ROCE_FRAGMENT, "roce_fragments", WARNING,                                                \
		"{n} datagram{s} to UDP port 4791 came in IP fragments: RoCE must not be "         \
		"fragmented; the path MTU is smaller than an end believes")                        \
	X(CAPTURE_LOST, "capture_lost", WARNING,                                                   \
		"the capture itself lost {n} frame{s}: gaps in PSNs may be its own")               \
	X(TABLES_FULL, "tables_full", WARNING,                                                     \
		"{n} frame{s} belonged to flows or hosts that found no place in the tables: they " \
		"are counted, but in no flow")                                                     \
	X(MACSEC, "macsec", INFO, "{n} frame{s} {s:was|were} encrypted by MACsec: unreadable")     \
	X(SNAPLEN, "snaplen", INFO,                                                                \
		"{n} frame{s} {s:was|were} cut by the capture, at up to {v} bytes: an ICRC "       \
		"beyond that cannot be verified")                                                  \
	X(PATH_MTU, "path_mtu", INFO, "path MTU in use: {d}")

enum finding_id {
#define X(id, code, severity, text) FINDING_##id,
	FINDINGS(X)
#undef X
		FINDING_COUNT,
	FINDING_NONE = FINDING_COUNT
};

enum { FINDING_FRAMES_MAX = 10 };

/* What stands behind a finding. */
struct evidence {
	uint64_t count;			     /* 0: there is nothing to find */
	uint64_t value;			     /* the largest noted */
	uint64_t frames[FINDING_FRAMES_MAX]; /* the first ones, by number */
	uint32_t frames_count;
};

const char *finding_code(enum finding_id id);
enum severity finding_severity(enum finding_id id);
const char *severity_name(enum severity severity);

/* Count one more, and cite its frame (0: there is none to cite). */
void evidence_note(struct evidence *e, uint64_t frame, uint64_t value);

/* One more frame that shows what has been counted already. */
void evidence_cite(struct evidence *e, uint64_t frame);

/* The frames of both, in their order: the first FINDING_FRAMES_MAX of them are kept in *to. */
void evidence_merge(struct evidence *to, const struct evidence *from);

/* The finding's text with its numbers filled in; detail may be "". */
void finding_format(
	enum finding_id id, const struct evidence *e, const char *detail, char *buf, size_t size);

#endif
