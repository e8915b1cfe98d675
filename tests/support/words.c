#include "support/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads `mark`, a number and a line end. NULL when not all of it is there. */
static const char *read_header(const char *at, const char *end, char mark, size_t *number)
{
    const char *line_end = memchr(at, '\n', (size_t)(end - at));

    if (!line_end || *at != mark)
        return NULL;
    *number = strtoul(at + 1, NULL, 10);
    return line_end + 1;
}

size_t words_read(struct words *words, const char *bytes, size_t len)
{
    const char *end = bytes + len;
    const char *at = read_header(bytes, end, '*', &words->n);

    if (!at || words->n > WORDS_MAX)
        return 0;
    for (size_t i = 0; i < words->n; i++) {
        at = read_header(at, end, '$', &words->word[i].len);
        if (!at || (size_t)(end - at) < words->word[i].len + 2)
            return 0;
        words->word[i].data = at;
        at += words->word[i].len + 2;
    }
    return (size_t)(at - bytes);
}

bool words_match(const struct words *words, const char *pattern)
{
    for (size_t i = 0; i < words->n; i++) {
        size_t len = strcspn(pattern, " ");
        bool is_any = len == 1 && *pattern == '*';
        bool is_last = i + 1 == words->n;

        if (!is_any &&
            (len != words->word[i].len || memcmp(pattern, words->word[i].data, len) != 0))
            return false;
        pattern += len;
        if (*pattern != (is_last ? '\0' : ' '))
            return false;
        pattern++;
    }
    return words->n > 0;
}

void words_print(const struct words *words)
{
    for (size_t i = 0; i < words->n; i++)
        fprintf(stderr, " %.*s", (int)words->word[i].len, words->word[i].data);
    fprintf(stderr, "\n");
}
