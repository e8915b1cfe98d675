/*
 * Kind faults - the same fault case for locks of several kinds, and for each side of a read/write
 * lock
 *
 * FAULT_TEST(case) in a list of tests is the case for reentrant locks; FAULT_TEST_OF(case, plain)
 * is the entry "plain: case". Such a case makes its locks with kind_lock() of support/kinds.h, and
 * names commands as reentrant locks send them. A program has the entries of other kinds in a list
 * of their own, which it runs if its argument begins with "kinds".
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_KIND_FAULTS_H
#define RELOCK_TEST_KIND_FAULTS_H

#include "faults.h"

#include "support/kinds.h"

/* The words of the kind for these: "plain_unlock 1 orders * 0" for "unlock 1 orders * 0". Valid
 * until the next call. */
const char *kind_words(const char *words);

/* The functions of the proxy, for these words. */
struct proxy_rule *kind_next(struct faults *t, enum proxy_deed deed, const char *words);
bool kind_counts(struct faults *t, const char *words, size_t n);

/* Whether the argument of the program asks for other kinds than the reentrant one. */
bool kind_faults_wanted(int argc, char **argv);

/* Before each case. */
int kind_faults_begin_fair(void **state);
int kind_faults_begin_plain(void **state);
int kind_faults_begin_read(void **state);
int kind_faults_begin_write(void **state);

#define FAULT_TEST_OF(function, kind)                                              \
    {                                                                              \
#kind ": " #function, function, kind_faults_begin_##kind, faults_end, NULL \
    }

/* For each kind whose scripts are not those of reentrant locks. */
#define FAULT_TEST_OF_ALL(function)                                                               \
    FAULT_TEST_OF(function, fair), FAULT_TEST_OF(function, plain), FAULT_TEST_OF(function, read), \
        FAULT_TEST_OF(function, write)

#endif
