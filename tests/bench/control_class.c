// SPDX-License-Identifier: BSD-2-Clause
// Rate changes of QP classes, in passes over all of a port's, each to another rate:
//
//     control_class make DEVICE CLASSES            the agent's queue tree, with nothing behind it
//     control_class change DEVICE CLASSES PASSES   as the agent sends them; us per change as JSON
//     control_class script DEVICE CLASSES PASSES   the same ones, as lines for tc
//
// `change` and `check`, which takes what `script` takes, fail unless the kernel has the last rates.
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "netlink/rtnl.h"
#include "netlink/tc.h"
#include "quench/abi.h"
#include "reconcile/apply.h"
#include "reconcile/tree.h"

enum {
	BATCH_CHANGES = 512, /* as many as the agent sends at once */
	PASSES_MAX = 100000,
	LOWEST_BPS = 8000000,
	PASS_STEP_BPS = 80000,
};

struct options {
	const char *device;
	int ifindex;
	uint32_t classes, passes;
	struct tree_spec spec;
	struct rtnl *nl;
};

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* Another one for each class, and for each class another one in each pass. */
static uint64_t rate_bps(uint32_t k, uint32_t pass)
{
	return LOWEST_BPS + (k + pass) * (uint64_t)PASS_STEP_BPS;
}

static int make(struct options *o)
{
	struct tc_object *list;
	struct qerr error = {};
	size_t n;

	if (tree_build(&o->spec, &list, &n, &error) ||
		tree_install(o->nl, o->ifindex, list, n, false, &error))
		errx(1, "%s", error.text);
	free(list);
	return 0;
}

/* Do all classes have the rates of the last pass? */
static int check(struct options *o)
{
	struct tc_object *list;
	struct qerr error = {};
	uint32_t right = 0;
	size_t n;

	if (tc_read(o->nl, o->ifindex, &list, &n, &error))
		errx(1, "%s", error.text);
	for (size_t i = 0; i < n; i++) {
		uint32_t k = TC_H_MIN(list[i].handle) - MINOR_QP;

		right += list[i].kind == TC_HTB_CLASS &&
			 list[i].handle >> 16 == TREE_INNER + o->spec.qp_class && k < o->classes &&
			 list[i].htb_class.rate_bps == rate_bps(k, o->passes - 1);
	}
	free(list);
	if (right != o->classes)
		errx(1, "%u of %u classes have the last rate", right, o->classes);
	return 0;
}

static void send_batch(struct options *o)
{
	struct rtnl_faults faults;
	int code = rtnl_batch_send(o->nl);

	if (code)
		errx(1, "cannot send: %s", strerror(-code));
	if (rtnl_batch_errors(o->nl, &faults) || faults.lost)
		errx(1, "%u changes refused: %s", faults.count, faults.first.text);
}

static int change(struct options *o)
{
	uint64_t started_ns = clock_ns(), count = 0, took_ns;
	struct qerr error = {};

	for (uint32_t pass = 0; pass < o->passes; pass++)
		for (uint32_t k = 0; k < o->classes; k++) {
			struct tc_object cls = tree_qp_class(&o->spec, k, rate_bps(k, pass));

			if (tc_batch(o->nl, o->ifindex, &cls, TC_CHANGE, &error))
				errx(1, "%s", error.text);
			if (++count % BATCH_CHANGES == 0)
				send_batch(o);
		}
	send_batch(o);
	took_ns = clock_ns() - started_ns;
	check(o);
	printf("{\"us\": %.4f}\n", (double)took_ns / 1000 / count);
	return 0;
}

static int script(struct options *o)
{
	for (uint32_t pass = 0; pass < o->passes; pass++)
		for (uint32_t k = 0; k < o->classes; k++) {
			struct tc_object cls = tree_qp_class(&o->spec, k, rate_bps(k, pass));

			printf("class change dev %s parent %x: classid %x:%x htb rate %" PRIu64
			       "bit ceil %" PRIu64 "bit burst %ub cburst %ub quantum %u\n",
				o->device, cls.parent >> 16, cls.handle >> 16, TC_H_MIN(cls.handle),
				cls.htb_class.rate_bps, cls.htb_class.ceil_bps,
				cls.htb_class.burst_bytes, cls.htb_class.cburst_bytes,
				cls.htb_class.quantum_bytes);
		}
	return 0;
}

static const struct command {
	const char *name;
	int (*run)(struct options *o);
	bool has_passes;
} commands[] = {
	{"make", make, false},
	{"change", change, true},
	{"script", script, true},
	{"check", check, true},
};

static uint32_t read_number(const char *text, uint32_t max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || *text == '-' || !value || value > max)
		errx(2, "'%s' is no number from 1 to %u", text, max);
	return value;
}

static void options_read(struct options *o, const struct command *command, char **argv)
{
	struct qerr error = {};

	*o = (struct options){.device = argv[2], .ifindex = (int)if_nametoindex(argv[2])};
	if (!o->ifindex)
		err(1, "%s", o->device);
	o->classes = read_number(argv[3], QP_CLASSES_MAX);
	o->passes = command->has_passes ? read_number(argv[4], PASSES_MAX) : 0;
	o->spec = (struct tree_spec){
		.rate_bps = 10000000000,
		.line_rate_bps = 10000000000,
		.mtu_bytes = 1500,
		.classes_count = 1,
		.classes = {{.limit_bytes = 1 << 20}},
		.slots = 2,
		.qp_count = o->classes,
	};
	if (rtnl_open(&o->nl, &error))
		errx(1, "%s", error.text);
}

int main(int argc, char **argv)
{
	struct options o;
	int code;

	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name) && argc == 4 + commands[i].has_passes) {
			options_read(&o, &commands[i], argv);
			code = commands[i].run(&o);
			rtnl_close(o.nl);
			return code;
		}
	errx(2, "usage: control_class make|change|script|check DEVICE CLASSES [PASSES]");
}
