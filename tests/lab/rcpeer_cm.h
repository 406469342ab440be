/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management of the lab's peer: the MADs that make and end an RC connection, as the
 * RDMA CM of Linux lays them out (IBTA vol. 1, 12.6; include/rdma/ibta_vol1_c12.h).
 */
#ifndef RCPEER_CM_H
#define RCPEER_CM_H

#include "rcpeer_frame.h"

enum {
	CM_QKEY = 0x80010000,
	CM_SERVICE_PREFIX_TCP = 0x01060000, /* RDMA_PS_TCP; the port is in the low 16 bits */
	CM_TIMEOUT_CODE = 20,		    /* 4.096 us * 2^20: about 4.3 s */
	ACK_TIMEOUT_CODE = 15,		    /* 134 ms */
	CM_RETRY_COUNT = 7,
	CM_RETRY_MS = 250,
	CM_RETRIES_MAX = 40,
	CM_DREQ_PATIENCE_MS = 2000, /* the responder may be gone already */
};

/* Byte offsets in the MAD. */
enum {
	MAD_TID = 8,
	CM_LOCAL_ID = 24,
	CM_REMOTE_ID = 28,
	REQ_SERVICE_ID = 32,
	REQ_CA_GUID = 40,
	REQ_LOCAL_QPN = 56,
	REQ_RESPONDER_RESOURCES = 59,
	REQ_INITIATOR_DEPTH = 63,
	REQ_TIMEOUT_TRANSPORT = 67, /* response timeout; transport RC is 0 in bits 2-1 */
	REQ_STARTING_PSN = 68,
	REQ_RETRIES = 71, /* response timeout of this end, retries */
	REQ_PKEY = 72,
	REQ_PATH_MTU = 74, /* and RNR retries */
	REQ_MAX_CM_RETRIES = 75,
	REQ_LOCAL_LID = 76,
	REQ_REMOTE_LID = 78,
	REQ_LOCAL_GID = 80,
	REQ_REMOTE_GID = 96,
	REQ_FLOW_LABEL = 112,
	REQ_TRAFFIC_CLASS = 116,
	REQ_HOP_LIMIT = 117,
	REQ_ACK_TIMEOUT = 119,
	REQ_PRIVATE = 164,
	REP_LOCAL_QPN = 36,
	REP_STARTING_PSN = 44,
	REP_RESPONDER_RESOURCES = 48,
	REP_INITIATOR_DEPTH = 49,
	REP_RETRIES = 51,
	REP_CA_GUID = 52,
	DREQ_REMOTE_QPN = 32,
	/* RDMA-CM's own header, in the private data of a REQ */
	RDMACM_IP_VERSION = REQ_PRIVATE + 1,
	RDMACM_SRC_PORT = REQ_PRIVATE + 2,
	RDMACM_SRC_ADDR = REQ_PRIVATE + 4,
	RDMACM_DST_ADDR = REQ_PRIVATE + 20,
};

/* One end of a connection as CM sees it. */
struct cm_end {
	__u32 local_id, remote_id;
	__u64 tid;
	__u32 qpn, peer_qpn;
	__u32 psn; /* the first that this end sends */
	__u16 service_port;
	unsigned int mtu_bytes;
};

/* Path MTU code of IBTA: 256 is 1, 4096 is 5. */
static __u8 cm_mtu_code(unsigned int mtu_bytes)
{
	__u8 code = 1;

	while (mtu_bytes > 256) {
		mtu_bytes /= 2;
		code++;
	}
	return code;
}

/* An EUI-64 of our own making: locally administered, told apart by the address. */
static __u64 cm_ca_guid(const __be32 addr[4])
{
	return 0x0200000000000000ull | WIRE_NTOHL(addr[3]);
}

/* RDMA-CM's header carries an IPv4 address in the last four of 16 zeroed bytes, a GID mapped. */
static void cm_put_ip(__u8 *at, const __be32 addr[4])
{
	if (address_is_ipv4(addr))
		memcpy(at + 12, &addr[3], 4);
	else
		memcpy(at, addr, 16);
}

static void cm_write_req(__u8 *mad, const struct cm_end *end, const struct peer_path *path)
{
	put_be64(mad + REQ_SERVICE_ID, CM_SERVICE_PREFIX_TCP | end->service_port);
	put_be64(mad + REQ_CA_GUID, cm_ca_guid(path->src));
	put_be24(mad + REQ_LOCAL_QPN, end->qpn);
	mad[REQ_RESPONDER_RESOURCES] = 1;
	mad[REQ_INITIATOR_DEPTH] = 1;
	mad[REQ_TIMEOUT_TRANSPORT] = CM_TIMEOUT_CODE << 3;
	put_be24(mad + REQ_STARTING_PSN, end->psn);
	mad[REQ_RETRIES] = CM_TIMEOUT_CODE << 3 | CM_RETRY_COUNT;
	put_be16(mad + REQ_PKEY, PKEY_DEFAULT);
	mad[REQ_PATH_MTU] = cm_mtu_code(end->mtu_bytes) << 4 | CM_RETRY_COUNT;
	mad[REQ_MAX_CM_RETRIES] = 15 << 4;
	put_be16(mad + REQ_LOCAL_LID, 0xffff);
	put_be16(mad + REQ_REMOTE_LID, 0xffff);
	memcpy(mad + REQ_LOCAL_GID, path->src, 16);
	memcpy(mad + REQ_REMOTE_GID, path->dst, 16);
	if (path_l3(path) == L3_IPV6)
		put_be32(mad + REQ_FLOW_LABEL, IPV6_FLOW_LABEL << 12);
	mad[REQ_TRAFFIC_CLASS] = path->tos;
	mad[REQ_HOP_LIMIT] = IP_TTL_DEFAULT_HOPS;
	mad[REQ_ACK_TIMEOUT] = ACK_TIMEOUT_CODE << 3;
	mad[RDMACM_IP_VERSION] = path_l3(path) == L3_IPV4 ? 0x40 : 0x60;
	put_be16(mad + RDMACM_SRC_PORT, path->udp_src_port);
	cm_put_ip(mad + RDMACM_SRC_ADDR, path->src);
	cm_put_ip(mad + RDMACM_DST_ADDR, path->dst);
}

static void cm_write_rep(__u8 *mad, const struct cm_end *end, const struct peer_path *path)
{
	put_be24(mad + REP_LOCAL_QPN, end->qpn);
	put_be24(mad + REP_STARTING_PSN, end->psn);
	mad[REP_RESPONDER_RESOURCES] = 1;
	mad[REP_INITIATOR_DEPTH] = 1;
	mad[REP_RETRIES] = CM_RETRY_COUNT << 5;
	put_be64(mad + REP_CA_GUID, cm_ca_guid(path->src));
}

static void cm_write_dreq(__u8 *mad, const struct cm_end *end, const struct peer_path *path)
{
	(void)path;
	put_be24(mad + DREQ_REMOTE_QPN, end->peer_qpn);
}

/* The messages that have a body of their own; RTU and DREP are header and IDs only. */
static const struct {
	__u16 attribute;
	void (*write)(__u8 *mad, const struct cm_end *end, const struct peer_path *path);
} cm_bodies[] = {
	{CM_REQ, cm_write_req},
	{CM_REP, cm_write_rep},
	{CM_DREQ, cm_write_dreq},
};

static void cm_write(__u8 mad[MAD_BYTES], __u16 attribute, const struct cm_end *end,
	const struct peer_path *path)
{
	size_t i;

	memset(mad, 0, MAD_BYTES);
	mad[0] = 1; /* base version */
	mad[1] = MAD_CLASS_CM;
	mad[2] = 2; /* class version */
	mad[3] = 3; /* method Send */
	put_be64(mad + MAD_TID, end->tid);
	put_be16(mad + MAD_ATTRIBUTE_OFFSET, attribute);
	put_be32(mad + CM_LOCAL_ID, end->local_id);
	put_be32(mad + CM_REMOTE_ID, end->remote_id);
	for (i = 0; i < sizeof(cm_bodies) / sizeof(cm_bodies[0]); i++)
		if (cm_bodies[i].attribute == attribute)
			cm_bodies[i].write(mad, end, path);
}

/* Read the CM message in a frame of kind WIRE_CM; false when it holds none that the peer speaks. */
static bool cm_read(const __u8 *frame, const struct wire_frame *f, struct wire_cm *cm)
{
	unsigned int mad_off = f->bth_off + BTH_BYTES + DETH_BYTES;

	return f->icrc_off >= mad_off + MAD_BYTES && wire_read_cm(frame + mad_off, cm);
}

static __u16 cm_service_port(const __u8 *frame, const struct wire_frame *f)
{
	const __u8 *mad = frame + f->bth_off + BTH_BYTES + DETH_BYTES;

	return wire_be32_at(mad + REQ_SERVICE_ID + 4) & 0xffff;
}

#endif
