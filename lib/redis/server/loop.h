/*
 * Loop - the I/O thread of a client
 *
 * The thread waits in libev for descriptors and for the time of the next timer. Before each wait it
 * calls `iterate`, which does the work that is due and returns when it is to be called next. Other
 * threads that have work for it wake it; several wakes count as one.
 *
 * It has few descriptors, so it uses poll(2): unlike epoll, poll leaves nothing in the kernel that
 * a forked child would share with its parent.
 *
 * Threads: wake from any; for the others as said there.
 */
#ifndef RELOCK_LOOP_H
#define RELOCK_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct relock_loop;
struct ev_loop;

/* Returns when it is to be called next; RELOCK_NEVER: when the thread is woken. */
typedef uint64_t relock_iteration_fn(void *arg);

/* Does not start the thread. `arg` is the scope of its descriptor, too. Returns RELOCK_OK,
 * RELOCK_E_NOMEM. */
int relock_loop_new(relock_iteration_fn *iterate, void *arg, struct relock_loop **loop);

/* Starts the thread, once. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_loop_start(struct relock_loop *loop);

/* Ends the thread and waits for it; not from the thread itself. Does nothing if it was not started.
 */
void relock_loop_stop(struct relock_loop *loop);

/* The thread must have ended, and no watcher be active. Takes NULL. Returns NULL. */
struct relock_loop *relock_loop_free(struct relock_loop *loop);

void relock_loop_wake(struct relock_loop *loop);

/* To watch descriptors. On the thread, or while it does not run. */
struct ev_loop *relock_loop_ev(struct relock_loop *loop);

#endif
