/*
 * Red - one red lock on all servers of a test, and its keys there
 *
 * Each red lock has clients of its own, one to each server, so two of them are two strangers, as in
 * two processes.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_RED_H
#define RELOCK_TEST_RED_H

#include "support/actor.h"
#include "support/servers.h"

#define RED_NAME "orders"

struct red {
    size_t n;
    struct relock_client *clients[SERVERS_MAX]; /* the first is that of the whole */
    struct relock_lock *members[SERVERS_MAX];
    struct relock_lock *lock;
};

/* Of reentrant members on all servers; everything is freed at the end of the test. */
struct red red_new(struct servers *s, const struct relock_options *options);

/* The same, each through its proxy. */
struct red red_new_by_proxy(struct servers *s, const struct relock_options *options);

/* The same with members of that kind. */
struct red red_new_of(struct servers *s, const struct relock_options *options,
                      fixture_constructor_fn *constructor);

/* A red lock of the first `n` of these, freed at the end of the test. */
struct relock_lock *red_lock_of(struct fixture *f, struct relock_lock *const *members, size_t n);

/* Whether the i-th server has the key, past its proxy; not if it does not run or stands still. */
bool red_has_key(struct servers *s, size_t i);

/* How many have it; waits until so many do. */
size_t red_n_keys(struct servers *s);
bool red_wait_keys(struct servers *s, size_t n);

/* Strangers acquire it on the servers from `begin` to before `end`. Deletes its keys there, without
 * a message; the message of a release, from one server. */
void red_strangers_take(struct servers *s, size_t begin, size_t end);
void red_delete_keys(struct servers *s, size_t begin, size_t end);
void red_publish_release(struct servers *s, size_t i);

/* Acquires it, and waits until it is held on all servers. */
void red_lock_on_all(struct servers *s, const struct red *red);

/* Waits until the lock has counted the vote of each server: it may have the key before the lock has
 * its answer. Renews every vote once, so that it takes a third of the lease. */
void red_wait_votes(const struct red *red);

/* Releases the last level. RELOCK_E_CONN is accepted: on a slow machine a majority may be late. */
void red_unlock(const struct red *red);
void red_unlock_by(struct actor *actor, const struct red *red);

/* The actor, which waits for the lock, gets it and releases it. */
void red_assert_gets_in(struct actor *actor, const struct red *red);

/* Acquires and releases it until it was held on `n` servers: connected servers answer at once from
 * then on. */
void red_settle(struct servers *s, struct red *red, size_t n);

/* The scripts that all servers have run; waits until they run no more for a while. */
long long red_script_calls(struct servers *s);
bool red_wait_quiet(struct servers *s);

/* The actor waits for the lock, listens to all that are up, and has asked for the last time. */
void red_assert_sleeps(struct servers *s, struct red *red, struct actor *actor);

#endif
