/*
 * Reading - lets a thread that waits for a message read a connection of the I/O thread
 *
 * The mutex guards the connection with all that belongs to it. A thread that reads holds it, and
 * never waits for the socket meanwhile. The I/O thread locks it for each of its steps, so it alone
 * sends, handles failures and reconnects. A thread that waits polls the socket without the mutex,
 * and reads only while nothing but messages can come.
 *
 * A thread polls only if no other thread waits, and if the I/O thread needs no messages itself.
 * Then the I/O thread need not watch the socket. So no wait depends on another thread of the
 * program.
 *
 * Lock the mutex before that of a client, never after.
 *
 * Threads: as each function says.
 */
#ifndef RELOCK_READING_H
#define RELOCK_READING_H

#include "base/thread.h"

struct relock_loop;

struct relock_reading {
    struct relock_loop *loop; /* constant */
    int event_fd;             /* constant: wakes the thread that polls */

    struct relock_mutex mutex;
    struct {
        unsigned n_waiting; /* threads that wait for messages, also without polling */
        bool is_polled;     /* one of them polls the socket, or is about to */
        bool is_needed;     /* the I/O thread waits for messages itself */
    } shared;               /* by mutex */
};

/* Its descriptor is of this scope. Returns NULL when out of memory. */
struct relock_reading *relock_reading_new(struct relock_loop *loop, const void *scope);

/* No thread uses it. Takes NULL. Returns NULL. */
struct relock_reading *relock_reading_free(struct relock_reading *reading);

/* NULL: the I/O thread shares the connection with no other, and there is nothing to lock. */
void relock_reading_lock(struct relock_reading *reading);
void relock_reading_unlock(struct relock_reading *reading);

/* With the mutex locked: whether the thread that polls is the only one that waits for messages.
 * Takes NULL. */
bool relock_reading_is_left(const struct relock_reading *reading);

/* With the mutex locked, while the I/O thread does not watch the socket: whether it has to watch it
 * now. `is_left_for_a_while`: it will soon do so anyway. */
bool relock_reading_is_due(const struct relock_reading *reading, bool is_left_for_a_while);

#endif
