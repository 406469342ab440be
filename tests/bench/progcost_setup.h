/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What progcost runs its programs in: frames, a network namespace with a port whose queues hold
 * something, the programs themselves, and maps as the agent fills them.
 */
#ifndef PROGCOST_SETUP_H
#define PROGCOST_SETUP_H

#include "progcost_table.h"

#include <err.h>
#include <glob.h>
#include <linux/if_packet.h>
#include <time.h>

#include "bench/prog_empty.skel.h"
#include "bench/prog_minimal.skel.h"
#include "bench/prog_walk.skel.h"
#include "quench.skel.h"

#define FILTER_PATH "/usr/lib/*/bpf/xdpfilt_dny_udp.o"

enum { MAP_BATCH = 1 << 16 };

static struct frame frames[SAMPLES];
static struct flow_key records[SAMPLES]; /* whose record the frame adds to */
static struct bpf_object *objects[OBJECTS];
static struct prog_walk_bpf *walker;
static __u32 measured_port, ingress_port; /* ifindex */

static inline int map_fd(const struct bench *b, const char *name)
{
	int fd = bpf_object__find_map_fd_by_name(objects[b->object], name);

	if (fd < 0)
		errx(1, "%s: no map %s", b->key, name);
	return fd;
}

static void put(int fd, const void *key, const void *value)
{
	if (bpf_map_update_elem(fd, key, value, BPF_ANY))
		err(1, "a map");
}

/* A CNP adds to the record of the flow that it is about. */
static struct flow_key record_of(const struct frame *f)
{
	struct flow_key key = frame_key(f), about = {.dst_qpn = QPN_PEER};

	if (f->data[f->bth_off] != OP_CNP)
		return key;
	memcpy(about.src, key.dst, sizeof(about.src));
	memcpy(about.dst, key.src, sizeof(about.dst));
	return about;
}

static void make_sample(enum sample sample)
{
	struct frame_spec spec = specs[sample];
	struct frame *f = &frames[sample];

	if (!spec.qpn)
		spec.qpn = QPN_SINGLE + sample;
	frame_make(f, spec);
	records[sample] = record_of(f);
}

static void make_samples(void)
{
	int i;

	read_vectors(NULL);
	for (i = 0; i < SAMPLES; i++) {
		if (vectors[i]) {
			const struct row *row = find_row(&frame_rows, vectors[i]);

			frames[i].data = row->frame;
			frames[i].len = row->len;
		} else {
			make_sample(i);
		}
	}
}

/* The measured port: a whole tree of one class, whose gate lets nothing through. */
static const char *const tree[] = {
	"ip link add q0 type veth peer name q1",
	"ip link set q0 addrgenmode none up",
	"ip link set q1 addrgenmode none up",
	"tc qdisc add dev q0 root handle 9000: htb default 13",
	"tc class add dev q0 parent 9000: classid 9000:1 htb rate 1gbit quantum 1522",
	"tc class add dev q0 parent 9000:1 classid 9000:13 htb rate 1gbit quantum 1522",
	"tc qdisc add dev q0 parent 9000:13 handle 9013: tbf rate 8bit burst 1600 limit 1000000",
	"tc qdisc add dev q0 parent 9013:1 handle 9023: htb default 1",
	"tc class add dev q0 parent 9023: classid 9023:1 htb rate 1gbit quantum 1522",
	"tc class add dev q0 parent 9023: classid 9023:2 htb rate 1gbit quantum 1522",
	"tc class add dev q0 parent 9023: classid 9023:3 htb rate 1gbit quantum 1522",
	"tc class add dev q0 parent 9023: classid 9023:1000 htb rate 1gbit quantum 1522",
	"tc qdisc add dev q0 parent 9023:1 handle a0c0: bfifo limit 1000000",
	"tc qdisc add dev q0 parent 9023:2 handle a0c1: bfifo limit 1000000",
	"tc qdisc add dev q0 parent 9023:3 handle a0c2: bfifo limit 1000000",
	"tc qdisc add dev q0 parent 9023:1000 handle b000: bfifo limit 1000000",
};

/* Frames that stay in the tree. */
static void fill_tree(void)
{
	static const __u8 frame[WAITING_BYTES] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, [12] = 0x88, 0xb5};
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = measured_port};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), i;

	for (i = 0; i <= WAITING_FRAMES; i++) /* the first one empties the gate's bucket */
		if (sendto(fd, frame, sizeof(frame), 0, (void *)&to, sizeof(to)) < 0)
			err(1, "q0");
	close(fd);
}

static void make_port(void)
{
	size_t i;

	if (enter_own_network())
		err(1, "network namespace");
	for (i = 0; i < COUNT(tree); i++)
		shell(tree[i]);
	measured_port = if_nametoindex("q0");
	ingress_port = if_nametoindex("q1");
	fill_tree();
}

static void load(int object)
{
	int code = bpf_object__load(objects[object]);

	if (code)
		errx(1, "programs: %s", strerror(-code));
}

static void size_map(struct bpf_object *obj, const char *name, __u32 entries)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, name);

	if (!map || bpf_map__set_max_entries(map, entries))
		errx(1, "map %s", name);
}

static void open_quench(int object)
{
	struct quench_bpf *skel = quench_bpf__open();
	struct bpf_program *program;

	if (!skel)
		err(1, "programs");
	objects[object] = skel->obj;
	skel->rodata->depth_rdonly_cast = true; /* as the agent sets it on 6.2 and later */
	size_map(skel->obj, "flows", TABLE);
	size_map(skel->obj, "qps", QPS);
	size_map(skel->obj, "pairs", SAMPLES);
	size_map(skel->obj, "qp_classes", QP_POOL);
	size_map(skel->obj, "qp_free", QP_POOL);
	size_map(skel->obj, "qdisc_refs", ref_qp_leaf(SLOTS, QP_POOL));
	size_map(skel->obj, "qdisc_by_ptr", 2 * ref_qp_leaf(SLOTS, QP_POOL));
	bpf_object__for_each_program(program, skel->obj)
	{
		if (object != QUENCH) /* there for its flow table */
			bpf_program__set_autoload(program, program == skel->progs.quench_xdp);
	}
	load(object);
}

/* The filter's maps are pinned by whoever loads them; here they are for this process only. */
static void open_filter(void)
{
	struct bpf_map *map;
	glob_t found;

	if (glob(FILTER_PATH, 0, NULL, &found))
		errx(1, "%s: not found; it is in Debian's package libxdp1", FILTER_PATH);
	objects[FILTER] = bpf_object__open_file(found.gl_pathv[0], NULL);
	globfree(&found);
	if (!objects[FILTER])
		err(1, "%s", FILTER_PATH);
	bpf_object__for_each_map(map, objects[FILTER])
	{
		bpf_map__set_pin_path(map, NULL);
	}
	load(FILTER);
}

static void open_empty(void)
{
	struct prog_empty_bpf *skel = prog_empty_bpf__open();

	if (!skel)
		err(1, "empty programs");
	objects[EMPTY] = skel->obj;
	load(EMPTY);
}

static void open_minimal(int object)
{
	struct prog_minimal_bpf *skel = prog_minimal_bpf__open();

	if (!skel)
		err(1, "minimal program");
	objects[object] = skel->obj;
	size_map(skel->obj, "flows", TABLE);
	load(object);
}

static void open_objects(void)
{
	int i;

	open_empty();
	open_filter();
	for (i = 0; i < COUNTS; i++) {
		open_minimal(MINIMAL + i);
		open_quench(QUENCH + i);
	}
	walker = prog_walk_bpf__open_and_load();
	if (!walker)
		err(1, "walker");
}

struct minimal_key { /* of prog_minimal.bpf.c */
	__be32 src, dst, qpn;
};

/* The key of the sample's flow, or of its neighbour with that QPN, as the object has it. */
static void *flow_key_put(void *at, const struct bench *b, __u32 qpn)
{
	struct flow_key key = records[b->sample];
	struct minimal_key minimal = {key.src[3], key.dst[3], htonl(qpn)};

	key.dst_qpn = qpn;
	if (is_quench(b))
		return mempcpy(at, &key, sizeof(key));
	return mempcpy(at, &minimal, sizeof(minimal));
}

/* Records without a frame, for the QPN first and the count - 1 behind it. */
static void flows_add(const struct bench *b, __u32 first, __u32 count)
{
	static __u8 keys[MAP_BATCH * sizeof(struct flow_key)];
	static const __u8 empty[MAP_BATCH * sizeof(struct flow)];
	static struct flow flows[MAP_BATCH];
	__u32 i, some;
	void *at;

	for (i = 0; i < MAP_BATCH; i++)
		flows[i].cpu = sched_getcpu() + b->elsewhere;
	for (; count; first += some, count -= some) {
		some = count < MAP_BATCH ? count : MAP_BATCH;
		for (i = 0, at = keys; i < some; i++)
			at = flow_key_put(at, b, first + i);
		if (bpf_map_update_batch(map_fd(b, "flows"), keys,
			    is_quench(b) ? (void *)flows : (void *)empty, &some, NULL))
			err(1, "%s: flows", b->key);
	}
}

static void flows_delete(const struct bench *b, __u32 first, __u32 count)
{
	static struct flow_key keys[NEW_FLOWS];
	void *at = keys;
	__u32 i;

	for (i = 0; i < count; i++)
		at = flow_key_put(at, b, first + i);
	if (bpf_map_delete_batch(map_fd(b, "flows"), keys, &count, NULL))
		err(1, "%s: flows", b->key);
}

/* The flows that are known; after this, whatever is added has been new. */
static void fill_tables(void)
{
	size_t i;

	for (i = 0; i < COUNT(benches); i++) {
		const struct bench *b = &benches[i];

		if (b->sample == DATA_OF_TABLE)
			flows_add(b, QPN_TABLE, b->flows);
		else if (b->map && !b->unknown && strcmp(b->map, "qps"))
			flows_add(b, records[b->sample].dst_qpn, 1);
	}
}

/* What the filter is to compare a port with (xdp-filter/common_kern_user.h). */
enum { FILTER_DST = 2, FILTER_UDP = 8 };

static void admit_roce_port(void)
{
	int fd = bpf_object__find_map_fd_by_name(objects[FILTER], "filter_ports");
	__u32 port = htons(ROCE_V2_UDP_PORT);
	int cpus = libbpf_num_possible_cpus(), cpu;
	__u64 *flags = calloc(cpus, sizeof(*flags));

	if (!flags || fd < 0)
		err(1, "filter_ports");
	for (cpu = 0; cpu < cpus; cpu++)
		flags[cpu] = FILTER_DST | FILTER_UDP;
	put(fd, &port, flags);
	free(flags);
}

static __u64 clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Every flow has a pair, about which a CNP has just been sent. */
static void fill_pairs(const struct bench *b)
{
	struct pair pair = {
		.last_cnp_ns = clock_ns(CLOCK_MONOTONIC), .peer_qpn = QPN_PEER, .source = PAIR_CM};
	int i;

	for (i = 0; i < SAMPLES; i++) {
		struct flow_key key;

		if (vectors[i])
			continue;
		key = frame_key(&frames[i]);
		put(map_fd(b, "pairs"), &key, &pair);
	}
}

static void fill_maps(void)
{
	const struct bench first = {.key = "setup", .object = QUENCH};

	fill_tables();
	fill_pairs(&first);
	put(map_fd(&first, "qp_free"), &(__u32){0}, &(__u64){0});
	put(map_fd(&first, "qp_pools"), &(__u32){SLOT_MEASURED},
		&(struct qp_pool){.tail = QP_POOL});
	put(map_fd(&first, "pauses"), &(__u32){SLOT_INGRESS},
		&(struct port_pauses){.xoff = 1 << ROCE_CLASS, .told = 1 << ROCE_CLASS});
	admit_roce_port();
}

/* As the agent does it. */
static void put_port(const struct bench *b, __u32 ifindex, const struct port_conf *port)
{
	struct port_place place = {.ifindex = ifindex, .slot = port->slot};

	put(map_fd(b, "ports"), &port->slot, port);
	put(map_fd(b, "port_slots"), &ifindex, &port->slot);
	put(map_fd(b, "port_places"), &(__u32){port_place(ifindex)}, &place);
}

/* Policy and ports as the bench wants them. */
static void configure(const struct bench *b)
{
	const __u32 mark_above_bytes = b->deep ? DEPTH_BYTES - 1 : MARK_ABOVE_BYTES;
	const struct port_conf measured = {
		.slot = SLOT_MEASURED,
		.flags = b->port_flags | PORT_TRUST_DSCP | PORT_TRUST_PCP,
		.qp_count = QP_POOL,
		.reaction_class = ROCE_CLASS,
		.generation = 1,
	};
	const struct port_conf ingress = {
		.slot = SLOT_INGRESS, .flags = PORT_ARMED, .pausing = 1 << ROCE_CLASS};
	struct conf conf = {.now_ns = clock_ns(CLOCK_MONOTONIC),
		.cnp_interval_ns = an_hour_ns,
		.slots = SLOTS,
		.cnp_tos = TOS_CNP,
		.udp_ports = WIRE_PORTS_DEFAULT};

	memset(conf.dscp_class, CLASS_NONE, sizeof(conf.dscp_class));
	memset(conf.pcp_class, CLASS_NONE, sizeof(conf.pcp_class));
	conf.dscp_class[TOS_ECT0 >> 2] = ROCE_CLASS;
	conf.classes[ROCE_CLASS] = (struct class_conf){.kmin_bytes = mark_above_bytes,
		.kmax_bytes = mark_above_bytes,
		.limit_bytes = LIMIT_BYTES,
		.xoff_bytes = b->deep ? 0 : LIMIT_BYTES,
		.ecn = 1};
	put(map_fd(b, "conf_map"), &(__u32){0}, &conf);
	put_port(b, LOOPBACK, &measured); /* where XDP's frames are */
	put_port(b, measured_port, &measured);
	put_port(b, ingress_port, &ingress);
}

#endif
