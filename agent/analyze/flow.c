// SPDX-License-Identifier: BSD-2-Clause
// What a frame does, and how PSNs run.
#include "analyze/flow.h"

#include <string.h>

enum { SEEN_BITS = 64 };

enum wire_operation operation_of(uint8_t opcode)
{
	return (enum wire_operation)__builtin_ctz(wire_opcode(opcode)->operation);
}

const char *operation_name(enum wire_operation operation)
{
	static const char *const names[OPERATION_COUNT] = {
#define X(id, name) [OPERATION_##id] = name,
		WIRE_OPERATIONS(X)
#undef X
	};

	return names[operation];
}

bool operation_is_data(enum wire_operation operation)
{
	return operation == OPERATION_SEND || operation == OPERATION_WRITE ||
	       operation == OPERATION_READ_RESPONSE;
}

const char *flow_pair_source_name(enum flow_pair_source source)
{
	static const char *const names[FLOW_PAIR_SOURCE_COUNT] = {"unknown", "cm", "ack"};

	return names[source];
}

/* The lowest n bits. */
static uint64_t low_bits(uint32_t n)
{
	return n < SEEN_BITS ? (1ull << n) - 1 : ~0ull;
}

static enum psn_step psn_behind(struct psn_run *run, uint32_t back)
{
	uint64_t bit = back < SEEN_BITS ? 1ull << back : 0;
	bool late = bit && !(run->seen & bit);

	run->seen |= bit;
	return late ? PSN_LATE : PSN_AGAIN;
}

static void psn_start(struct psn_run *run, uint32_t psn)
{
	run->known = 1;
	run->furthest = psn;
	run->room = 0;
	run->seen = ~0ull; /* what was sent before may come again */
}

enum psn_step psn_take(struct psn_run *run, uint32_t psn, uint32_t *missing)
{
	int32_t ahead = wire_psn_ahead(psn, run->furthest);
	uint32_t between = ahead - 1;
	bool jumps;

	*missing = 0;
	if (!run->known) {
		psn_start(run, psn);
		return PSN_NEXT;
	}
	if (ahead < -PSN_WINDOW || (ahead > 0 && between > run->room + PSN_WINDOW)) {
		psn_start(run, psn);
		return PSN_RESTART;
	}
	if (ahead <= 0)
		return psn_behind(run, -ahead);
	jumps = between > run->room;
	run->seen = ahead < SEEN_BITS ? run->seen << ahead : 0;
	if (!jumps)
		run->seen |= low_bits(ahead);
	run->seen |= 1;
	run->furthest = psn;
	*missing = jumps ? between - run->room : 0;
	run->room = 0;
	return jumps ? PSN_JUMP : PSN_NEXT;
}

struct flow_key flow_reverse_key(const struct flow_key *key, uint32_t qpn)
{
	struct flow_key reverse = {.dst_qpn = qpn};

	memcpy(reverse.src, key->dst, sizeof(reverse.src));
	memcpy(reverse.dst, key->src, sizeof(reverse.dst));
	return reverse;
}
