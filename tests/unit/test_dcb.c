// SPDX-License-Identifier: BSD-2-Clause
// The DCBX mode in the kernel's answers, whole and spoilt.
#include <errno.h>
#include <linux/dcbnl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "netlink/dcb.h"

static _Alignas(struct nlmsghdr) char buf[256];

/* As dcbnl_getdcbx() answers: the command, then the mode as one byte. */
static struct nlmsghdr *answer(void)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct dcbmsg *dcb;

	nlh->nlmsg_type = RTM_GETDCB;
	dcb = mnl_nlmsg_put_extra_header(nlh, sizeof(*dcb));
	dcb->cmd = DCB_CMD_GDCBX;
	return nlh;
}

static void dcb_mode_is_the_byte_of_its_attribute(void **state)
{
	struct nlmsghdr *nlh = answer();
	uint8_t mode = 0;

	(void)state;
	mnl_attr_put_strz(nlh, DCB_ATTR_IFNAME, "eth0");
	mnl_attr_put_u8(nlh, DCB_ATTR_DCBX, DCB_CAP_DCBX_LLD_MANAGED | DCB_CAP_DCBX_VER_IEEE);
	assert_int_equal(dcb_mode_of(nlh, &mode), 0);
	assert_int_equal(mode, 0x0a);
}

static void dcb_answer_without_a_mode_is_refused(void **state)
{
	struct nlmsghdr *nlh = answer();
	uint8_t mode = 3;

	(void)state;
	assert_int_equal(dcb_mode_of(nlh, &mode), -EBADMSG);
	mnl_attr_put(nlh, DCB_ATTR_DCBX, 0, NULL);
	assert_int_equal(dcb_mode_of(nlh, &mode), -EBADMSG);
	nlh->nlmsg_len = MNL_NLMSG_HDRLEN + sizeof(struct dcbmsg) - 1;
	assert_int_equal(dcb_mode_of(nlh, &mode), -EBADMSG);
	assert_int_equal(mode, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dcb_mode_is_the_byte_of_its_attribute),
		cmocka_unit_test(dcb_answer_without_a_mode_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
