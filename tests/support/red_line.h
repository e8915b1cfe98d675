/*
 * Red line - red locks whose clients wait in the line of one server, the sequencer
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_RED_LINE_H
#define RELOCK_TEST_RED_LINE_H

#include "support/red.h"

/* Its waiters retry only when they are woken, and its votes are not renewed meanwhile. */
struct red red_line_new(struct servers *s);

/* The server whose line orders the clients: the first by its address, see lib/group/private.h. */
size_t red_line_sequencer(const struct servers *s);

/* Waits until so many clients stand in its line. */
bool red_line_wait(struct servers *s, long long n);

/* One acquisition and its release. */
struct red_line_turn {
    struct relock_lock *lock;
    int place; /* among all turns of this test program, from 0; -1 before */
};

/* An actor that waits for the lock, and releases it again. */
struct actor *red_line_begin(struct red_line_turn *turn, const struct red *red);

#endif
