// SPDX-License-Identifier: BSD-2-Clause
// The rules of a policy that look at more than one value.
#include <inttypes.h>
#include <string.h>

#include "policy/fields.h"
#include "policy/marks.h"
#include "policy/presets.h"
#include "policy/reader.h"
#include "quench/wire.h"
#include "policy/text.h"
#include "policy/units.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define MTU_MIN_BYTES 1500 /* that a port may be assumed to have */

static bool all_good(struct reader *reader, struct path a, struct path b)
{
	return reader_state(reader, a) == VALUE_GOOD && reader_state(reader, b) == VALUE_GOOD;
}

static void check_port_rate(struct reader *reader, size_t i)
{
	const struct policy_port *port = &reader->policy->ports[i];
	const struct field *rate = field_find_path("ports[].rate");
	char allowed[64];

	if (reader_state(reader, path_of("ports[%zu].role", i)) != VALUE_GOOD ||
		reader_state(reader, path_of("ports[%zu].rate", i)) != VALUE_ABSENT ||
		port->role == PORT_MONITOR)
		return;
	field_allowed(rate, allowed, sizeof(allowed));
	reader_fault(reader, path_of("ports[%zu].rate", i),
		"is missing and required for the roles gateway and host; allowed %s", allowed);
}

static void check_port_name(struct reader *reader, size_t i)
{
	const struct policy_port *ports = reader->policy->ports;

	for (size_t j = 0; j < i && *ports[i].name && !strpbrk(ports[i].name, "*?["); j++) {
		if (strcmp(ports[i].name, ports[j].name))
			continue;
		reader_fault(reader, path_of("ports[%zu].name", i),
			"%s is already the name of ports[%zu]; allowed once",
			text_quote(ports[i].name).text, j);
		return;
	}
}

/* A port that trusts a field which no class is told by would put everything into best effort. */
static void check_port_trust(struct reader *reader, size_t i)
{
	const struct policy *policy = reader->policy;
	enum port_trust trust = policy->ports[i].trust;
	bool told = trust != TRUST_DSCP && trust != TRUST_PCP;

	for (size_t c = 0; c < policy->classes_count; c++)
		told |= trust == TRUST_DSCP ? policy->classes[c].dscp_mask != 0
					    : policy->classes[c].pcp_mask != 0;
	if (!told && policy->classes_count && policy->ports[i].role != PORT_MONITOR &&
		reader_usable(reader, path_of("classes")))
		reader_fault(reader, path_of("ports[%zu].trust", i),
			"no class has a %s, so every frame would be best effort; allowed dscp-pcp "
			"or "
			"pcp-dscp",
			trust == TRUST_DSCP ? "dscp" : "pcp");
}

/* With line_rate auto a QP of this port moves between min_rate and the port's rate. */
static void check_port_min_rate(struct reader *reader, size_t i)
{
	const struct policy_port *port = &reader->policy->ports[i];
	const struct policy_dcqcn *dcqcn = &reader->policy->dcqcn;

	if (reader_state(reader, path_of("ports[%zu].rate", i)) != VALUE_GOOD ||
		!reader_usable(reader, path_of("dcqcn.min_rate")) ||
		!reader_usable(reader, path_of("dcqcn.line_rate")) || dcqcn->rate.line_rate_bps ||
		port->role != PORT_HOST || port->rate_bps >= dcqcn->rate.min_rate_bps)
		return;
	reader_fault(reader, path_of("ports[%zu].rate", i),
		"%s is below dcqcn.min_rate; allowed %s or more",
		units_text(UNITS_RATE, port->rate_bps).text,
		units_text(UNITS_RATE, dcqcn->rate.min_rate_bps).text);
}

static void check_ports(struct reader *reader)
{
	for (size_t i = 0; i < reader->policy->ports_count; i++) {
		check_port_name(reader, i);
		check_port_trust(reader, i);
		check_port_rate(reader, i);
		check_port_min_rate(reader, i);
	}
}

static void check_class_name(struct reader *reader, size_t i)
{
	const struct policy_class *classes = reader->policy->classes;

	for (size_t j = 0; j < i && *classes[i].name; j++) {
		if (strcmp(classes[i].name, classes[j].name))
			continue;
		reader_fault(reader, path_of("classes[%zu].name", i),
			"%s is already the name of classes[%zu]; allowed once",
			text_quote(classes[i].name).text, j);
		return;
	}
}

static bool priority_known(struct reader *reader, size_t i)
{
	return reader_state(reader, path_of("classes[%zu].priority", i)) == VALUE_GOOD;
}

static void check_class_priority(struct reader *reader, size_t i)
{
	const struct policy_class *classes = reader->policy->classes;

	for (size_t j = 0; j < i && priority_known(reader, i); j++) {
		if (!priority_known(reader, j) || classes[i].priority != classes[j].priority)
			continue;
		reader_fault(reader, path_of("classes[%zu].priority", i),
			"%u is already the priority of classes[%zu]; allowed once",
			classes[i].priority, j);
		return;
	}
}

/* The first class before i whose set holds the value, or i. */
static size_t earlier_owner(const struct policy *policy, size_t i, bool pcp, uint64_t value)
{
	size_t j;

	for (j = 0; j < i; j++) {
		uint64_t mask = pcp ? policy->classes[j].pcp_mask : policy->classes[j].dscp_mask;

		if (value < 64 && mask & 1ULL << value)
			break;
	}
	return j;
}

/* Each member of the list by itself, so that the fault stands at the member. */
static void check_class_set(struct reader *reader, size_t i, bool pcp)
{
	const char *key = pcp ? "pcp" : "dscp";
	const char *text;
	uint64_t value;

	for (size_t k = 0;; k++) {
		struct path path = path_of("classes[%zu].%s[%zu]", i, key, k);
		size_t owner;

		text = reader_text(reader, path);
		if (!text)
			break;
		if (units_parse_u64(UNITS_COUNT, text, &value, NULL))
			continue;
		owner = earlier_owner(reader->policy, i, pcp, value);
		if (owner < i)
			reader_fault(reader, path,
				"%" PRIu64 " already belongs to classes[%zu]; allowed in one "
				"class",
				value, owner);
	}
}

static void check_class_match(struct reader *reader, size_t i)
{
	const struct policy_class *class = &reader->policy->classes[i];

	if (class->dscp_mask || class->pcp_mask ||
		!reader_usable(reader, path_of("classes[%zu]", i)) ||
		!reader_usable(reader, path_of("classes[%zu].dscp", i)) ||
		!reader_usable(reader, path_of("classes[%zu].pcp", i)))
		return;
	reader_fault(reader, path_of("classes[%zu].dscp", i),
		"nothing would belong to this class; allowed at least one dscp or pcp value");
}

static void check_thresholds(struct reader *reader, size_t i)
{
	const struct policy_class *class = &reader->policy->classes[i];
	struct path kmin = path_of("classes[%zu].ecn.kmin", i);
	struct path kmax = path_of("classes[%zu].ecn.kmax", i);
	struct path limit = path_of("classes[%zu].limit", i);

	if (all_good(reader, kmin, kmax) && class->ecn.kmin_bytes >= class->ecn.kmax_bytes)
		reader_fault(reader, kmin, "%s is not below kmax; allowed less than %s",
			units_text(UNITS_SIZE, class->ecn.kmin_bytes).text,
			units_text(UNITS_SIZE, class->ecn.kmax_bytes).text);
	if (all_good(reader, kmax, limit) && class->ecn.kmax_bytes > class->limit_bytes)
		reader_fault(reader, kmax,
			"%s is above the limit of the class and would never be reached; "
			"allowed up to %s",
			units_text(UNITS_SIZE, class->ecn.kmax_bytes).text,
			units_text(UNITS_SIZE, class->limit_bytes).text);
}

/* The fastest link that the policy names; 0 where a port's rate is not known either. */
static uint64_t fastest_bps(struct reader *reader)
{
	const struct policy *policy = reader->policy;
	uint64_t fastest = 0;

	for (size_t i = 0; i < policy->ports_count; i++) {
		const struct policy_port *port = &policy->ports[i];
		uint64_t speed = port->speed_bps ? port->speed_bps : port->rate_bps;

		if (!reader_usable(reader, path_of("ports[%zu]", i)) ||
			!reader_usable(reader, path_of("ports[%zu].rate", i)) ||
			!reader_usable(reader, path_of("ports[%zu].speed", i)))
			return 0;
		fastest = speed > fastest ? speed : fastest;
	}
	return fastest;
}

static bool marks_known(struct reader *reader, size_t i)
{
	static const char *const keys[] = {
		"limit", "kind", "pfc", "pfc.xoff", "pfc.xon", "ecn", "ecn.kmax"};
	static const char *const pfc_keys[] = {"pfc", "pfc.reaction", "pfc.response", "pfc.cable"};

	for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
		if (!reader_usable(reader, path_of("classes[%zu].%s", i, keys[k])))
			return false;
	for (size_t k = 0; k < ARRAY_SIZE(pfc_keys); k++)
		if (!reader_usable(reader, path_of("%s", pfc_keys[k])))
			return false;
	return reader_usable(reader, path_of("ports")) &&
	       reader_state(reader, path_of("classes[%zu].limit", i)) == VALUE_GOOD;
}

/* What the machine's links and MTUs ask for beyond this shows when the agent starts. */
static void check_marks(struct reader *reader, size_t i)
{
	const struct policy *policy = reader->policy;
	const struct policy_class *class = &policy->classes[i];
	uint64_t speed_bps = fastest_bps(reader);
	struct marks marks;
	struct qerr err;

	if (!class->pfc.present || !speed_bps || !marks_known(reader, i))
		return;
	if (!marks_wanted(class)) {
		reader_fault(reader, path_of("classes[%zu].pfc", i),
			"only a class of kind lossless pauses its neighbours; allowed for none "
			"else");
		return;
	}
	marks_compute(&marks, policy, class, speed_bps, MTU_MIN_BYTES);
	for (size_t k = 0; k < marks_rules_count; k++)
		if (marks_rules[k].check(&marks, &err))
			reader_fault(reader, path_of("classes[%zu].%s", i, marks_rules[k].field),
				"%s", err.text);
}

/* What is assured to all together must be there. */
static void check_shares(struct reader *reader)
{
	const struct policy *policy = reader->policy;
	uint32_t sum = 0;

	for (size_t i = 0; i < policy->classes_count; i++) {
		uint32_t percent = policy->classes[i].share.percent;

		if (percent && sum <= SHARE_MAX_PERCENT && sum + percent > SHARE_MAX_PERCENT)
			reader_fault(reader, path_of("classes[%zu].share", i),
				"%u%% makes %u%% with the classes before; allowed %u%% for all "
				"together, the rest is for CNPs, pauses and best effort",
				percent, sum + percent, SHARE_MAX_PERCENT);
		sum += percent;
	}
}

static void check_classes(struct reader *reader)
{
	check_shares(reader);
	for (size_t i = 0; i < reader->policy->classes_count; i++) {
		check_class_name(reader, i);
		check_class_priority(reader, i);
		check_class_match(reader, i);
		check_class_set(reader, i, false);
		check_class_set(reader, i, true);
		check_thresholds(reader, i);
		check_marks(reader, i);
	}
}

/* Marks that nobody turns into CNPs slow no one down. */
static void check_cnp_generate(struct reader *reader)
{
	const struct policy *policy = reader->policy;

	if (policy->cnp.generate != CNP_OFF ||
		reader_state(reader, path_of("cnp.generate")) != VALUE_GOOD)
		return;
	for (size_t i = 0; i < policy->classes_count; i++) {
		if (!policy->classes[i].ecn.present)
			continue;
		reader_fault(reader, path_of("cnp.generate"),
			"marking without a notification point: classes[%zu] has ecn; allowed "
			"on_ce, or off with no ecn in any class",
			i);
		return;
	}
}

static void check_cnp_priority(struct reader *reader)
{
	const struct policy *policy = reader->policy;

	if (!reader_usable(reader, path_of("cnp.priority")))
		return;
	for (size_t i = 0; i < policy->classes_count; i++) {
		if (priority_known(reader, i) &&
			policy->classes[i].priority == policy->cnp.priority)
			reader_fault(reader, path_of("cnp.priority"),
				"%u is the priority of classes[%zu]; allowed a priority of no "
				"class, CNPs must ride in a class of their own",
				policy->cnp.priority, i);
	}
}

/* A tagged CNP whose priority sorts it among a class's frames would wait, and be paused, with them.
 */
static void check_cnp_pcp(struct reader *reader)
{
	const struct policy *policy = reader->policy;

	if (!reader_usable(reader, path_of("cnp.priority")))
		return;
	for (size_t i = 0; i < policy->classes_count; i++) {
		if (policy->classes[i].pcp_mask & 1u << policy->cnp.priority &&
			policy->classes[i].priority != policy->cnp.priority)
			reader_fault(reader, path_of("cnp.priority"),
				"%u is a pcp of classes[%zu]; allowed a priority that is no "
				"class's pcp, CNPs must ride in a class of their own",
				policy->cnp.priority, i);
	}
}

static void check_cnp_dscp(struct reader *reader)
{
	const struct policy *policy = reader->policy;

	if (!reader_usable(reader, path_of("cnp.dscp")))
		return;
	for (size_t i = 0; i < policy->classes_count; i++) {
		if (policy->classes[i].dscp_mask & 1ULL << policy->cnp.dscp)
			reader_fault(reader, path_of("cnp.dscp"),
				"%u belongs to classes[%zu]; allowed a DSCP of no class, CNPs "
				"must ride in a class of their own",
				policy->cnp.dscp, i);
	}
}

static bool vxlan_has(const struct policy_protocols *protocols, uint16_t port)
{
	for (uint32_t i = 0; i < protocols->vxlan_ports.count; i++)
		if (protocols->vxlan_ports.port[i] == port)
			return true;
	return !protocols->vxlan_ports.given &&
	       (port == VXLAN_UDP_PORT || port == VXLAN_UDP_PORT_OLD);
}

/* A UDP port means one thing. */
static void check_protocols(struct reader *reader)
{
	const struct policy_protocols *protocols = &reader->policy->protocols;
	struct path roce = path_of("protocols.roce_port");
	struct path geneve = path_of("protocols.geneve_port");

	if (vxlan_has(protocols, protocols->roce_port))
		reader_fault(reader, roce, "%u is a VXLAN port; allowed one that is not",
			protocols->roce_port);
	if (protocols->geneve_port && vxlan_has(protocols, protocols->geneve_port))
		reader_fault(reader, geneve, "%u is a VXLAN port; allowed one that is not",
			protocols->geneve_port);
	if (protocols->geneve_port == protocols->roce_port)
		reader_fault(reader, geneve, "%u is RoCE's port; allowed another one",
			protocols->geneve_port);
}

static void check_dcqcn(struct reader *reader)
{
	const struct policy_dcqcn *dcqcn = &reader->policy->dcqcn;
	struct path min_rate = path_of("dcqcn.min_rate");
	struct path line_rate = path_of("dcqcn.line_rate");

	if (!reader_usable(reader, min_rate) || !reader_usable(reader, line_rate) ||
		!dcqcn->rate.line_rate_bps || dcqcn->rate.min_rate_bps <= dcqcn->rate.line_rate_bps)
		return;
	if (reader_state(reader, min_rate) == VALUE_GOOD)
		reader_fault(reader, min_rate, "%s is above line_rate; allowed up to %s",
			units_text(UNITS_RATE, dcqcn->rate.min_rate_bps).text,
			units_text(UNITS_RATE, dcqcn->rate.line_rate_bps).text);
	else
		reader_fault(reader, line_rate,
			"%s is below min_rate, which is %s unless given; allowed %s or more",
			units_text(UNITS_RATE, dcqcn->rate.line_rate_bps).text,
			units_text(UNITS_RATE, dcqcn->rate.min_rate_bps).text,
			units_text(UNITS_RATE, dcqcn->rate.min_rate_bps).text);
}

static bool is_ipv4(const struct policy_endpoint *end)
{
	return IN6_IS_ADDR_V4MAPPED(&end->addr);
}

static bool same_end(const struct policy_endpoint *a, const struct policy_endpoint *b)
{
	return a->qpn == b->qpn && IN6_ARE_ADDR_EQUAL(&a->addr, &b->addr);
}

/* A connected QP has one peer. */
static void check_end_once(
	struct reader *reader, size_t i, const char *key, const struct policy_endpoint *end)
{
	const struct policy_pair *pairs = reader->policy->pairs;

	for (size_t j = 0; j < i && end->qpn; j++) {
		if (!same_end(end, &pairs[j].a) && !same_end(end, &pairs[j].b))
			continue;
		reader_fault(reader, path_of("pairs[%zu].%s", i, key),
			"is already in pairs[%zu]; allowed once, a QP has one peer", j);
		return;
	}
}

static void check_ends(struct reader *reader, size_t i)
{
	const struct policy_pair *pair = &reader->policy->pairs[i];
	struct path b = path_of("pairs[%zu].b", i);

	if (!pair->a.qpn || !pair->b.qpn)
		return;
	if (is_ipv4(&pair->a) != is_ipv4(&pair->b))
		reader_fault(
			reader, b, "mixes IPv4 and IPv6 with a; allowed two ends of one family");
	if (same_end(&pair->a, &pair->b))
		reader_fault(reader, b, "is the same end as a; allowed two different ends");
}

static void check_pairs(struct reader *reader)
{
	for (size_t i = 0; i < reader->policy->pairs_count; i++) {
		check_ends(reader, i);
		check_end_once(reader, i, "a", &reader->policy->pairs[i].a);
		check_end_once(reader, i, "b", &reader->policy->pairs[i].b);
	}
}

void policy_check(struct reader *reader)
{
	presets_take(reader);
	check_ports(reader);
	check_classes(reader);
	check_cnp_generate(reader);
	check_cnp_priority(reader);
	check_cnp_pcp(reader);
	check_cnp_dscp(reader);
	check_dcqcn(reader);
	check_protocols(reader);
	check_pairs(reader);
}
