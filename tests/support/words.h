/*
 * Words - a command as a server sees it
 *
 * Threads: any; they keep nothing.
 */
#ifndef RELOCK_TEST_WORDS_H
#define RELOCK_TEST_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#define WORDS_MAX 32

struct words {
    size_t n;
    struct {
        const char *data; /* of the bytes that they were read from */
        size_t len;
    } word[WORDS_MAX];
};

/* Reads the command that the bytes begin with. Returns its length, 0 when it is not whole. */
size_t words_read(struct words *words, const char *bytes, size_t len);

/* Whether they are those of the pattern, with a blank between two; `*` stands for any word. */
bool words_match(const struct words *words, const char *pattern);

/* On stderr. */
void words_print(const struct words *words);

#endif
