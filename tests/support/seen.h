/*
 * Seen - the commands that came through a proxy, as words, in their order
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_SEEN_H
#define RELOCK_TEST_SEEN_H

#include "support/frame.h"

#include <stdbool.h>
#include <stddef.h>

#define SEEN_MAX_SCRIPTS 64

struct seen_line;

struct seen_script {
    char name[32], sha1[41];
};

struct seen {
    struct seen_line *lines;
    size_t n, size;
    struct seen_script scripts[SEEN_MAX_SCRIPTS];
    size_t n_scripts;
};

void seen_deinit(struct seen *seen);
void seen_clear(struct seen *seen); /* the scripts stay known */

/* From now on an EVALSHA of that script begins with its name instead. Of a script that renews, a
 * call that only looks is named "check", "plain_check" or "read_check". */
void seen_name_script(struct seen *seen, const char *name, const char *sha1);
void seen_translate(const struct seen *seen, char words[FRAME_WORDS_MAX]);

/* Whether the first words are those of a pattern, in which "*" is any word. */
bool seen_is_like(const char *words, const char *pattern);

/* `relay` is the number of the connection on which it came. */
void seen_add(struct seen *seen, unsigned relay, const char *words);

size_t seen_count(const struct seen *seen, const char *pattern);

/* The place, from 1, of the next such line behind a place; 0 if there is none. */
size_t seen_next(const struct seen *seen, size_t place, const char *pattern);

/* Whether such a line came on that connection. */
bool seen_on(const struct seen *seen, unsigned relay, const char *pattern);

void seen_print(const struct seen *seen);

#endif
