// SPDX-License-Identifier: BSD-2-Clause
// The programs load, and are no burden on the verifier: how much of them it looks at is printed.
#include "programs.h"

enum { LOOKS_MAX = 100000, LOG_BYTES = 1 << 16, LOG_STATS = 4 };

/* "processed N insns", as the verifier ends its log. */
static unsigned long looks_of(const char *log)
{
	const char *at = strstr(log, "processed ");

	return at ? strtoul(at + strlen("processed "), NULL, 10) : 0;
}

static void programs_each_cost_the_verifier_a_tenth_of_what_it_allows(void **state)
{
	struct quench_bpf *fresh = quench_bpf__open();
	struct bpf_program *program;
	struct bpf_map *map;

	(void)state;
	assert_non_null(fresh);
	fresh->rodata->depth_rdonly_cast = dataplane_kernel_has_function("bpf_rdonly_cast");
	bpf_object__for_each_map(
		map, fresh->obj) if (!bpf_map__is_internal(map) && bpf_map__max_entries(map) == 1)
		bpf_map__set_max_entries(map, 64);
	bpf_object__for_each_program(program, fresh->obj)
	{
		char *log = calloc(1, LOG_BYTES);

		assert_non_null(log);
		assert_int_equal(bpf_program__set_log_buf(program, log, LOG_BYTES), 0);
		assert_int_equal(bpf_program__set_log_level(program, LOG_STATS), 0);
	}
	assert_int_equal(quench_bpf__load(fresh), 0);
	bpf_object__for_each_program(program, fresh->obj)
	{
		size_t bytes;
		const char *log = bpf_program__log_buf(program, &bytes);
		unsigned long looks = looks_of(log);

		print_message("%-20s %6zu instructions, %6lu looked at\n",
			bpf_program__name(program), bpf_program__insn_cnt(program), looks);
		assert_in_range(looks, 1, LOOKS_MAX);
		free((char *)log);
	}
	quench_bpf__destroy(fresh);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_each_cost_the_verifier_a_tenth_of_what_it_allows),
	};

	return cmocka_run_group_tests_name("prog_load", tests, NULL, NULL);
}
