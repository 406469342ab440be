// SPDX-License-Identifier: BSD-2-Clause
// A port as it should be against a port as it is, step by step.
#include "reconcile/plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/compile.h"
#include "quench/abi.h"
#include "reconcile/apply.h"
#include "reconcile/desired.h"

#define VALUES_MAX    256
#define CONF_TEXT_MAX 512

/* ---- the lists ---- */

/* Room for one more of size bytes at the end of the list, zeroed; NULL without memory. */
static void *append(struct plan *plan, void **list, size_t *count, size_t *room, size_t size)
{
	size_t more = *room ? 2 * *room : 16;
	void *grown = *list, *item;

	if (*count == *room) {
		grown = reallocarray(*list, more, size);
		if (!grown) {
			plan->code = -ENOMEM;
			return NULL;
		}
		*list = grown;
		*room = more;
	}
	item = (char *)grown + (*count)++ * size;
	return memset(item, 0, size);
}

static struct plan_step *add_step(struct plan *plan, enum plan_action action, const char *kind)
{
	static struct plan_step nowhere;
	struct plan_step *step = append(
		plan, (void **)&plan->steps, &plan->steps_count, &plan->steps_room, sizeof(*step));

	step = step ? step : &nowhere;
	step->action = action;
	step->kind = kind;
	return step;
}

void plan_add_warning(struct plan *plan, const char *code, const char *fmt, ...)
{
	struct plan_warning *warning = append(plan, (void **)&plan->warnings, &plan->warnings_count,
		&plan->warnings_room, sizeof(*warning));
	va_list ap;

	if (!warning)
		return;
	warning->code = code;
	va_start(ap, fmt);
	vsnprintf(warning->text, sizeof(warning->text), fmt, ap);
	va_end(ap);
}

void plan_block(struct plan *plan, const char *why)
{
	struct plan_step *step = add_step(plan, PLAN_BLOCKED, "port");

	snprintf(step->to, sizeof(step->to), "%s", why);
}

size_t plan_count(const struct plan *plan, enum plan_action action)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->steps_count; i++)
		count += plan->steps[i].action == action;
	return count;
}

void plan_free(struct plan *plan)
{
	free(plan->steps);
	free(plan->warnings);
	*plan = (struct plan){};
}

/* ---- queues ---- */

static bool is_leaf(const struct tc_object *obj)
{
	uint32_t major = obj->handle >> 16;

	return tc_is_class(obj) ? major >= TREE_INNER && major < TREE_INNER + CLASSES_MAX
				: major >= TREE_SLOT_LEAF;
}

static struct plan_step *add_object(
	struct plan *plan, enum plan_action action, const struct tc_object *obj)
{
	struct plan_step *step = add_step(plan, action, tc_is_class(obj) ? "class" : "qdisc");

	step->leaf = is_leaf(obj);
	tc_name(obj, step->name, sizeof(step->name));
	tc_place(obj, step->place, sizeof(step->place));
	return step;
}

/* Up to the next space; what follows it. */
static const char *take_word(const char *from, char *word, size_t size)
{
	size_t len = strcspn(from, " ");

	snprintf(word, size, "%.*s", (int)len, from);
	return from + len + (from[len] == ' ');
}

static void add_words(char *buf, size_t size, const char *key, const char *value)
{
	size_t used = strlen(buf);

	snprintf(buf + used, size - used, "%s%s %s", used ? ", " : "", key, value);
}

/* Of two texts of keys and values in the same order: the values that differ, with their keys. */
static void keep_differences(const char *old, const char *new, struct plan_step *step)
{
	char key[32] = "", a[32], b[32];

	while (*old && *new) {
		old = take_word(old, a, sizeof(a));
		new = take_word(new, b, sizeof(b));
		if (strcmp(a, b)) {
			add_words(step->from, sizeof(step->from), key, a);
			add_words(step->to, sizeof(step->to), key, b);
		}
		snprintf(key, sizeof(key), "%s", b);
	}
}

static void add_change(
	struct plan *plan, const struct tc_object *have, const struct tc_object *want)
{
	struct plan_step *step = add_object(plan, PLAN_CHANGE, want);
	char old[VALUES_MAX], new[VALUES_MAX], place[sizeof(step->place)];

	keep_differences(
		tc_values(have, old, sizeof(old)), tc_values(want, new, sizeof(new)), step);
	tc_place(have, place, sizeof(place));
	if (strcmp(place, step->place))
		add_words(step->from, sizeof(step->from), "at", place);
}

/* What the running agent sets by itself counts as what policy says. */
static struct tc_object settled(const struct tc_object *have, const struct tc_object *want)
{
	struct tc_object obj = *have;

	if (want->kind == TC_TBF && have->kind == TC_TBF && have->tbf.closed) {
		obj.tbf = want->tbf;
		obj.tbf.limit_bytes = have->tbf.limit_bytes;
	}
	if (want->kind == TC_HTB_CLASS && have->kind == TC_HTB_CLASS &&
		want->handle >> 16 != TREE_ROOT && TC_H_MIN(want->handle) >= MINOR_QP) {
		obj.htb_class = want->htb_class;
		obj.htb_class.quantum_bytes = have->htb_class.quantum_bytes;
		obj.htb_class.prio = have->htb_class.prio;
	}
	return obj;
}

static void plan_object(struct plan *plan, const struct tc_object *want,
	const struct tc_object *have, uint32_t tick_ns)
{
	struct plan_step *step;
	struct tc_object now;

	if (!have) {
		step = add_object(plan, PLAN_CREATE, want);
		tc_values(want, step->to, sizeof(step->to));
		return;
	}
	now = settled(have, want);
	if (!tc_equal(want, &now, tick_ns))
		add_change(plan, &now, want);
}

/* TBF's class comes and goes with its qdisc. */
static bool may_be_ours(const struct tc_object *obj)
{
	uint32_t major = obj->handle >> 16;

	return major >= TREE_ROOT && major < TREE_END && obj->kind != TC_OTHER_CLASS;
}

/* The kernel's own root goes, and comes back by itself when ours does. */
static void plan_default(struct plan *plan, const struct tc_object *root)
{
	struct plan_step *step;

	if (!root || root->handle)
		return;
	step = add_step(plan, PLAN_DELETE, "qdisc");
	snprintf(step->name, sizeof(step->name), "%.40s qdisc",
		root->kind == TC_OTHER ? root->other.kind : "default");
	snprintf(step->place, sizeof(step->place), "root");
	snprintf(step->from, sizeof(step->from), "the kernel's own, back when ours goes");
}

/* The objects of a device, each to be taken by the wanted one that it stands for. */
struct found {
	const struct tc_object **index; /* sorted by tree_order */
	bool *taken;
	size_t n;
};

static int found_open(struct found *found, const struct plan_facts *facts)
{
	found->n = facts->have_count;
	found->index = calloc(found->n + 1, sizeof(*found->index));
	found->taken = calloc(found->n + 1, sizeof(*found->taken));
	if (!found->index || !found->taken)
		return -ENOMEM;
	for (size_t i = 0; i < found->n; i++)
		found->index[i] = &facts->have[i];
	qsort(found->index, found->n, sizeof(*found->index), tree_order);
	return 0;
}

static void found_close(struct found *found)
{
	free(found->index);
	free(found->taken);
}

static const struct tc_object *found_take(struct found *found, const struct tc_object *want)
{
	const struct tc_object **at =
		bsearch(&want, found->index, found->n, sizeof(*found->index), tree_order);

	if (!at)
		return NULL;
	found->taken[at - found->index] = true;
	return *at;
}

/* Of a tree of ours that is there already: the difference. */
static void plan_tree(
	struct plan *plan, const struct tc_object *want, size_t n, const struct plan_facts *facts)
{
	struct found found;

	plan->code = found_open(&found, facts) ? -ENOMEM : plan->code;
	for (size_t i = 0; i < n && !plan->code; i++)
		plan_object(plan, &want[i], found_take(&found, &want[i]), facts->tick_ns);
	for (size_t i = 0; i < found.n && !plan->code; i++)
		if (!found.taken[i] && may_be_ours(found.index[i]))
			tc_values(found.index[i],
				add_object(plan, PLAN_DELETE, found.index[i])->from,
				sizeof(plan->steps->from));
	found_close(&found);
}

static void plan_filter(struct plan *plan, bool there)
{
	struct plan_step *step;

	if (there)
		return;
	step = add_step(plan, PLAN_CREATE, "filter");
	snprintf(step->name, sizeof(step->name), "bpf filter quench_root");
	snprintf(step->place, sizeof(step->place), "parent %x:", TREE_ROOT);
	snprintf(step->to, sizeof(step->to), "preference %d", TREE_FILTER_PREFERENCE);
}

static void plan_queues(struct plan *plan, const struct policy *policy,
	const struct policy_port *port, const struct plan_facts *facts)
{
	const struct tc_object *root = tree_root(facts->have, facts->have_count);
	struct plan_facts nothing = {.tick_ns = facts->tick_ns};
	bool ours = tree_root_is_ours(root);
	struct tree_spec spec;
	struct tc_object *want;
	struct qerr err;
	size_t n;

	desired_spec(&spec, policy, port, facts->link.mtu_bytes);
	if (!ours && tree_root_check(facts->have, facts->have_count, port->replace_mq, &err))
		return plan_block(plan, err.text);
	if (tree_build(&spec, &want, &n, &err))
		return plan_block(plan, err.text);
	plan_default(plan, root);
	plan_tree(plan, want, n, ours ? facts : &nothing);
	plan_filter(plan, ours && facts->filter);
	free(want);
}

static void plan_no_queues(struct plan *plan, const struct plan_facts *facts)
{
	if (tree_root_is_ours(tree_root(facts->have, facts->have_count)))
		plan_tree(plan, NULL, 0, facts);
}

/* ---- what programs are told ---- */

/* "26+48", or "none". */
static void members(const uint8_t *classes, size_t n, size_t cls, char *buf, size_t size)
{
	size_t used = 0;

	snprintf(buf, size, "none");
	for (size_t i = 0; i < n && used < size; i++)
		if (classes[i] == cls)
			used += (size_t)snprintf(
				buf + used, size - used, "%s%zu", used ? "+" : "", i);
}

static void class_values(const struct conf *conf, size_t cls, char *buf, size_t size)
{
	const struct class_conf *c = &conf->classes[cls];
	double pmax = (double)c->slope * (c->kmax_bytes - c->kmin_bytes) / COMPILE_SLOPE_ONE;
	char dscp[256], pcp[32];

	members(conf->dscp_class, sizeof(conf->dscp_class), cls, dscp, sizeof(dscp));
	members(conf->pcp_class, sizeof(conf->pcp_class), cls, pcp, sizeof(pcp));
	snprintf(buf, size,
		"priority %u dscp %s pcp %s limit %u kmin %u kmax %u pmax %.3g%% xoff %u xon %u "
		"multicast %s",
		c->priority, dscp, pcp, c->limit_bytes, c->kmin_bytes, c->kmax_bytes, pmax * 100,
		c->xoff_bytes, c->xon_bytes, c->unicast_only ? "no" : "yes");
}

static void shared_values(const struct conf *conf, char *buf, size_t size)
{
	snprintf(buf, size,
		"cnp.interval %lluns cnp.dscp %u cnp.priority %u pfc.budget %u roce_port %u",
		(unsigned long long)conf->cnp_interval_ns, conf->cnp_tos >> 2, conf->cnp_pcp,
		conf->pfc_budget_per_s, WIRE_HTONS(conf->udp_ports.roce));
}

static void add_conf(struct plan *plan, const char *name, const char *old, const char *new)
{
	struct plan_step *step;

	if (!strcmp(old, new))
		return;
	step = add_step(plan, PLAN_CHANGE, "conf");
	snprintf(step->name, sizeof(step->name), "%s", name);
	keep_differences(old, new, step);
}

void plan_conf(struct plan *plan, const struct policy *policy, const struct conf *want,
	const struct conf *have)
{
	char old[CONF_TEXT_MAX], new[CONF_TEXT_MAX], name[64];

	shared_values(have, old, sizeof(old));
	shared_values(want, new, sizeof(new));
	add_conf(plan, "configuration", old, new);
	for (size_t c = 0; c < policy->classes_count; c++) {
		class_values(have, c, old, sizeof(old));
		class_values(want, c, new, sizeof(new));
		snprintf(name, sizeof(name), "class %s", policy->classes[c].name);
		add_conf(plan, name, old, new);
	}
}

/* ---- programs ---- */

static void add_program(struct plan *plan, enum plan_action action, const char *kind,
	const char *hook, const char *from, const char *to)
{
	struct plan_step *step = add_step(plan, action, kind);

	snprintf(step->name, sizeof(step->name), "%s", hook);
	snprintf(step->from, sizeof(step->from), "%s", from);
	snprintf(step->to, sizeof(step->to), "%s", to);
}

static void plan_xdp(
	struct plan *plan, const struct policy_port *port, const struct plan_facts *facts)
{
	const struct hook_program *there = &facts->hooks.xdp;
	char why[128];

	if (there->id && !there->ours) {
		snprintf(why, sizeof(why),
			"another XDP program (id %u, %s) is attached; quench does not replace it",
			there->id, *there->name ? there->name : "no name");
		return plan_block(plan, why);
	}
	if (!there->id)
		add_program(plan, PLAN_CREATE, "xdp", "xdp", "",
			port->xdp == PORT_XDP_GENERIC_OK ? "quench_xdp, native or else generic"
							 : "quench_xdp, native");
}

static const struct hook_program *chain_ours(const struct hook_chain *chain)
{
	for (size_t i = 0; i < chain->count; i++)
		if (chain->programs[i].ours)
			return &chain->programs[i];
	return NULL;
}

/* The kernel cuts the names of programs. */
static bool is_named(const struct hook_program *program, const char *name)
{
	return !strncmp(program->name, name, sizeof(program->name) - 1);
}

/* wanted is the program's name, or NULL. */
static void plan_tcx(
	struct plan *plan, const char *wanted, const struct hook_chain *chain, const char *hook)
{
	const struct hook_program *there = chain_ours(chain);

	if (wanted && !there)
		add_program(plan, PLAN_CREATE, "tcx", hook, "", wanted);
	else if (!wanted && there)
		add_program(plan, PLAN_DELETE, "tcx", hook, there->name, "");
	else if (wanted && !is_named(there, wanted))
		add_program(plan, PLAN_CHANGE, "tcx", hook, there->name, wanted);
}

static const char *wanted_ingress(const struct policy *policy, const struct policy_port *port)
{
	bool notifies = compile_port_flags(policy, port) & PORT_NOTIFY_INGRESS;

	return notifies && desired_hooks(policy, port) ? "quench_tc_ingress" : NULL;
}

static const char *wanted_egress(const struct policy *policy, const struct policy_port *port)
{
	uint32_t flags = compile_port_flags(policy, port);

	if (!desired_hooks(policy, port))
		return NULL;
	return flags & (PORT_NOTIFY_EGRESS | PORT_PAUSES) ? "quench_tc_ahead" : "quench_tc_egress";
}

static void plan_programs(struct plan *plan, const struct policy *policy,
	const struct policy_port *port, const struct plan_facts *facts)
{
	plan_xdp(plan, port, facts);
	plan_tcx(plan, wanted_ingress(policy, port), &facts->hooks.ingress, "tcx ingress");
	plan_tcx(plan, wanted_egress(policy, port), &facts->hooks.egress, "tcx egress");
}

void plan_port(struct plan *plan, const struct policy *policy, const struct policy_port *port,
	const struct plan_facts *facts)
{
	plan_programs(plan, policy, port, facts);
	if (policy_port_has_queues(port))
		plan_queues(plan, policy, port, facts);
	else
		plan_no_queues(plan, facts);
	plan_warn(plan, policy, port, facts);
}

void plan_leave(struct plan *plan, const struct plan_facts *facts)
{
	if (facts->hooks.xdp.ours)
		add_program(plan, PLAN_DELETE, "xdp", "xdp", facts->hooks.xdp.name, "");
	plan_tcx(plan, NULL, &facts->hooks.ingress, "tcx ingress");
	plan_tcx(plan, NULL, &facts->hooks.egress, "tcx egress");
	plan_no_queues(plan, facts);
}
