// SPDX-License-Identifier: BSD-2-Clause
// Words for messages: foreign text shown safely, and lists of alternatives.
#include "policy/text.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_MAX 40

struct text_quoted text_plain(const char *text)
{
	struct text_quoted out = {};
	size_t i;

	for (i = 0; text[i] && i < SHOWN_MAX; i++)
		out.text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	if (text[i])
		strcpy(out.text + i, "...");
	return out;
}

struct text_quoted text_quote(const char *text)
{
	struct text_quoted plain = text_plain(text);
	struct text_quoted out;

	_Static_assert(SHOWN_MAX + sizeof("\"\"...") <= TEXT_QUOTED_MAX, "the longest text fits");
	snprintf(out.text, sizeof(out.text), "\"%.43s\"", plain.text);
	return out;
}

void text_join(char *buf, size_t size, const char *word, size_t left)
{
	size_t used = strlen(buf);
	const char *glue = !used ? "" : left ? ", " : " or ";

	snprintf(buf + used, size - used, "%s%s", glue, word);
}
