/*
 * Lines - the lines on stderr during a fault, and their checks
 *
 * A client without a sink writes its lines there; lines_write() is a sink for lines of all levels.
 * The secrets are LINES_SECRET and the passwords "wr0ng" and "n3xt".
 *
 * Threads: the main one; lines_write() any.
 */
#ifndef RELOCK_TEST_LINES_H
#define RELOCK_TEST_LINES_H

#include <stdbool.h>

#define LINES_SECRET "s3cret@w:rd/%"                /* as written */
#define LINES_SECRET_IN_URL "s3cret%40w%3Ard%2F%25" /* as encoded in a url */

/* A relock_log_fn. */
void lines_write(int level, const char *line, void *arg);

/* From here on, stderr goes to a file until lines_end(). */
void lines_begin(void);

/* Waits until the words have been written. */
bool lines_wait(const char *words);

/* Ends it, and fails the test unless every line is the library's, in printable ASCII and without a
 * secret, and one of them has these words; and is about a lock named "orders..." and its owner, if
 * that is said. */
void lines_end(const char *what, const char *words, bool about_lock);

/* After a test: if it failed before the end, prints the lines. */
void lines_reset(void);

#endif
