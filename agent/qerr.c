// SPDX-License-Identifier: BSD-2-Clause
// The error that travels: formatting only.
#include "qerr.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int qerr_set(struct qerr *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return code;
}

int qerr_prefix(struct qerr *err, int code, const char *fmt, ...)
{
	char old[QERR_TEXT_MAX];
	va_list ap;
	int n;

	if (!err)
		return code;
	memcpy(old, err->text, sizeof(old));
	va_start(ap, fmt);
	n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->text))
		snprintf(err->text + n, sizeof(err->text) - n, ": %.*s",
			(int)sizeof(err->text) - n - 3, old);
	return code;
}
