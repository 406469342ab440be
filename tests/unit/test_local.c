// SPDX-License-Identifier: BSD-2-Clause
// The pairs of a machine's own QPs: told, seen in frames, kept, and what is not believed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <string.h>

#include "control/local.h"

enum { DEVICE = 3, OTHER_DEVICE = 4, QPS_MAX = 4, SENT_MAX = 8 };

/* Hosts, by the last byte of their address; HERE and HERE_TOO are this machine's. */
enum { HERE = 1, HERE_TOO = 2, B = 11, C = 12 };

struct fixture {
	struct local_qp qps[QPS_MAX];
	struct local_address addresses[2];
	struct local local;
	struct local_pair pairs[2 * QPS_MAX];
	struct flow_key sent[SENT_MAX];
	size_t sent_count, pairs_count;
};

static void set_address(__be32 addr[4], uint32_t host)
{
	wire_map_ipv4(addr, htonl(0xc0000200 + host));
}

static struct endpoint at(uint32_t host, uint32_t qpn)
{
	struct endpoint end = {.qpn = qpn};

	set_address(end.addr, host);
	return end;
}

static void set_up(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->addresses[0].device = DEVICE;
	f->addresses[1].device = OTHER_DEVICE;
	set_address(f->addresses[0].addr, HERE);
	set_address(f->addresses[1].addr, HERE_TOO);
	f->local = (struct local){.qps = f->qps, .addresses = f->addresses, .addresses_count = 2};
}

static struct local_qp *add_qp(struct fixture *f, uint32_t device, uint32_t qpn, uint32_t peer_qpn)
{
	struct local_qp *qp = &f->qps[f->local.qps_count++];

	qp->device = device;
	qp->self.qpn = qpn;
	qp->peer.qpn = peer_qpn;
	return qp;
}

static void add_told(struct fixture *f, struct endpoint self, struct endpoint peer)
{
	*add_qp(f, DEVICE, 0, 0) =
		(struct local_qp){DEVICE, LOCAL_TOLD, .self = self, .peer = peer};
}

static struct flow_key flow(uint32_t src, uint32_t dst, uint32_t qpn)
{
	struct flow_key key = {.dst_qpn = qpn};

	set_address(key.src, src);
	set_address(key.dst, dst);
	return key;
}

static bool was_sent(void *arg, const struct flow_key *key)
{
	const struct fixture *f = arg;

	for (size_t i = 0; i < f->sent_count; i++)
		if (!memcmp(&f->sent[i], key, sizeof(*key)))
			return true;
	return false;
}

static void send_frames(struct fixture *f, uint32_t src, uint32_t dst, uint32_t qpn)
{
	f->sent[f->sent_count++] = flow(src, dst, qpn);
}

static void receive_frames(struct fixture *f, uint32_t src, uint32_t dst, uint32_t qpn)
{
	struct flow_key key = flow(src, dst, qpn);

	local_see(&f->local, &key, was_sent, f);
}

static size_t count_pairs(struct fixture *f)
{
	f->pairs_count = local_pairs(&f->local, f->pairs);
	return f->pairs_count;
}

static bool has_pair(struct fixture *f, struct endpoint a, struct endpoint b)
{
	return local_has_pair(f->pairs, f->pairs_count, &a, &b);
}

static void told_qp_is_a_pair_in_both_directions(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	add_told(&f, at(HERE, 0x11), at(B, 0x22));
	local_sort(f.qps, f.local.qps_count);
	assert_int_equal(count_pairs(&f), 2);
	assert_true(has_pair(&f, at(HERE, 0x11), at(B, 0x22)));
	assert_true(has_pair(&f, at(B, 0x22), at(HERE, 0x11)));
	assert_false(has_pair(&f, at(HERE, 0x11), at(C, 0x22)));
	assert_false(has_pair(&f, at(HERE, 0x11), at(B, 0x23)));
}

static void no_qps_are_no_pairs(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	local_sort(f.qps, 0);
	receive_frames(&f, B, HERE, 0x11);
	assert_int_equal(count_pairs(&f), 0);
	assert_false(has_pair(&f, at(HERE, 0x11), at(B, 0x22)));
}

static void frames_both_ways_tell_the_addresses(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	add_qp(&f, DEVICE, 0x12, 0x22);
	add_qp(&f, DEVICE, 0x11, 0x22);
	local_sort(f.qps, f.local.qps_count);
	assert_int_equal(count_pairs(&f), 0);
	send_frames(&f, HERE, B, 0x22);
	send_frames(&f, HERE, C, 0x22);
	receive_frames(&f, B, HERE, 0x11);
	receive_frames(&f, C, HERE, 0x12);
	assert_int_equal(count_pairs(&f), 4);
	assert_true(has_pair(&f, at(HERE, 0x11), at(B, 0x22)));
	assert_true(has_pair(&f, at(HERE, 0x12), at(C, 0x22)));
}

static void frames_one_way_tell_nothing(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	add_qp(&f, DEVICE, 0x11, 0x22);
	send_frames(&f, HERE, B, 0x23);
	send_frames(&f, HERE, C, 0x22);
	receive_frames(&f, B, HERE, 0x11);
	receive_frames(&f, C, HERE, 0x12);
	assert_int_equal(count_pairs(&f), 0);
}

static void frames_for_another_devices_address_tell_nothing(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	add_qp(&f, DEVICE, 0x11, 0x22);
	send_frames(&f, HERE_TOO, B, 0x22);
	receive_frames(&f, B, HERE_TOO, 0x11);
	assert_int_equal(count_pairs(&f), 0);
}

static void same_numbers_on_two_devices_are_told_apart(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	add_qp(&f, OTHER_DEVICE, 0x11, 0x22);
	add_qp(&f, DEVICE, 0x11, 0x22);
	local_sort(f.qps, f.local.qps_count);
	send_frames(&f, HERE_TOO, B, 0x22);
	send_frames(&f, HERE, C, 0x22);
	receive_frames(&f, B, HERE_TOO, 0x11);
	receive_frames(&f, C, HERE, 0x11);
	assert_int_equal(count_pairs(&f), 4);
	assert_true(has_pair(&f, at(HERE_TOO, 0x11), at(B, 0x22)));
	assert_true(has_pair(&f, at(HERE, 0x11), at(C, 0x22)));
}

static void qp_seen_with_two_peers_is_no_pair(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	add_qp(&f, DEVICE, 0x11, 0x22);
	send_frames(&f, HERE, B, 0x22);
	send_frames(&f, HERE, C, 0x22);
	receive_frames(&f, B, HERE, 0x11);
	receive_frames(&f, B, HERE, 0x11);
	assert_int_equal(count_pairs(&f), 2);
	receive_frames(&f, C, HERE, 0x11);
	receive_frames(&f, B, HERE, 0x11);
	assert_int_equal(count_pairs(&f), 0);
}

static void told_addresses_are_stronger_than_frames(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	add_told(&f, at(HERE, 0x11), at(B, 0x22));
	send_frames(&f, HERE, C, 0x22);
	receive_frames(&f, C, HERE, 0x11);
	assert_int_equal(count_pairs(&f), 2);
	assert_true(has_pair(&f, at(HERE, 0x11), at(B, 0x22)));
}

static void keep(struct fixture *f, struct endpoint self, struct endpoint peer)
{
	local_keep(&f->local, &self, &peer);
}

static void silent_pair_is_kept_while_its_qp_has_the_same_peer(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	add_qp(&f, DEVICE, 0x11, 0x22);
	add_qp(&f, DEVICE, 0x12, 0x23);
	local_sort(f.qps, f.local.qps_count);
	keep(&f, at(HERE, 0x11), at(B, 0x22));
	keep(&f, at(B, 0x22), at(HERE, 0x11));
	keep(&f, at(HERE, 0x12), at(B, 0x24)); /* another peer by now */
	keep(&f, at(HERE, 0x13), at(B, 0x25)); /* gone */
	assert_int_equal(count_pairs(&f), 2);
	assert_true(has_pair(&f, at(HERE, 0x11), at(B, 0x22)));
}

static void frames_are_newer_than_what_was_kept(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	add_qp(&f, DEVICE, 0x11, 0x22);
	send_frames(&f, HERE, C, 0x22);
	receive_frames(&f, C, HERE, 0x11);
	keep(&f, at(HERE, 0x11), at(B, 0x22));
	assert_int_equal(count_pairs(&f), 2);
	assert_true(has_pair(&f, at(HERE, 0x11), at(C, 0x22)));
}

static void pairs_that_share_an_end_are_none(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	add_told(&f, at(HERE, 0x11), at(B, 0x22));
	add_told(&f, at(HERE, 0x12), at(B, 0x22)); /* the peer's end */
	add_told(&f, at(HERE, 0x13), at(B, 0x23));
	local_sort(f.qps, f.local.qps_count);
	assert_int_equal(count_pairs(&f), 2);
	assert_true(has_pair(&f, at(HERE, 0x13), at(B, 0x23)));

	set_up(&f);
	add_told(&f, at(HERE, 0x11), at(B, 0x22));
	add_told(&f, at(HERE, 0x11), at(C, 0x22)); /* this machine's end */
	assert_int_equal(count_pairs(&f), 0);

	set_up(&f);
	add_told(&f, at(HERE, 0x11), at(HERE_TOO, 0x22));
	add_told(&f, at(HERE_TOO, 0x22), at(HERE, 0x11));
	add_told(&f, at(HERE_TOO, 0x22), at(B, 0x22)); /* of three claims, two agree */
	assert_int_equal(count_pairs(&f), 0);
}

static void two_qps_of_this_machine_are_one_pair(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	add_told(&f, at(HERE, 0x11), at(HERE_TOO, 0x22));
	add_told(&f, at(HERE_TOO, 0x22), at(HERE, 0x11));
	local_sort(f.qps, f.local.qps_count);
	assert_int_equal(count_pairs(&f), 2);
	assert_true(has_pair(&f, at(HERE, 0x11), at(HERE_TOO, 0x22)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(told_qp_is_a_pair_in_both_directions),
		cmocka_unit_test(no_qps_are_no_pairs),
		cmocka_unit_test(frames_both_ways_tell_the_addresses),
		cmocka_unit_test(frames_one_way_tell_nothing),
		cmocka_unit_test(frames_for_another_devices_address_tell_nothing),
		cmocka_unit_test(same_numbers_on_two_devices_are_told_apart),
		cmocka_unit_test(qp_seen_with_two_peers_is_no_pair),
		cmocka_unit_test(told_addresses_are_stronger_than_frames),
		cmocka_unit_test(silent_pair_is_kept_while_its_qp_has_the_same_peer),
		cmocka_unit_test(frames_are_newer_than_what_was_kept),
		cmocka_unit_test(pairs_that_share_an_end_are_none),
		cmocka_unit_test(two_qps_of_this_machine_are_one_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
