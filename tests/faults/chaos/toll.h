/*
 * Toll - the numbers of a thread: latches and unleased semaphores that no other thread uses
 *
 * It changes one number at a time, and records each command. After one whose outcome is unknown it
 * goes on with another number. So at the end each number tells whether all its commands have run
 * once, but for the last one: see numbers.c. The numbers of a thread are latches and unleased
 * semaphores in turn.
 *
 * Threads: that of the toiler. toll_read_name(): any.
 */
#ifndef RELOCK_TEST_TOLL_H
#define RELOCK_TEST_TOLL_H

#include "history.h"

#include <stdbool.h>

struct relock_client;
struct relock_latch;
struct relock_unleased;
struct toiler;

#define TOLL_KEYS "toll:*" /* those of all threads */

struct toll {
    struct relock_client *client;
    int number;                 /* which one; 0: none so far */
    unsigned n;                 /* its commands */
    int64_t value;              /* what it is, if all has gone well */
    bool is_over;               /* the thread goes on with another number */
    struct relock_latch *latch; /* one of the two, or none */
    struct relock_unleased *unleased;
};

/* Changes its number once, or makes a number. */
void toll_pay(struct toiler *toiler);

void toll_end(struct toiler *toiler);

/* The record of the end of the number with this key, without its value. */
bool toll_read_name(const char *key, struct history_record *record);

#endif
