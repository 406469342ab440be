/* SPDX-License-Identifier: BSD-2-Clause */
/* Words for messages: foreign text shown safely, and lists of alternatives. */
#ifndef QUENCH_POLICY_TEXT_H
#define QUENCH_POLICY_TEXT_H

#include <stddef.h>

#define TEXT_QUOTED_MAX 48

struct text_quoted {
	char text[TEXT_QUOTED_MAX];
};

/* text in double quotes, cut with "..." when long; what is not printable ASCII shows as '?'. */
struct text_quoted text_quote(const char *text);

/* As above without the quotes. */
struct text_quoted text_plain(const char *text);

/*
 * Append word to the list in buf ("a, b or c"); left is how many words follow it. buf holds a
 * string of less than size bytes before and after; what does not fit is cut.
 */
void text_join(char *buf, size_t size, const char *word, size_t left);

#endif
