// SPDX-License-Identifier: BSD-2-Clause
// The pairs of this machine's own QPs: told ones as they are, the others from frames both ways.
#include "control/local.h"

#include <stdlib.h>
#include <string.h>

static int compare_u32(uint32_t a, uint32_t b)
{
	return (a > b) - (a < b);
}

static int compare_qps(const void *a, const void *b)
{
	const struct local_qp *x = a, *y = b;
	int order = compare_u32(x->self.qpn, y->self.qpn);

	return order ? order : compare_u32(x->device, y->device);
}

void local_sort(struct local_qp *qps, size_t count)
{
	if (count)
		qsort(qps, count, sizeof(*qps), compare_qps);
}

/* The first QP whose QPN is not below that one. */
static struct local_qp *first_at(struct local *l, uint32_t qpn)
{
	size_t from = 0, to = l->qps_count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (l->qps[middle].self.qpn < qpn)
			from = middle + 1;
		else
			to = middle;
	}
	return l->qps + from;
}

static bool has_address(const struct local *l, uint32_t device, const __be32 addr[4])
{
	for (size_t i = 0; i < l->addresses_count; i++)
		if (l->addresses[i].device == device &&
			!memcmp(l->addresses[i].addr, addr, sizeof(l->addresses[i].addr)))
			return true;
	return false;
}

static bool is_between(const struct local_qp *qp, const __be32 self[4], const __be32 peer[4])
{
	return !memcmp(qp->self.addr, self, sizeof(qp->self.addr)) &&
	       !memcmp(qp->peer.addr, peer, sizeof(qp->peer.addr));
}

static void set_addresses(struct local_qp *qp, const __be32 self[4], const __be32 peer[4])
{
	memcpy(qp->self.addr, self, sizeof(qp->self.addr));
	memcpy(qp->peer.addr, peer, sizeof(qp->peer.addr));
	qp->addresses = LOCAL_SEEN;
}

static void see(struct local_qp *qp, const struct flow_key *in, local_sent_fn sent, void *arg)
{
	struct flow_key out = {.dst_qpn = qp->peer.qpn};

	memcpy(out.src, in->dst, sizeof(out.src));
	memcpy(out.dst, in->src, sizeof(out.dst));
	if (!sent(arg, &out))
		return;
	if (qp->addresses == LOCAL_UNKNOWN)
		set_addresses(qp, in->dst, in->src);
	else if (!is_between(qp, in->dst, in->src))
		qp->addresses = LOCAL_AMBIGUOUS;
}

void local_see(struct local *l, const struct flow_key *key, local_sent_fn sent, void *arg)
{
	struct local_qp *end = l->qps + l->qps_count;

	for (struct local_qp *qp = first_at(l, key->dst_qpn);
		qp < end && qp->self.qpn == key->dst_qpn; qp++)
		if ((qp->addresses == LOCAL_UNKNOWN || qp->addresses == LOCAL_SEEN) &&
			has_address(l, qp->device, key->dst))
			see(qp, key, sent, arg);
}

void local_keep(struct local *l, const struct endpoint *self, const struct endpoint *peer)
{
	struct local_qp *end = l->qps + l->qps_count;

	for (struct local_qp *qp = first_at(l, self->qpn); qp < end && qp->self.qpn == self->qpn;
		qp++)
		if (qp->addresses == LOCAL_UNKNOWN && qp->peer.qpn == peer->qpn &&
			has_address(l, qp->device, self->addr))
			set_addresses(qp, self->addr, peer->addr);
}

static int compare_pairs(const void *a, const void *b)
{
	const struct local_pair *x = a, *y = b;
	int order = memcmp(&x->from, &y->from, sizeof(x->from));

	return order ? order : memcmp(&x->to, &y->to, sizeof(x->to));
}

static const struct local_pair *find(const struct local_pair *pairs, size_t count,
	const struct endpoint *from, const struct endpoint *to)
{
	const struct local_pair wanted = {.from = *from, .to = *to};

	return count ? bsearch(&wanted, pairs, count, sizeof(*pairs), compare_pairs) : NULL;
}

/* Both directions of every pair that has addresses. */
static size_t list_pairs(const struct local *l, struct local_pair *pairs)
{
	size_t count = 0;

	for (size_t i = 0; i < l->qps_count; i++) {
		const struct local_qp *qp = &l->qps[i];

		if (qp->addresses != LOCAL_TOLD && qp->addresses != LOCAL_SEEN)
			continue;
		pairs[count++] = (struct local_pair){.from = qp->self, .to = qp->peer};
		pairs[count++] = (struct local_pair){.from = qp->peer, .to = qp->self};
	}
	if (count)
		qsort(pairs, count, sizeof(*pairs), compare_pairs);
	return count;
}

static bool same_end(const struct endpoint *a, const struct endpoint *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* An end has one other end. The same pair twice is one between two QPs of this machine. */
static void mark_contradicted(struct local_pair *pairs, size_t count)
{
	size_t next;

	for (size_t i = 0; i < count; i = next) {
		for (next = i + 1; next < count && same_end(&pairs[i].from, &pairs[next].from);
			next++)
			;
		for (size_t k = i; k < next; k++)
			pairs[k].contradicted = !same_end(&pairs[i].to, &pairs[next - 1].to);
	}
}

size_t local_pairs(const struct local *l, struct local_pair *pairs)
{
	size_t count = list_pairs(l, pairs), kept = 0;

	mark_contradicted(pairs, count);
	for (size_t i = 0; i < count; i++) {
		const struct local_pair *back = find(pairs, count, &pairs[i].to, &pairs[i].from);

		pairs[i].dropped = pairs[i].contradicted || back->contradicted ||
				   (i && !compare_pairs(&pairs[i - 1], &pairs[i]));
	}
	for (size_t i = 0; i < count; i++)
		if (!pairs[i].dropped)
			pairs[kept++] = pairs[i];
	return kept;
}

bool local_has_pair(const struct local_pair *pairs, size_t count, const struct endpoint *a,
	const struct endpoint *b)
{
	return find(pairs, count, a, b);
}
