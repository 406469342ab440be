// SPDX-License-Identifier: BSD-2-Clause
// Which of a driver's statistics are pauses, and of which priority.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "netlink/nic_pauses.h"

static void names_of_drivers_find_their_priority(void **state)
{
	static const char *const received[] = {"rx_prio3_pause", "rx_pause_prio_3", "rx_pb_3_pxoff",
		"port.rx_priority_3_xoff", "port.rx_priority_3_xoff_rx", "rx_priority_3_xoff.nic",
		"rx_pfc_ena_frames_pri3"};
	static const char *const sent[] = {"tx_prio3_pause", "tx_pause_prio_3", "tx_pb_3_pxoff",
		"port.tx_priority_3_xoff", "port.tx_priority_3_xoff_tx", "tx_priority_3_xoff.nic",
		"tx_pfc_ena_frames_pri3"};
	struct nic_pauses p = {};

	(void)state;
	for (size_t i = 0; i < sizeof(received) / sizeof(received[0]); i++) {
		assert_ptr_equal(nic_pauses_place(&p, received[i]), &p.received[3]);
		assert_ptr_equal(nic_pauses_place(&p, sent[i]), &p.sent[3]);
	}
	assert_ptr_equal(nic_pauses_place(&p, "rx_prio7_pause"), &p.received[7]);
	assert_ptr_equal(nic_pauses_place(&p, "tx_pause_prio_0"), &p.sent[0]);
}

static void other_names_are_no_pauses(void **state)
{
	static const char *const others[] = {"", "rx_packets", "rx_prio3_pause_duration",
		"rx_prio3_pause_transition", "rx_prio8_pause", "rx_prio_pause", "rx_pause_ctrl_phy",
		"rx_pause_duration_prio_3", "rx_pb_3_pxon", "port.rx_priority_3_xon",
		"rx_priority_3_xoff.nicer", "x_rx_prio3_pause", "rx_prio4294967299_pause"};
	struct nic_pauses p = {};

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_null(nic_pauses_place(&p, others[i]));
}

static void port_without_such_counters_knows_nothing(void **state)
{
	struct nic_pauses p = {.known = true};

	(void)state;
	nic_pauses_read("lo", &p);
	assert_false(p.known);
	p.known = true;
	nic_pauses_read("no-such-port", &p);
	assert_false(p.known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_drivers_find_their_priority),
		cmocka_unit_test(other_names_are_no_pauses),
		cmocka_unit_test(port_without_such_counters_knows_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
