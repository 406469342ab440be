// SPDX-License-Identifier: BSD-2-Clause
/*
 * depthprobe: asks depth_read for the depths of a port's queues in the maps of a live agent, and
 * compares them with what the kernel answers over netlink. Prints JSON.
 *
 * Under load the two cannot look at the same time. So each look is bracketed by answers of the
 * kernel about that queue, and counts only where these are equal in all counters: the byte count
 * only grows, so that equal bytes mean that nothing left, and an equal backlog that nothing came.
 * The kernel writes an answer without the queue's lock, bytes first (net/sched/sch_api.c,
 * tc_fill_qdisc), and a frame that leaves is taken off the backlog before its bytes are counted:
 * an interrupt between the two makes a queue in motion look still. So there must be a moment behind
 * the bracket at which the root's lock is free, and behind that the same answer once more.
 */
#include <argp.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <err.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dataplane/dataplane.h"
#include "netlink/rtnl.h"
#include "netlink/tc.h"
#include "prog/depth_probe.skel.h"
#include "quench/abi.h"

enum {
	FRAME_BYTES = 64, /* of the frame that the probe is run on */
	QUEUES_MAX = CLASSES_MAX * (1 + SLOTS_MAX) + QP_CLASSES_MAX,
	EXAMPLES_MAX = 5,
	BRACKET_NS_MAX = 1000000, /* a queue may come and go in a longer one */
	READERS_MAX = 2,
};

struct options {
	const char *device;
	const char *instance;
	double seconds;
};

/* Where the tree has a queue, whether it is there or not. */
struct queue {
	uint32_t ref;
	uint32_t handle;
	uint32_t parent;
};

struct tally {
	uint64_t believed;
	uint64_t unbelieved;	  /* though it was there before and after */
	uint64_t comparable;	  /* believed, and the queue stood still */
	uint64_t comparable_busy; /* with something in it */
	uint64_t different;	  /* of the comparable ones: another depth or byte count */
	uint64_t misplaced;	  /* believed, and another queue than the one that belongs there */
	uint64_t ghosts;	  /* believed, and the kernel has no such queue */
};

/* One way of reading kernel memory: plain loads (6.2 and later), or the helper. */
struct reader {
	const char *name;
	struct depth_probe_bpf *skel;
	struct tally tally;
};

struct look {
	bool believed;
	uint32_t handle, parent;
	uint32_t backlog_bytes;
	uint64_t sent_bytes;
	bool root_locked;
};

struct probe {
	const struct options *opt;
	struct rtnl *nl;
	int ifindex;
	struct reader readers[READERS_MAX];
	size_t readers_count;
	struct queue queues[QUEUES_MAX];
	size_t queues_count;
	uint64_t samples;
	uint32_t max_backlog_bytes;
	uint32_t longest_skb_bytes; /* at least so long was one that waited */
	json_t *examples;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* A map that the agent has pinned. */
static int open_pinned(const struct options *opt, const char *map)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "/sys/fs/bpf/quench/v%d/%s/%s", ABI_VERSION, opt->instance,
		map);
	fd = bpf_obj_get(path);
	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

static void reader_open(struct reader *reader, const struct options *opt, bool rdonly_cast)
{
	struct bpf_map *map;

	reader->name = rdonly_cast ? "rdonly_cast" : "probe_read";
	reader->skel = depth_probe_bpf__open();
	if (!reader->skel)
		err(1, "the probe cannot be opened");
	reader->skel->rodata->depth_rdonly_cast = rdonly_cast;
	bpf_object__for_each_map(map,
		reader->skel->obj) if (!bpf_map__is_internal(map) &&
				       bpf_map__reuse_fd(map, open_pinned(opt, bpf_map__name(map))))
		err(1, "map %s", bpf_map__name(map));
	if (depth_probe_bpf__load(reader->skel))
		err(1, "the probe cannot be loaded");
}

static struct look reader_look(const struct reader *reader, uint32_t ref)
{
	uint8_t frame[FRAME_BYTES] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = sizeof(frame));
	struct depth_probe_bpf__bss *seen = reader->skel->bss;

	seen->probe_ref = ref;
	if (bpf_prog_test_run_opts(bpf_program__fd(reader->skel->progs.depth_probe), &opts))
		err(1, "BPF_PROG_RUN");
	return (struct look){
		.believed = opts.retval,
		.handle = seen->probe_handle,
		.parent = seen->probe_parent,
		.backlog_bytes = seen->probe_backlog_bytes,
		.sent_bytes = seen->probe_sent_bytes,
		.root_locked = seen->probe_root_lock,
	};
}

static void add_queue(struct probe *p, uint32_t ref, uint32_t major, uint32_t parent)
{
	p->queues[p->queues_count++] = (struct queue){ref, TREE_HANDLE(major), parent};
}

/* The queues of this port's tree, as abi.h lays it out. */
static void list_queues(struct probe *p)
{
	int ports = open_pinned(p->opt, "ports"), confs = open_pinned(p->opt, "conf_map");
	struct port_conf port;
	struct conf conf;
	uint32_t c, i;

	if (bpf_map_lookup_elem(confs, &(uint32_t){0}, &conf))
		err(1, "conf_map");
	if (bpf_map_lookup_elem(ports, &p->ifindex, &port))
		err(1, "%s is no port of %s", p->opt->device, p->opt->instance);
	for (c = 0; c < CLASSES_MAX; c++) {
		if (!conf.classes[c].limit_bytes)
			continue;
		add_queue(p, port.refs_base + ref_gate(c), TREE_GATE + c,
			TREE_CLASS(TREE_ROOT, MINOR_PRIORITY + c));
		for (i = 0; i < conf.slots; i++)
			add_queue(p, port.refs_base + ref_slot_leaf(c, conf.slots, i),
				TREE_SLOT_LEAF + c * SLOTS_MAX + i,
				TREE_CLASS(TREE_INNER + c, MINOR_SLOT + i));
	}
	for (i = 0; i < port.qp_count; i++)
		add_queue(p, port.refs_base + ref_qp_leaf(conf.slots, i), TREE_QP_LEAF + i,
			TREE_CLASS(TREE_INNER + port.reaction_class, MINOR_QP + i));
}

/* What the kernel says of the queue; false when it has none. */
static bool ask_kernel(struct probe *p, const struct queue *queue, struct tc_qdisc_stats *stats)
{
	struct qerr fault = {0};
	int code = tc_stats(p->nl, p->ifindex, queue->handle, stats, &fault);

	if (code && code != -ENOENT)
		errx(1, "netlink: %s", fault.text);
	return !code;
}

static json_t *look_json(const struct reader *reader, const struct look *look)
{
	return json_pack("{s:s, s:b, s:i, s:I}", "reader", reader->name, "believed", look->believed,
		"backlog_bytes", (int)look->backlog_bytes, "sent_bytes",
		(json_int_t)look->sent_bytes);
}

static char *handle_text(uint32_t handle, char *buf, size_t size)
{
	snprintf(buf, size, "%x:%x", handle >> 16, handle & 0xffff);
	return buf;
}

/* Every queue once: [{ref, handle, parent, exists, looks[]}]. */
static json_t *look_at_all(struct probe *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->queues_count; i++) {
		const struct queue *queue = &p->queues[i];
		json_t *looks = json_array();
		struct tc_qdisc_stats stats;
		char handle[16], parent[16];

		for (size_t r = 0; r < p->readers_count; r++) {
			struct look look = reader_look(&p->readers[r], queue->ref);

			json_array_append_new(looks, look_json(&p->readers[r], &look));
		}
		json_array_append_new(
			list, json_pack("{s:i, s:s, s:s, s:b, s:o}", "ref", (int)queue->ref,
				      "handle", handle_text(queue->handle, handle, sizeof(handle)),
				      "parent", handle_text(queue->parent, parent, sizeof(parent)),
				      "exists", ask_kernel(p, queue, &stats), "looks", looks));
	}
	return list;
}

static void note_example(struct probe *p, const char *what, const struct reader *reader,
	const struct queue *queue, const struct look *look, const struct tc_qdisc_stats *stats)
{
	char handle[16], seen[16];

	if (json_array_size(p->examples) >= EXAMPLES_MAX)
		return;
	json_array_append_new(p->examples,
		json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "what", what, "reader",
			reader->name, "handle", handle_text(queue->handle, handle, sizeof(handle)),
			"seen_handle", handle_text(look->handle, seen, sizeof(seen)),
			"backlog_bytes", (json_int_t)look->backlog_bytes, "kernel_backlog_bytes",
			(json_int_t)stats->backlog_bytes, "sent_bytes",
			(json_int_t)look->sent_bytes, "kernel_sent_bytes",
			(json_int_t)stats->bytes));
}

struct bracket {
	struct tc_qdisc_stats before, after, later;
	bool there_before, there_after, there_later;
	bool root_locked; /* between after and later */
	uint64_t ns;
};

static bool same_counters(const struct tc_qdisc_stats *a, const struct tc_qdisc_stats *b)
{
	return a->bytes == b->bytes && a->packets == b->packets &&
	       a->backlog_bytes == b->backlog_bytes && a->qlen == b->qlen && a->drops == b->drops;
}

/* Did the queue stand still from the answer before the look to the one behind it? */
static bool stood_still(const struct bracket *b)
{
	return b->there_before && b->there_after && b->there_later && !b->root_locked &&
	       same_counters(&b->before, &b->after) && same_counters(&b->before, &b->later);
}

static void judge_believed(struct probe *p, struct reader *reader, const struct queue *queue,
	const struct look *look, const struct bracket *b)
{
	struct tally *tally = &reader->tally;

	tally->believed++;
	if (look->handle != queue->handle || look->parent != queue->parent) {
		tally->misplaced++;
		note_example(p, "misplaced", reader, queue, look, &b->after);
	}
	if (!b->there_before && !b->there_after && !b->there_later && b->ns <= BRACKET_NS_MAX) {
		tally->ghosts++;
		note_example(p, "ghost", reader, queue, look, &b->after);
	}
	if (!stood_still(b))
		return;
	tally->comparable++;
	tally->comparable_busy += b->before.backlog_bytes > 0;
	if (look->backlog_bytes == b->before.backlog_bytes && look->sent_bytes == b->before.bytes)
		return;
	tally->different++;
	note_example(p, "different", reader, queue, look, &b->before);
}

static void note_depth(struct probe *p, const struct tc_qdisc_stats *stats)
{
	if (stats->backlog_bytes > p->max_backlog_bytes)
		p->max_backlog_bytes = stats->backlog_bytes;
	if (stats->qlen && stats->backlog_bytes / stats->qlen > p->longest_skb_bytes)
		p->longest_skb_bytes = stats->backlog_bytes / stats->qlen;
}

static void sample(struct probe *p, const struct queue *queue)
{
	struct look looks[READERS_MAX];
	struct bracket b;
	uint64_t start_ns = now_ns();

	b.there_before = ask_kernel(p, queue, &b.before);
	for (size_t r = 0; r < p->readers_count; r++)
		looks[r] = reader_look(&p->readers[r], queue->ref);
	b.there_after = ask_kernel(p, queue, &b.after);
	b.root_locked = reader_look(&p->readers[0], queue->ref).root_locked;
	b.there_later = ask_kernel(p, queue, &b.later);
	b.ns = now_ns() - start_ns;
	p->samples++;
	if (stood_still(&b))
		note_depth(p, &b.before);
	for (size_t r = 0; r < p->readers_count; r++) {
		if (looks[r].believed)
			judge_believed(p, &p->readers[r], queue, &looks[r], &b);
		else
			p->readers[r].tally.unbelieved += b.there_before && b.there_after;
	}
}

static json_t *tally_json(const struct tally *t)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "believed", (json_int_t)t->believed,
		"unbelieved", (json_int_t)t->unbelieved, "comparable", (json_int_t)t->comparable,
		"comparable_busy", (json_int_t)t->comparable_busy, "different",
		(json_int_t)t->different, "misplaced", (json_int_t)t->misplaced, "ghosts",
		(json_int_t)t->ghosts);
}

/* Look at the queues in turn for that long. */
static json_t *compare(struct probe *p)
{
	uint64_t end_ns = now_ns() + (uint64_t)(p->opt->seconds * 1e9);
	json_t *readers = json_object();

	p->examples = json_array();
	while (now_ns() < end_ns)
		for (size_t i = 0; i < p->queues_count; i++)
			sample(p, &p->queues[i]);
	for (size_t r = 0; r < p->readers_count; r++)
		json_object_set_new(readers, p->readers[r].name, tally_json(&p->readers[r].tally));
	return json_pack("{s:I, s:I, s:I, s:o, s:o}", "samples", (json_int_t)p->samples,
		"max_backlog_bytes", (json_int_t)p->max_backlog_bytes, "longest_skb_bytes",
		(json_int_t)p->longest_skb_bytes, "readers", readers, "examples", p->examples);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;
	char *end;

	switch (key) {
	case 'd':
		opt->device = arg;
		return 0;
	case 'i':
		opt->instance = arg;
		return 0;
	case 's':
		opt->seconds = strtod(arg, &end);
		if (*end || end == arg || !(opt->seconds > 0) || opt->seconds > 3600)
			argp_error(state, "seconds: %s: above 0, 3600 at most", arg);
		return 0;
	case ARGP_KEY_END:
		if (!opt->device || !opt->instance)
			argp_error(state, "--dev and --instance are needed");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option argp_options[] = {
	{"dev", 'd', "NAME", 0, "the port", 0},
	{"instance", 'i', "NAME", 0, "of the agent whose maps are read", 0},
	{"seconds", 's', "S", 0, "compare for so long; without it: look at every queue once", 0},
	{0},
};

static const struct argp argp = {
	argp_options, parse_option, NULL, "What depth_read says of a port's queues.", 0, 0, 0};

int main(int argc, char **argv)
{
	static struct probe p;
	struct options opt = {0};
	struct qerr fault = {0};
	json_t *doc;

	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	p.opt = &opt;
	p.ifindex = if_nametoindex(opt.device);
	if (!p.ifindex)
		err(1, "%s", opt.device);
	if (rtnl_open(&p.nl, &fault))
		errx(1, "netlink: %s", fault.text);
	list_queues(&p);
	if (dataplane_kernel_has_function("bpf_rdonly_cast"))
		reader_open(&p.readers[p.readers_count++], &opt, true);
	reader_open(&p.readers[p.readers_count++], &opt, false);
	doc = opt.seconds > 0 ? compare(&p) : look_at_all(&p);
	if (!doc || json_dumpf(doc, stdout, JSON_INDENT(1)) || putchar('\n') == EOF ||
		fflush(stdout))
		errx(1, "standard output: the report was not written");
	json_decref(doc);
	while (p.readers_count)
		depth_probe_bpf__destroy(p.readers[--p.readers_count].skel);
	rtnl_close(p.nl);
	return 0;
}
