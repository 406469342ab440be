// SPDX-License-Identifier: BSD-2-Clause
// One set of functions for each kind of tc object, and the table of them.
#include "netlink/tc_kind.h"

#include <stdio.h>
#include <string.h>

enum {
	BITS = 8, /* in a byte */
	NS_PER_S = 1000000000,
	HTB_VERSION = 3,
	HTB_R2Q = 10, /* as tc sends it; every class has a quantum of its own, so it decides nothing
		       */
};

/*
 * A closed gate: at this rate every frame counts as CLOSED_MPU_BYTES, which is more than the
 * bucket holds, so none leaves; yet the bucket, as bytes at the rate, is what the longest frame
 * let into the queue is measured by.
 */
enum {
	CLOSED_RATE_BYTES = 4000,
	CLOSED_MPU_BYTES = 65535,
	CLOSED_BUCKET_NS = 2500000000u,
};

static uint64_t div_up(unsigned __int128 a, unsigned __int128 b)
{
	return (uint64_t)((a + b - 1) / b);
}

uint32_t tc_burst_ticks(uint64_t rate_bps, uint32_t burst_bytes, uint32_t tick_ns)
{
	unsigned __int128 scaled = (unsigned __int128)burst_bytes * NS_PER_S;
	uint64_t ticks;

	if (rate_bps < BITS)
		return UINT32_MAX;
	ticks = div_up(scaled, (unsigned __int128)(rate_bps / BITS) * tick_ns);
	return ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
}

/* Bytes at the rate in that many ticks, with up added before the division. */
static uint32_t bytes_in_ticks(uint64_t rate_bps, uint32_t ticks, uint32_t tick_ns, uint32_t up)
{
	unsigned __int128 scaled = (unsigned __int128)ticks * tick_ns * (rate_bps / BITS);
	unsigned __int128 bytes = (scaled + up) / NS_PER_S;

	return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

uint32_t tc_burst_bytes(uint64_t rate_bps, uint32_t ticks, uint32_t tick_ns)
{
	return bytes_in_ticks(rate_bps, ticks, tick_ns, 0);
}

/* The burst that is left of this one after the kernel has kept it in ticks. */
static uint32_t burst_kept(uint64_t rate_bps, uint32_t burst_bytes, uint32_t tick_ns)
{
	return tc_burst_bytes(rate_bps, tc_burst_ticks(rate_bps, burst_bytes, tick_ns), tick_ns);
}

static struct tc_ratespec ratespec(uint64_t rate_bps)
{
	uint64_t bytes = rate_bps / BITS;

	/* With a link layer named, the kernel asks for no rate table. */
	return (struct tc_ratespec){.linklayer = TC_LINKLAYER_ETHERNET,
		.rate = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX};
}

static uint64_t rate_read(const struct tc_ratespec *spec, const struct nlattr *rate64)
{
	uint64_t bytes = rate64 ? mnl_attr_get_u64(rate64) : spec->rate;

	return bytes <= UINT64_MAX / BITS ? bytes * BITS : UINT64_MAX;
}

/* The attributes of a nest, by type; those of a length other than expected are left out. */
#define OPTIONS_MAX 16
struct options {
	const struct nlattr *attr[OPTIONS_MAX];
};

static int option_attr(const struct nlattr *attr, void *arg)
{
	struct options *options = arg;
	uint16_t type = mnl_attr_get_type(attr);

	if (type < OPTIONS_MAX)
		options->attr[type] = attr;
	return MNL_CB_OK;
}

static struct options options_read(const struct nlattr *nest)
{
	struct options options = {0};

	mnl_attr_parse_nested(nest, option_attr, &options);
	return options;
}

static const struct nlattr *option_u64(const struct options *options, uint16_t type)
{
	const struct nlattr *attr = options->attr[type];

	return attr && mnl_attr_get_payload_len(attr) == sizeof(uint64_t) ? attr : NULL;
}

static bool option_copy(const struct options *options, uint16_t type, void *to, size_t size)
{
	const struct nlattr *attr = options->attr[type];

	if (!attr || mnl_attr_get_payload_len(attr) < size)
		return false;
	memcpy(to, mnl_attr_get_payload(attr), size);
	return true;
}

static const char *htb_check(const struct tc_object *obj)
{
	if (!obj->htb.default_minor || obj->htb.default_minor > 0xffff)
		return "its default class must be 1 to ffff";
	return NULL;
}

static bool htb_put(
	struct nlmsghdr *nlh, size_t size, const struct tc_object *obj, uint32_t tick_ns)
{
	const struct tc_htb_glob glob = {
		.version = HTB_VERSION, .rate2quantum = HTB_R2Q, .defcls = obj->htb.default_minor};
	struct nlattr *nest = mnl_attr_nest_start_check(nlh, size, TCA_OPTIONS);

	(void)tick_ns;
	if (!nest || !mnl_attr_put_check(nlh, size, TCA_HTB_INIT, sizeof(glob), &glob))
		return false;
	mnl_attr_nest_end(nlh, nest);
	return true;
}

static bool htb_get(const struct nlattr *nest, struct tc_object *obj, uint32_t tick_ns)
{
	struct options options = options_read(nest);
	struct tc_htb_glob glob;

	(void)tick_ns;
	if (!option_copy(&options, TCA_HTB_INIT, &glob, sizeof(glob)))
		return false;
	obj->htb.default_minor = glob.defcls;
	return true;
}

static bool htb_equal(const struct tc_object *a, const struct tc_object *b, uint32_t tick_ns)
{
	(void)tick_ns;
	return a->htb.default_minor == b->htb.default_minor;
}

static int htb_describe(const struct tc_object *obj, char *buf, size_t size)
{
	return snprintf(buf, size, "default %x", obj->htb.default_minor);
}

static const char *htb_class_check(const struct tc_object *obj)
{
	if (obj->htb_class.rate_bps < BITS)
		return "its rate is under 8 bit/s";
	if (obj->htb_class.ceil_bps < obj->htb_class.rate_bps)
		return "its ceiling is under its rate";
	if (!obj->htb_class.burst_bytes || !obj->htb_class.cburst_bytes)
		return "it has no burst or no cburst";
	if (!obj->htb_class.quantum_bytes)
		return "it has no quantum";
	if (obj->htb_class.prio >= TC_HTB_NUMPRIO)
		return "its prio is over 7";
	return NULL;
}

static bool htb_class_put(
	struct nlmsghdr *nlh, size_t size, const struct tc_object *obj, uint32_t tick_ns)
{
	uint64_t rate_bps = obj->htb_class.rate_bps, ceil_bps = obj->htb_class.ceil_bps;
	const struct tc_htb_opt opt = {.rate = ratespec(rate_bps),
		.ceil = ratespec(ceil_bps),
		.buffer = tc_burst_ticks(rate_bps, obj->htb_class.burst_bytes, tick_ns),
		.cbuffer = tc_burst_ticks(ceil_bps, obj->htb_class.cburst_bytes, tick_ns),
		.quantum = obj->htb_class.quantum_bytes,
		.prio = obj->htb_class.prio};
	struct nlattr *nest = mnl_attr_nest_start_check(nlh, size, TCA_OPTIONS);

	if (!nest || !mnl_attr_put_u64_check(nlh, size, TCA_HTB_RATE64, rate_bps / BITS) ||
		!mnl_attr_put_u64_check(nlh, size, TCA_HTB_CEIL64, ceil_bps / BITS) ||
		!mnl_attr_put_check(nlh, size, TCA_HTB_PARMS, sizeof(opt), &opt))
		return false;
	mnl_attr_nest_end(nlh, nest);
	return true;
}

static bool htb_class_get(const struct nlattr *nest, struct tc_object *obj, uint32_t tick_ns)
{
	struct options options = options_read(nest);
	uint64_t rate_bps, ceil_bps;
	struct tc_htb_opt opt;

	if (!option_copy(&options, TCA_HTB_PARMS, &opt, sizeof(opt)))
		return false;
	rate_bps = rate_read(&opt.rate, option_u64(&options, TCA_HTB_RATE64));
	ceil_bps = rate_read(&opt.ceil, option_u64(&options, TCA_HTB_CEIL64));
	obj->htb_class.rate_bps = rate_bps;
	obj->htb_class.ceil_bps = ceil_bps;
	obj->htb_class.burst_bytes = tc_burst_bytes(rate_bps, opt.buffer, tick_ns);
	obj->htb_class.cburst_bytes = tc_burst_bytes(ceil_bps, opt.cbuffer, tick_ns);
	obj->htb_class.quantum_bytes = opt.quantum;
	obj->htb_class.prio = opt.prio;
	return true;
}

static bool htb_class_equal(const struct tc_object *a, const struct tc_object *b, uint32_t tick_ns)
{
	uint64_t rate_bps = a->htb_class.rate_bps, ceil_bps = a->htb_class.ceil_bps;

	return rate_bps / BITS == b->htb_class.rate_bps / BITS &&
	       ceil_bps / BITS == b->htb_class.ceil_bps / BITS &&
	       burst_kept(rate_bps, a->htb_class.burst_bytes, tick_ns) ==
		       burst_kept(rate_bps, b->htb_class.burst_bytes, tick_ns) &&
	       burst_kept(ceil_bps, a->htb_class.cburst_bytes, tick_ns) ==
		       burst_kept(ceil_bps, b->htb_class.cburst_bytes, tick_ns) &&
	       a->htb_class.quantum_bytes == b->htb_class.quantum_bytes &&
	       a->htb_class.prio == b->htb_class.prio;
}

static int htb_class_describe(const struct tc_object *obj, char *buf, size_t size)
{
	return snprintf(buf, size,
		"rate %llu bit/s ceil %llu bit/s burst %u B cburst %u B quantum %u B prio %u",
		(unsigned long long)obj->htb_class.rate_bps,
		(unsigned long long)obj->htb_class.ceil_bps, obj->htb_class.burst_bytes,
		obj->htb_class.cburst_bytes, obj->htb_class.quantum_bytes, obj->htb_class.prio);
}

static const char *tbf_check(const struct tc_object *obj)
{
	if (obj->tbf.closed)
		return NULL;
	if (obj->tbf.rate_bps < BITS)
		return "its rate is under 8 bit/s";
	if (!obj->tbf.burst_bytes)
		return "it has no burst";
	return NULL;
}

/* The parameters of a gate that lets nothing out. TCA_TBF_BURST must not be sent with them. */
static struct tc_tbf_qopt tbf_closed(uint32_t limit_bytes, uint32_t tick_ns)
{
	struct tc_tbf_qopt opt = {.rate = ratespec(CLOSED_RATE_BYTES * BITS),
		.limit = limit_bytes,
		.buffer = CLOSED_BUCKET_NS / tick_ns};

	opt.rate.mpu = CLOSED_MPU_BYTES;
	return opt;
}

static struct tc_tbf_qopt tbf_open(const struct tc_object *obj, uint32_t tick_ns)
{
	return (struct tc_tbf_qopt){.rate = ratespec(obj->tbf.rate_bps),
		.limit = obj->tbf.limit_bytes,
		.buffer = tc_burst_ticks(obj->tbf.rate_bps, obj->tbf.burst_bytes, tick_ns)};
}

static bool tbf_put(
	struct nlmsghdr *nlh, size_t size, const struct tc_object *obj, uint32_t tick_ns)
{
	const struct tc_tbf_qopt opt = obj->tbf.closed ? tbf_closed(obj->tbf.limit_bytes, tick_ns)
						       : tbf_open(obj, tick_ns);
	struct nlattr *nest = mnl_attr_nest_start_check(nlh, size, TCA_OPTIONS);

	if (!nest || !mnl_attr_put_check(nlh, size, TCA_TBF_PARMS, sizeof(opt), &opt))
		return false;
	if (!obj->tbf.closed &&
		(!mnl_attr_put_u64_check(nlh, size, TCA_TBF_RATE64, obj->tbf.rate_bps / BITS) ||
			!mnl_attr_put_u32_check(nlh, size, TCA_TBF_BURST, obj->tbf.burst_bytes)))
		return false;
	mnl_attr_nest_end(nlh, nest);
	return true;
}

/* The burst comes back only as ticks that the kernel rounded down. */
static bool tbf_get(const struct nlattr *nest, struct tc_object *obj, uint32_t tick_ns)
{
	struct options options = options_read(nest);
	struct tc_tbf_qopt opt;

	if (!option_copy(&options, TCA_TBF_PARMS, &opt, sizeof(opt)))
		return false;
	obj->tbf.rate_bps = rate_read(&opt.rate, option_u64(&options, TCA_TBF_RATE64));
	obj->tbf.burst_bytes = bytes_in_ticks(obj->tbf.rate_bps, opt.buffer, tick_ns, NS_PER_S - 1);
	obj->tbf.limit_bytes = opt.limit;
	obj->tbf.closed = opt.rate.mpu == CLOSED_MPU_BYTES;
	return true;
}

static bool tbf_equal(const struct tc_object *a, const struct tc_object *b, uint32_t tick_ns)
{
	int64_t ticks;

	if (a->tbf.closed != b->tbf.closed || a->tbf.limit_bytes != b->tbf.limit_bytes)
		return false;
	if (a->tbf.closed)
		return true;
	if (a->tbf.rate_bps / BITS != b->tbf.rate_bps / BITS || a->tbf.rate_bps < BITS)
		return false;
	ticks = (int64_t)tc_burst_ticks(a->tbf.rate_bps, a->tbf.burst_bytes, tick_ns) -
		tc_burst_ticks(a->tbf.rate_bps, b->tbf.burst_bytes, tick_ns);
	return ticks >= -1 && ticks <= 1;
}

static int tbf_describe(const struct tc_object *obj, char *buf, size_t size)
{
	if (obj->tbf.closed)
		return snprintf(buf, size, "closed limit %u B", obj->tbf.limit_bytes);
	return snprintf(buf, size, "rate %llu bit/s burst %u B limit %u B",
		(unsigned long long)obj->tbf.rate_bps, obj->tbf.burst_bytes, obj->tbf.limit_bytes);
}

static bool fifo_put(
	struct nlmsghdr *nlh, size_t size, const struct tc_object *obj, uint32_t tick_ns)
{
	const struct tc_fifo_qopt opt = {.limit = obj->fifo.limit};

	(void)tick_ns;
	return mnl_attr_put_check(nlh, size, TCA_OPTIONS, sizeof(opt), &opt);
}

static bool fifo_get(const struct nlattr *attr, struct tc_object *obj, uint32_t tick_ns)
{
	struct tc_fifo_qopt opt;

	(void)tick_ns;
	if (mnl_attr_get_payload_len(attr) < sizeof(opt))
		return false;
	memcpy(&opt, mnl_attr_get_payload(attr), sizeof(opt));
	obj->fifo.limit = opt.limit;
	return true;
}

static bool fifo_equal(const struct tc_object *a, const struct tc_object *b, uint32_t tick_ns)
{
	(void)tick_ns;
	return a->fifo.limit == b->fifo.limit;
}

static int fifo_describe(const struct tc_object *obj, char *buf, size_t size)
{
	return snprintf(
		buf, size, "limit %u%s", obj->fifo.limit, obj->kind == TC_BFIFO ? " B" : "");
}

static const char *nothing_to_check(const struct tc_object *obj)
{
	(void)obj;
	return NULL;
}

static const struct tc_kind_ops kinds[] = {
	[TC_HTB] = {"htb", htb_check, htb_put, htb_get, htb_equal, htb_describe},
	[TC_HTB_CLASS] = {"htb", htb_class_check, htb_class_put, htb_class_get, htb_class_equal,
		htb_class_describe},
	[TC_TBF] = {"tbf", tbf_check, tbf_put, tbf_get, tbf_equal, tbf_describe},
	[TC_BFIFO] = {"bfifo", nothing_to_check, fifo_put, fifo_get, fifo_equal, fifo_describe},
	[TC_PFIFO] = {"pfifo", nothing_to_check, fifo_put, fifo_get, fifo_equal, fifo_describe},
};

const struct tc_kind_ops *tc_kind_ops(enum tc_kind kind)
{
	return (size_t)kind < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[kind] : NULL;
}
