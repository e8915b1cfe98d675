/*
 * Loop - the I/O thread of a client
 *
 * The thread waits in libev for descriptors and for the next point in time. Before each wait it
 * calls `turn`, which does what has come due and says when it wants to be called again; who has
 * given it something to do wakes it. Wakes coalesce.
 *
 * Its descriptors are few, so it uses poll(2): unlike epoll that leaves nothing in the kernel
 * that a forked child would share with its parent.
 *
 * Threads: wake from any; what is said of the others.
 */
#ifndef RELOCK_LOOP_H
#define RELOCK_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct relock_loop;
struct ev_loop;

/* Returns when it is to be called next, RELOCK_NEVER for not before it is woken. */
typedef uint64_t relock_turn_fn(void *arg);

/* Returns RELOCK_OK, RELOCK_E_NOMEM. The thread does not run yet. */
int relock_loop_new(relock_turn_fn *turn, void *arg, struct relock_loop **loop);

/* Starts the thread, once. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_loop_start(struct relock_loop *loop);

/* Ends the thread and waits for it; not from the thread itself. Does nothing when it never ran. */
void relock_loop_stop(struct relock_loop *loop);

/* The thread has ended and nothing watches any more. Takes NULL. Returns NULL. */
struct relock_loop *relock_loop_free(struct relock_loop *loop);

/* In a forked child: closes its descriptor, and no more. */
void relock_loop_abandon(struct relock_loop *loop);

void relock_loop_wake(struct relock_loop *loop);

/* For those who watch descriptors; while the thread does not run, or on it. */
struct ev_loop *relock_loop_ev(struct relock_loop *loop);

#endif
