/*
 * Ring - owners that wait for each other
 *
 * Each actor holds the lock of its number, "ring:0" and so on, and wants the next one.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_RING_H
#define RELOCK_TEST_RING_H

#include "support/actor.h"
#include "support/fixture.h"

#define RING_MOST 5
#define DEADLOCK_MS 200

struct ring {
    struct relock_client *clients[RING_MOST]; /* of the actors; may be the same one */
    struct relock_lock *has[RING_MOST], *wants[RING_MOST];
    struct actor *actors[RING_MOST];
    int n;
};

/* A client with the name "shop-<nth>" that records waits after `deadlock_ms`. */
struct relock_client *ring_client(struct fixture *f, int nth, uint64_t deadlock_ms);

/* Starts the actors, which acquire their locks. The locks are of the kind of the test. */
struct ring ring_of(struct fixture *f, struct relock_client *const *clients, int n);

/* The same of other locks. */
struct ring ring_of_locks(struct fixture *f, struct relock_client *const *clients,
                          const char *const *names, int n, fixture_constructor_fn *make);

/* Each actor begins to wait. */
void ring_close(struct ring *ring);

/* One actor does, and the client has no other waiter. */
void ring_wait(struct ring *ring, int nth);

/* The first actor releases its lock. The one before it gets this, releases both, and so on. */
void ring_unwind(struct ring *ring, int first);

/* One wait is refused and the others go on; then unwinds the ring. Returns the victim. */
int ring_assert_one_is_refused(struct ring *ring);
int ring_assert_one_is_refused_within(struct ring *ring, uint64_t within_ms);

/* A ring of a writer and two readers, of whom the second wants what the writer holds. Each is of
 * its own client, or all of one. The writer wants the lock of the readers before or after the
 * reader wants that of the writer. */
void ring_play_readers(struct fixture *f, struct relock_client *const clients[3],
                       bool writer_comes_last);

#endif
