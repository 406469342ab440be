// SPDX-License-Identifier: BSD-2-Clause
/*
 * progcost: what a frame costs in each of quench's programs and in others, by BPF_PROG_RUN.
 * Measures everything in turn, says so in a line of JSON, {key: ns}, and starts again, until nobody
 * reads that. Run it from the root of the repository, as root.
 *
 * What an empty program costs is part of each figure. Every call is held to account: verdict,
 * counters and flow records must say that each of its frames went the way that the figure is about.
 */
#include "progcost_check.h"

#include <jansson.h>

enum { WEIGHINGS = 5 };

enum hook { XDP, TC, HOOKS };

/* What a call runs, and how that is to end. */
struct target {
	const struct bpf_program *program;
	int verdict;
	__u32 priority; /* of the skb */
};

/* Of this round. */
static struct {
	struct target empty;
	double call_ns;	  /* what a call itself costs, whatever it runs */
	double walker_ns; /* what a walker costs beyond an empty program */
} hooks[HOOKS];

static const struct bench *find_bench(const char *key)
{
	size_t i;

	for (i = 0; i < COUNT(benches); i++)
		if (!strcmp(benches[i].key, key))
			return &benches[i];
	errx(1, "no bench %s", key);
}

static enum hook hook_of(const struct bpf_program *program)
{
	return bpf_program__type(program) == BPF_PROG_TYPE_SCHED_CLS ? TC : XDP;
}

static struct target target_of(const struct bench *b)
{
	const struct bpf_program *program =
		bpf_object__find_program_by_name(objects[b->object], b->program);

	if (!program)
		errx(1, "%s: no program %s", b->key, b->program);
	return (struct target){program, b->verdict, b->priority};
}

/*
 * Run the target so many times on the bench's frame, in one call. Gives the CPU time of that, and
 * the kernel's average of the runs, which is cut to whole nanoseconds.
 */
static __u64 run(const struct bench *b, const struct target *target, int times, __u32 *average_ns)
{
	const struct frame *f = &frames[b->sample];
	struct __sk_buff out = {0}, in = {.ifindex = measured_port,
					    .ingress_ifindex = b->local ? 0 : ingress_port};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = f->data, .data_size_in = f->len,
		.repeat = times);
	__u64 start_ns, end_ns;
	int code;

	if (hook_of(target->program) == TC) {
		opts.ctx_in = &in;
		opts.ctx_size_in = sizeof(in);
		opts.ctx_out = &out;
		opts.ctx_size_out = sizeof(out);
	}
	start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	code = bpf_prog_test_run_opts(bpf_program__fd(target->program), &opts);
	end_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (code)
		errx(1, "%s: BPF_PROG_RUN: %s", b->key, strerror(-code));
	if ((int)opts.retval != target->verdict || out.priority != target->priority)
		errx(1, "%s: verdict %d, not %d; priority %#x, not %#x", b->key, (int)opts.retval,
			target->verdict, out.priority, target->priority);
	*average_ns = opts.duration;
	return end_ns - start_ns;
}

static int compare(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Two runs are a whole call: for one alone the kernel does not patch XDP's dispatcher. */
static void weigh_calls(enum hook hook)
{
	const struct bench any = {.key = "call", .sample = DATA};
	__u64 each_ns[WEIGHINGS];
	__u32 average_ns;
	size_t i;

	for (i = 0; i < WEIGHINGS; i++)
		each_ns[i] = run(&any, &hooks[hook].empty, 2, &average_ns);
	qsort(each_ns, WEIGHINGS, sizeof(each_ns[0]), compare);
	hooks[hook].call_ns = each_ns[WEIGHINGS / 2];
}

/* The kernel's average, and what is behind its point by our own clock. */
static double frame_ns(const struct bench *b, const struct target *target, int times)
{
	__u32 average_ns;
	double ns = run(b, target, times, &average_ns) - hooks[hook_of(target->program)].call_ns;

	ns /= times;
	if (ns < average_ns)
		return average_ns;
	return ns > average_ns + 1 ? average_ns + 1 : ns;
}

/* A step that visits all flows, in no order that memory is laid out in. */
static __u32 step_of(__u32 flows)
{
	__u32 step = flows * 0.618, a, b, rest;

	for (;; step++) {
		for (a = flows, b = step; b; a = b, b = rest)
			rest = a % b;
		if (a == 1)
			return step;
	}
}

static void walker_prepare(const struct bench *b)
{
	const struct frame *f = &frames[b->sample];
	__typeof__(walker->bss->walk) *walk = &walker->bss->walk;

	memset(walk, 0, sizeof(*walk));
	walk->flows = b->flows;
	walk->step = step_of(b->flows);
	walk->flow = b->walked.flow;
	walk->frames = b->walked.frames;
	walk->lap = b->walked.lap;
	walk->first_qpn = records[b->sample].dst_qpn;
	walk->bth_off = f->bth_off;
	walk->mark = b->mark;
	walk->head_bytes = f->len < sizeof(walk->head) ? f->len : sizeof(walk->head);
	memcpy(walk->head, f->data, walk->head_bytes);
}

/* The same with the walker before the target. */
static double frame_walked_ns(const struct bench *b, const struct target *target, int times)
{
	bool skb = hook_of(target->program) == TC;
	const struct bpf_map *next = skb ? walker->maps.measured_tc : walker->maps.measured_xdp;
	struct target walk = *target;

	walk.program = skb ? walker->progs.walk_tc : walker->progs.walk_xdp;
	walker_prepare(b);
	put(bpf_map__fd(next), &(__u32){0}, &(int){bpf_program__fd(target->program)});
	return frame_ns(b, &walk, times);
}

static double cost_ns(struct bench *b, int times)
{
	struct target target = target_of(b);
	double ns;

	if (!b->flows)
		return frame_ns(b, &target, times);
	ns = frame_walked_ns(b, &target, times);
	b->walked.flow = walker->bss->walk.flow;
	b->walked.frames = walker->bss->walk.frames;
	b->walked.lap = walker->bss->walk.lap;
	return ns - hooks[hook_of(target.program)].walker_ns;
}

static void forget_new_flows(struct bench *b, __u32 count)
{
	flows_delete(b, records[b->sample].dst_qpn, count);
	memset(&b->walked, 0, sizeof(b->walked));
}

static double measure(struct bench *b)
{
	int times = b->frames ? b->frames : FRAMES, calls = b->calls ? b->calls : 1, i;
	struct seen before, after;
	double ns = 0;

	if (is_quench(b))
		configure(b);
	before = look(b);
	for (i = 0; i < calls; i++) {
		ns += cost_ns(b, times) / calls;
		check_events(b, times * b->events);
	}
	after = look(b);
	check_seen(b, &before, &after, (__u64)times * calls);
	if (b->map && b->flows)
		check_walked(b);
	if (b->unknown)
		forget_new_flows(b, times);
	return ns;
}

/* Once and unmeasured: the programs find their queues, and a PSN to go on from. */
static void warm_up(struct bench *b)
{
	if (is_quench(b))
		configure(b);
	cost_ns(b, 1);
	check_events(b, b->events);
	if (b->unknown)
		forget_new_flows(b, 1);
}

static void check_tree_is_found(void)
{
	const struct bench any = {.key = "the measured port", .object = QUENCH};
	struct port_state state;

	if (bpf_map_lookup_elem(map_fd(&any, "port_state"), &(__u32){SLOT_MEASURED}, &state))
		err(1, "port_state");
	if (state.found != QUEUES || !state.generation)
		errx(1, "%u queues found, not %d", state.found, QUEUES);
}

/* What is to be taken off this round's figures. */
static void weigh(enum hook hook)
{
	const struct bench any = {.key = "walker", .sample = DATA, .flows = 1};
	const struct target *empty = &hooks[hook].empty;

	weigh_calls(hook);
	hooks[hook].walker_ns =
		frame_walked_ns(&any, empty, FRAMES) - frame_ns(&any, empty, FRAMES);
}

static void measure_all(void)
{
	json_t *doc = json_object();
	size_t i;

	weigh(XDP);
	weigh(TC);
	for (i = 0; i < COUNT(benches); i++)
		json_object_set_new(doc, benches[i].key, json_real(measure(&benches[i])));
	if (json_dumpf(doc, stdout, JSON_COMPACT) || putchar('\n') == EOF || fflush(stdout))
		errx(1, "standard output");
	json_decref(doc);
}

static void stay_on_this_cpu(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "CPU");
}

static int print_warnings(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

int main(void)
{
	size_t i;

	if (refuse_without_root("progcost"))
		return 1;
	libbpf_set_print(print_warnings);
	stay_on_this_cpu();
	make_samples();
	make_port();
	open_objects();
	hooks[XDP].empty = target_of(find_bench("xdp_empty"));
	hooks[TC].empty = target_of(find_bench("tc_empty"));
	fill_maps();
	for (i = 0; i < COUNT(benches); i++)
		warm_up(&benches[i]);
	check_tree_is_found();
	for (;;)
		measure_all();
}
