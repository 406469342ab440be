// SPDX-License-Identifier: BSD-2-Clause
// One ICRC, built four ways: for BPF, for the host, in the lab's peer, and written again as an
// oracle. All of them must say the same of every vector.
#include "prog.h"

#include "prog/verdict.h"
#include "prog/verdict.skel.h"

#define HEX_FILE   BUILD_DIR "/prog/icrc.hex"
#define ORACLE	   "tests/oracle/icrc.py <" HEX_FILE
#define LAB_PEER   BUILD_DIR "/lab/rcpeer icrc <" HEX_FILE
#define ICRC_COUNT 16

enum { VERDICT_PASS = 2, VERDICT_ABORTED = 0 }; /* XDP_PASS, XDP_ABORTED */
enum { ICRC_HEX = 2 * ICRC_BYTES + 1 };

static struct verdict_bpf *skel;

static int open_all(void **state)
{
	skel = verdict_bpf__open_and_load();
	return skel ? read_vectors(state) : -1;
}

static int close_all(void **state)
{
	verdict_bpf__destroy(skel);
	return free_vectors(state);
}

/* The ICRC of the frame by the BPF build; *retval is what the program returned. */
static __u32 icrc_bpf(const __u8 *frame, size_t len, __u32 *retval)
{
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame, .data_size_in = len);

	assert_int_equal(
		bpf_prog_test_run_opts(bpf_program__fd(skel->progs.quench_verdict), &run), 0);
	*retval = run.retval;
	return skel->bss->verdict.icrc;
}

static void icrc_to_hex(__u32 icrc, char hex[ICRC_HEX])
{
	snprintf(hex, ICRC_HEX, "%02x%02x%02x%02x", icrc & 0xff, icrc >> 8 & 0xff,
		icrc >> 16 & 0xff, icrc >> 24);
}

static bool has_whole_icrc(const struct row *r)
{
	struct wire_frame f = parse(r->frame, r->len);

	return f.bth_off && f.icrc_off && f.icrc_off + (size_t)ICRC_BYTES <= r->len;
}

/* ICRCs in BPF and on the host; of unknown opcodes too, which carry one all the same. */
static void icrc_of_every_whole_vector_equals_host(void **state)
{
	size_t i, j, judged = 0;
	__u32 retval;

	(void)state;
	for (i = 0; i < COUNT(all_rows); i++)
		for (j = 0; j < all_rows[i]->count; j++) {
			const struct row *r = &all_rows[i]->row[j];
			struct wire_frame f = parse(r->frame, r->len);
			__u32 icrc;

			if (r->len < ETH_HEADER_BYTES || !has_whole_icrc(r))
				continue;
			icrc = icrc_bpf(r->frame, r->len, &retval);
			assert_int_equal(retval, VERDICT_PASS);
			if (icrc != wire_icrc(r->frame, &f))
				fail_msg("%s: BPF says %#x, the host %#x", r->field[0], icrc,
					wire_icrc(r->frame, &f));
			judged++;
		}
	assert_true(judged > 210);
}

static void icrc_of_cut_frame_is_not_made_up(void **state)
{
	const struct row *r = find_row(&frame_rows, "headers_whole_payload_cut");
	__u32 retval;

	(void)state;
	icrc_bpf(r->frame, r->len, &retval);
	assert_int_equal(retval, VERDICT_ABORTED);
}

static void write_hex_file(const struct rows *rows)
{
	FILE *file = fopen(HEX_FILE, "w");
	size_t i;

	if (!file)
		fail_msg(HEX_FILE ": %s", strerror(errno));
	for (i = 0; i < rows->count; i++)
		fprintf(file, "%s\n", rows->row[i].field[FIELDS_MAX - 1]);
	assert_int_equal(fclose(file), 0);
}

/* Run a command that prints a line a frame, and take the ICRC and the verdict out of each. */
static void read_icrcs(const char *command, const char *format, char icrc[][ICRC_HEX])
{
	FILE *pipe = popen(command, "r");
	char line[128], verdict[8];
	size_t i;

	assert_non_null(pipe);
	for (i = 0; i < ICRC_COUNT; i++) {
		if (!fgets(line, sizeof(line), pipe))
			fail_msg("%s: %zu lines", command, i);
		if (sscanf(line, format, icrc[i], verdict) != 2 || strcmp(verdict, "ok"))
			fail_msg("%s: %s", command, line);
	}
	assert_null(fgets(line, sizeof(line), pipe));
	assert_int_equal(pclose(pipe), 0);
}

static void icrc_of_every_icrc_vector_is_the_same_in_four_builds(void **state)
{
	char oracle[ICRC_COUNT][ICRC_HEX], peer[ICRC_COUNT][ICRC_HEX];
	size_t i;
	int wrong = 0;
	__u32 retval;

	(void)state;
	assert_int_equal(icrc_rows.count, ICRC_COUNT);
	write_hex_file(&icrc_rows);
	read_icrcs(ORACLE, "%8s %7s", oracle);
	read_icrcs(LAB_PEER, "%*s %*s %8s %7s", peer);
	printf("%-28s %-8s %-8s %-8s %-8s %-8s\n", "frame", "file", "host", "BPF", "peer",
		"oracle");
	for (i = 0; i < icrc_rows.count; i++) {
		const struct row *r = &icrc_rows.row[i];
		struct wire_frame f = parse(r->frame, r->len);
		const char *file = r->field[6];
		char host[ICRC_HEX], bpf[ICRC_HEX];

		icrc_to_hex(wire_icrc(r->frame, &f), host);
		icrc_to_hex(icrc_bpf(r->frame, r->len, &retval), bpf);
		printf("%-28s %s %s %s %s %s\n", r->field[0], file, host, bpf, peer[i], oracle[i]);
		wrong += strcmp(host, file) || strcmp(bpf, file) || strcmp(peer[i], file) ||
			 strcmp(oracle[i], file);
	}
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(icrc_of_every_whole_vector_equals_host),
		cmocka_unit_test(icrc_of_cut_frame_is_not_made_up),
		cmocka_unit_test(icrc_of_every_icrc_vector_is_the_same_in_four_builds),
	};

	if (refuse_without_root("test_vectors"))
		return 1;
	return cmocka_run_group_tests_name("prog_vectors", tests, open_all, close_all);
}
