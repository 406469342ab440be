// SPDX-License-Identifier: BSD-2-Clause
// gate DEVICE TIMES CLOSED_MS OPEN_MS: close and open the gate of a live agent's first class, and
// print how many frames it held at most.
#include <net/if.h>
#include <stdio.h>

#include "bench/gate.h"

enum { ARGUMENTS = 4 };

static void sleep_ms(int ms)
{
	usleep(ms * 1000);
}

int main(int argc, char **argv)
{
	struct tc_qdisc_stats stats = {};
	struct tc_object gate;
	struct qerr err = {};
	uint32_t held = 0;
	struct rtnl *nl;
	int ifindex;

	if (argc != 1 + ARGUMENTS)
		error(2, 0, "gate DEVICE TIMES CLOSED_MS OPEN_MS");
	ifindex = if_nametoindex(argv[1]);
	if (!ifindex || rtnl_open(&nl, &err))
		error(1, errno, "%s: %s", argv[1], err.text);
	gate = gate_read(nl, ifindex);
	for (int times = atoi(argv[2]); times > 0; times--) {
		gate_set(nl, ifindex, gate, true);
		sleep_ms(atoi(argv[3]));
		if (tc_stats(nl, ifindex, TREE_HANDLE(TREE_GATE), &stats, &err))
			error(1, 0, "%s", err.text);
		held = stats.qlen > held ? stats.qlen : held;
		gate_set(nl, ifindex, gate, false);
		sleep_ms(atoi(argv[4]));
	}
	printf("%u\n", held);
	rtnl_close(nl);
	return 0;
}
