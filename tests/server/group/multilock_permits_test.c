/* Multi locks with a semaphore among their members: each hold has one permit. */
#include "support/actor.h"
#include "support/listener.h"
#include "support/multi.h"
#include "support/peer.h"

#define OUT "{slots}:timeout"
#define LONG_MS 60000
#define SHORT_MS 600

struct pair {
    struct relock_client *client;
    struct relock_lock *lock, *slots, *both;
};

/* Of the lock "a", which is acquired first, or of "z", which is acquired last. */
static struct pair pair_of(struct fixture *f, struct relock_client *client, const char *name)
{
    struct pair pair = {.client = client, .lock = fixture_lock(f, client, name)};

    pair.slots = fixture_lock_of(f, client, "slots", relock_semaphore_new);
    pair.both = fixture_multi(f, pair.slots, pair.lock, NULL);
    return pair;
}

static struct pair pair_with(struct fixture *f, struct relock_client *client, uint64_t n)
{
    struct pair pair = pair_of(f, client, "a");

    assert_result(relock_semaphore_set(pair.slots, n), RELOCK_OK);
    return pair;
}

static int take_one_for(struct relock_lock *lock, uint64_t lease_ms)
{
    const struct relock_how how = {.lease_ms = lease_ms, .permits = 1};

    return relock_acquire(lock, &how, NULL);
}

static void assert_out(struct fixture *f, uint64_t n)
{
    assert_int_equal(probe_int(f->probe, "ZCARD " OUT), n);
}

/* All permits are back and the locks are free; the semaphore stays. */
static void forget(struct fixture *f, uint64_t n)
{
    assert_int_equal(probe_int(f->probe, "GET slots"), n);
    assert_int_equal(probe_int(f->probe, "DEL slots"), 1);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* ---- acquiring ----------------------------------------------------------------------------- */

static void the_first_level_takes_a_permit_and_the_last_gives_it_back(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, fixture_client(f, NULL), 2);
    unsigned count;

    for (unsigned level = 1; level <= 3; level++) {
        assert_result(relock_trylock(t.both), RELOCK_OK);
        assert_out(f, 1);
        assert_int_equal(probe_only_value(f->probe, "a"), level);
        assert_result(relock_hold_count(t.both, &count), RELOCK_OK);
        assert_int_equal(count, level);
    }
    for (unsigned level = 3; level > 0; level--) {
        assert_out(f, 1);
        assert_true(relock_is_mine(t.both));
        assert_result(relock_unlock(t.both), RELOCK_OK);
    }
    assert_result(relock_unlock(t.both), RELOCK_NOT_OWNER);
    forget(f, 2);
}

static void without_a_free_permit_nothing_is_held(void **state)
{
    static const char *const names[] = {"a", "z"};

    for (size_t i = 0; i < 2; i++) {
        struct fixture *f = *state;
        struct pair t = pair_of(f, fixture_client(f, NULL), names[i]);
        struct pair other = pair_of(f, fixture_client(f, NULL), "other");
        struct relock_grant grant;

        assert_result(relock_semaphore_set(t.slots, 1), RELOCK_OK);
        assert_result(relock_trylock(other.both), RELOCK_OK);
        assert_result(relock_acquire(t.both, NULL, &grant), RELOCK_BUSY);
        assert_string_equal(grant.failed_member, "slots");
        assert_int_equal(probe_int(f->probe, "EXISTS %s", names[i]), 0);
        assert_result(relock_unlock(other.both), RELOCK_OK);
        assert_result(relock_acquire(t.both, NULL, &grant), RELOCK_OK);
        assert_result(relock_unlock(t.both), RELOCK_OK);
        forget(f, 1);
    }
}

static void without_the_lock_no_permit_is_held(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_of(f, fixture_client(f, NULL), "z");
    struct relock_lock *theirs = fixture_lock(f, fixture_client(f, NULL), "z");
    struct relock_grant grant;

    assert_result(relock_semaphore_set(t.slots, 1), RELOCK_OK);
    assert_result(relock_lock(theirs), RELOCK_OK);
    assert_result(relock_acquire(t.both, NULL, &grant), RELOCK_BUSY);
    assert_string_equal(grant.failed_member, "z");
    assert_out(f, 0);
    assert_result(relock_unlock(theirs), RELOCK_OK);
    forget(f, 1);
}

static void a_waiter_gets_the_permit_that_comes_back(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, fixture_client(f, NULL), 1);
    struct pair other = pair_of(f, fixture_client(f, NULL), "other");
    struct actor *actor = actor_start();

    assert_result(relock_lock(t.both), RELOCK_OK);
    actor_begin_lock(actor, other.both);
    assert_true(probe_wait_in_line(f->probe, "slots", 1));
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_gets_in(actor, other.both);
    forget(f, 1);
}

static void a_number_that_was_never_set_is_said(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_of(f, fixture_client(f, NULL), "a");
    struct relock_grant grant;

    assert_result(relock_acquire(t.both, NULL, &grant), RELOCK_E_NO_PERMITS);
    assert_string_equal(grant.failed_member, "slots");
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_result(relock_acquire(t.both, &(struct relock_how){.permits = 1}, NULL),
                  RELOCK_E_INVALID);
}

/* ---- ends of a wait ------------------------------------------------------------------------ */

/* The permit is acquired before the lock that another program has. */
static void a_wait_that_ends_gives_the_permit_back(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_of(f, fixture_client(f, NULL), "z");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *actor = actor_start();

    assert_result(relock_semaphore_set(t.slots, 1), RELOCK_OK);
    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_true(peer_lock(f->probe, "z", PEER, PEER_LEASE_MS));
    actor_begin_acquire(actor, t.both, &how);
    assert_true(probe_wait_in_line(f->probe, "z", 1));
    assert_out(f, 1);
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(actor), RELOCK_CANCELLED);
    assert_out(f, 0);
    relock_cancel_free(how.cancel);

    assert_result(fixture_timedlock(t.both, (int64_t)slow_ms(SHORT_MS)), RELOCK_TIMEOUT);
    assert_true(probe_wait_no_key(f->probe, OUT, SOON_MS));

    actor_begin_lock(actor, t.both);
    assert_true(probe_wait_in_line(f->probe, "z", 1));
    assert_out(f, 1);
    relock_client_shutdown(t.client);
    assert_result(actor_result(actor), RELOCK_E_CLOSED);
    assert_true(probe_wait_no_key(f->probe, OUT, SOON_MS));
    assert_true(peer_unlock(f->probe, "z", PEER));
    forget(f, 1);
}

/* Two threads act for one owner: it does not wait for a permit that it is acquiring. */
static void a_second_thread_gets_a_level_when_the_first_one_gets_in(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.deadlock_ms = 20};
    struct pair t = pair_of(f, fixture_client(f, &options), "z");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct relock_how cancelled = how, timed = how;
    struct actor *first = actor_start(), *second = actor_start(), *third = actor_start();
    unsigned count;

    assert_result(relock_semaphore_set(t.slots, 1), RELOCK_OK);
    assert_result(relock_cancel_new(&cancelled.cancel), RELOCK_OK);
    assert_true(peer_lock(f->probe, "z", PEER, PEER_LEASE_MS));
    actor_begin_acquire(first, t.both, &how);
    assert_true(probe_wait_in_line(f->probe, "z", 1));
    actor_begin_acquire(second, t.both, &how);
    actor_begin_acquire(third, t.both, &cancelled);
    timed.wait_ms = (int64_t)slow_ms(200);
    assert_result(relock_acquire(t.both, &timed, NULL), RELOCK_TIMEOUT);
    assert_int_equal(probe_int(f->probe, "EXISTS relock_waiters:slots"), 0);
    relock_cancel_fire(cancelled.cancel);
    assert_result(actor_result(third), RELOCK_CANCELLED);
    relock_cancel_free(cancelled.cancel);
    assert_true(peer_unlock(f->probe, "z", PEER));
    assert_result(actor_result(first), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_result(relock_hold_count_of(t.both, how.owner, &count), RELOCK_OK);
    assert_int_equal(count, 2);
    assert_out(f, 1);
    assert_result(relock_release(t.both, how.owner), RELOCK_OK);
    assert_result(relock_release(t.both, how.owner), RELOCK_OK);
    forget(f, 1);
}

/* ---- apart --------------------------------------------------------------------------------- */

static void its_permit_is_apart_from_those_of_the_owner(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, fixture_client(f, NULL), 3);
    struct relock_grant grant;
    unsigned count;

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_check(t.slots, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_unlock(t.slots), RELOCK_NOT_OWNER);
    assert_result(relock_extend(t.slots, 0, LONG_MS), RELOCK_NOT_OWNER);
    assert_result(relock_hold_count(t.slots, &count), RELOCK_OK);
    assert_int_equal(count, 1);

    assert_result(relock_lock(t.slots), RELOCK_OK);
    assert_result(relock_check(t.slots, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.permits, 1);
    assert_out(f, 2);
    assert_result(relock_unlock(t.slots), RELOCK_OK);
    assert_true(relock_is_mine(t.both));

    assert_result(relock_lock(t.slots), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_out(f, 1);
    assert_result(relock_check(t.slots, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(t.slots), RELOCK_OK);
    forget(f, 3);
}

/* Whichever of the two is acquired first. */
static void without_reentrance_an_owner_gets_no_permit_beside_that_of_a_multi_lock(void **state)
{
    const struct relock_how all = {.flags = RELOCK_NON_REENTRANT};
    const struct relock_how own = {.flags = RELOCK_NON_REENTRANT, .permits = 1};
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct pair t = pair_with(f, client, 3);
    struct pair other = pair_of(f, client, "other");
    struct relock_how strangers = own;
    struct relock_grant grant;

    assert_result(relock_acquire(t.slots, &own, NULL), RELOCK_OK);
    assert_result(relock_acquire(t.both, &all, &grant), RELOCK_E_DEADLOCK);
    assert_string_equal(grant.failed_member, "slots");
    assert_result(relock_unlock(t.slots), RELOCK_OK);

    assert_result(relock_acquire(t.both, &all, NULL), RELOCK_OK);
    assert_result(relock_acquire(t.slots, &own, NULL), RELOCK_E_DEADLOCK);
    assert_result(relock_acquire(other.both, &all, &grant), RELOCK_E_DEADLOCK);
    assert_string_equal(grant.failed_member, "slots");
    strangers.owner = relock_owner_new();
    assert_result(relock_acquire(t.slots, &strangers, NULL), RELOCK_OK);
    assert_result(relock_release(t.slots, strangers.owner), RELOCK_OK);
    assert_result(relock_lock(t.slots), RELOCK_OK);
    assert_result(relock_unlock(t.slots), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_result(relock_acquire(t.slots, &own, NULL), RELOCK_OK);
    assert_result(relock_unlock(t.slots), RELOCK_OK);
    forget(f, 3);
}

static void two_multi_locks_have_a_permit_each(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct pair t = pair_with(f, client, 2);
    struct pair other = pair_of(f, client, "other");

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_lock(other.both), RELOCK_OK);
    assert_out(f, 2);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_out(f, 1);
    assert_true(relock_is_mine(other.both));
    assert_result(relock_unlock(other.both), RELOCK_OK);
    forget(f, 2);
}

/* ---- leases -------------------------------------------------------------------------------- */

static void extending_extends_its_permit_alone(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, fixture_client(f, NULL), 2);
    struct relock_grant grant;

    assert_result(take_one_for(t.slots, LONG_MS / 2), RELOCK_OK);
    assert_result(relock_acquire(t.both, &(struct relock_how){.lease_ms = LONG_MS / 2}, &grant),
                  RELOCK_OK);
    assert_true(grant.valid_ms <= LONG_MS / 2);
    assert_result(relock_extend(t.both, 0, LONG_MS), RELOCK_OK);
    assert_true(relock_valid_ms(t.both) > LONG_MS / 2);
    assert_true(relock_valid_ms(t.slots) <= LONG_MS / 2);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_result(relock_unlock(t.slots), RELOCK_OK);
    forget(f, 2);
}

static void a_fixed_lease_ends_and_the_permit_comes_back(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, fixture_client(f, NULL), 1);
    struct pair other = pair_of(f, fixture_client(f, NULL), "other");

    assert_result(acquire_for(t.both, SHORT_MS), RELOCK_OK);
    assert_result(relock_timedlock(other.both, LONG_MS), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 1);
    assert_result(relock_unlock(other.both), RELOCK_OK);
    assert_true(probe_wait_no_key(f->probe, "a", SOON_MS)); /* its lease may end a little later */
    forget(f, 1);
}

static void a_further_level_that_is_renewed_has_the_permit_renewed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = 2 * SHORT_MS});
    struct pair t = pair_with(f, client, 1);
    uint64_t until_ms;

    assert_result(acquire_for(t.both, SHORT_MS), RELOCK_OK);
    assert_result(relock_trylock(t.both), RELOCK_OK);
    until_ms = now_ms() + 4 * SHORT_MS; /* longer than the lease of either */
    while (now_ms() < until_ms) {
        assert_true(relock_is_mine(t.both));
        let_pass(SHORT_MS / 10);
    }
    assert_out(f, 1);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    forget(f, 1);
}

/* ---- losses -------------------------------------------------------------------------------- */

static void a_permit_that_was_taken_loses_the_multi_lock(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, watchful_client(f, LONG_MS), 2);
    struct relock_grant grant;

    assert_result(take_one_for(t.slots, LONG_MS / 2), RELOCK_OK);
    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EVAL %s 1 " OUT,
                               "return redis.call('zremrangebyrank', KEYS[1], 1, 1)"),
                     1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(f->losses, 0).name, "slots");
    assert_int_equal(losses_get(f->losses, 0).hold_count, 2);
    assert_result(relock_acquire(t.both, NULL, &grant), RELOCK_LOST);
    assert_string_equal(grant.failed_member, "slots");
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_result(relock_unlock(t.both), RELOCK_NOT_OWNER);
    assert_int_equal(losses_count(f->losses), 1);
    assert_result(relock_unlock(t.slots), RELOCK_OK); /* the owner's own is not lost */
    assert_int_equal(probe_int(f->probe, "INCR slots"), 2);
    assert_result(relock_trylock(t.both), RELOCK_OK); /* nothing is left of the loss */
    assert_result(relock_unlock(t.both), RELOCK_OK);
    forget(f, 2);
}

/* Before the library notices the loss. */
static void another_permit_of_the_owner_does_not_replace_a_lost_one(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, patient_client(f, LONG_MS), 3);
    unsigned count;

    assert_result(take_one_for(t.slots, LONG_MS / 2), RELOCK_OK);
    assert_result(take_one_for(t.slots, 2 * LONG_MS), RELOCK_OK);
    assert_result(acquire_for(t.both, LONG_MS), RELOCK_OK);
    assert_result(acquire_for(t.both, LONG_MS), RELOCK_OK);
    assert_result(relock_hold_count(t.both, &count), RELOCK_OK);
    assert_int_equal(count, 2);
    assert_int_equal(probe_int(f->probe, "EVAL %s 1 " OUT,
                               "return redis.call('zremrangebyrank', KEYS[1], 1, 1)"),
                     1);
    assert_result(relock_hold_count(t.both, &count), RELOCK_OK);
    assert_int_equal(count, 0);
    assert_result(relock_hold_count(t.slots, &count), RELOCK_OK);
    assert_int_equal(count, 2);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_result(relock_unlock(t.slots), RELOCK_OK);
    assert_result(relock_unlock(t.slots), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "INCR slots"), 3);
    forget(f, 3);
}

static void a_lost_lock_gives_the_permit_back_with_the_release(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, watchful_client(f, LONG_MS), 1);

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL a"), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(f->losses, 0).name, "a");
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    forget(f, 1);
}

/* ---- ends ---------------------------------------------------------------------------------- */

static void a_thread_that_ends_gives_the_permit_back(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, fixture_client(f, NULL), 1);
    struct actor *actor = actor_start();

    assert_result(actor_lock(actor, t.both), RELOCK_OK);
    assert_result(actor_lock(actor, t.both), RELOCK_OK);
    assert_out(f, 1);
    actor_end(actor);
    assert_result(relock_timedlock(t.both, LONG_MS), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    forget(f, 1);
}

static void a_freed_client_gives_the_permit_back(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, fixture_client(f, NULL), 1);

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_lock(t.both), RELOCK_OK);
    fixture_free_client(f, t.client);
    forget(f, 1);
}

/* The semaphore is on another client than the multi lock. */
static void the_permit_of_another_client_comes_back(void **state)
{
    struct fixture *f = *state;

    for (int whose = 0; whose < 2; whose++) {
        struct pair t = pair_of(f, fixture_client(f, NULL), "a");
        struct relock_client *other = fixture_client(f, NULL);
        struct relock_lock *slots = fixture_lock_of(f, other, "slots", relock_semaphore_new);
        struct relock_lock *both = fixture_multi(f, t.lock, slots, NULL);

        assert_result(relock_semaphore_set(slots, 1), RELOCK_OK);
        assert_result(relock_lock(both), RELOCK_OK);
        assert_result(relock_lock(both), RELOCK_OK);
        assert_out(f, 1);
        fixture_free_client(f, whose == 0 ? other : t.client);
        assert_true(probe_wait_no_key(f->probe, OUT, SOON_MS));
        if (whose == 0) {
            assert_result(relock_check(both, 0, NULL), RELOCK_LOST);
            assert_result(relock_unlock(both), RELOCK_LOST);
            assert_result(relock_unlock(both), RELOCK_LOST);
            assert_result(relock_unlock(both), RELOCK_NOT_OWNER);
        }
        forget(f, 1);
    }
}

static void a_multi_lock_in_another_has_its_permit(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, fixture_client(f, NULL), 2);
    struct relock_lock *all = fixture_multi(f, t.both, fixture_lock(f, t.client, "b"), NULL);
    struct relock_lock *twice;

    assert_result(relock_multilock_new((struct relock_lock *[]){t.both, t.slots}, 2, &twice),
                  RELOCK_E_INVALID);
    assert_result(relock_lock(all), RELOCK_OK);
    assert_out(f, 1);
    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_out(f, 2);
    assert_int_equal(probe_only_value(f->probe, "a"), 2);
    assert_result(relock_unlock(all), RELOCK_OK);
    assert_out(f, 1);
    assert_true(relock_is_mine(t.both));
    assert_result(relock_unlock(t.both), RELOCK_OK);
    forget(f, 2);
}

static void a_forked_child_leaves_the_permit(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, fixture_client(f, NULL), 1);

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_true(child_descriptors(t.client) >= 0);
    assert_out(f, 1);
    assert_true(relock_is_mine(t.both));
    assert_result(relock_unlock(t.both), RELOCK_OK);
    forget(f, 1);
}

/* Another thread gives the last level back while the next one is being acquired. */
static void a_release_beside_an_acquire_gives_the_permit_back(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.release_timeout_ms = 100};
    struct pair t = pair_with(f, fixture_client(f, &options), 1);
    struct relock_how how = {.owner = relock_owner_new()};
    struct actor *actor = actor_start();
    int r;

    assert_result(relock_acquire(t.both, &how, NULL), RELOCK_OK);
    server_pause(f->server);
    actor_begin_acquire(actor, t.both, &how);
    let_pass(50);
    r = relock_release(t.both, how.owner);
    server_resume(f->server);
    assert_result(r, RELOCK_E_CONN);
    r = actor_result(actor);
    assert_true(r == RELOCK_LOST || r == RELOCK_E_CONN);
    assert_true(probe_wait_no_key(f->probe, OUT, SOON_MS));
    assert_true(probe_wait_no_key(f->probe, "a", SOON_MS));
    forget(f, 1);
}

/* Nobody else could give one back. */
static void an_owner_does_not_wait_for_its_permit(void **state)
{
    struct fixture *f = *state;
    struct pair t = pair_with(f, fixture_client(f, &(struct relock_options){.deadlock_ms = 20}), 1);

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_timedlock(t.slots, LONG_MS), RELOCK_E_DEADLOCK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    forget(f, 1);
}

/* Holds the lock and wants a permit. Gives back what it has, so that the other one goes on. */
static int hold_and_want(void *arg)
{
    const struct pair *pair = arg;
    int r = relock_timedlock(pair->slots, LONG_MS);

    if (r == RELOCK_OK)
        assert_result(relock_unlock(pair->slots), RELOCK_OK);
    assert_result(relock_unlock(pair->lock), RELOCK_OK);
    return r;
}

/* One owner has the only permit for a multi lock and waits for a lock, whose owner wants a permit.
 */
static void its_permit_counts_in_the_search_for_deadlocks(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.deadlock_ms = 20};
    struct pair t = pair_with(f, fixture_client(f, &options), 1);
    struct pair other = pair_of(f, fixture_client(f, &options), "other");
    struct relock_lock *wanted = fixture_lock(f, t.client, "other");
    struct actor *actor = actor_start();
    int ours;

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(actor_lock(actor, other.lock), RELOCK_OK);
    actor_begin(actor, hold_and_want, &other);
    ours = relock_timedlock(wanted, LONG_MS);
    if (ours == RELOCK_OK)
        assert_result(relock_unlock(wanted), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_result(actor_result(actor), ours == RELOCK_OK ? RELOCK_E_DEADLOCK : RELOCK_OK);
    assert_true(ours == RELOCK_OK || ours == RELOCK_E_DEADLOCK);
    forget(f, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(the_first_level_takes_a_permit_and_the_last_gives_it_back),
        SERVER_TEST(without_a_free_permit_nothing_is_held),
        SERVER_TEST(without_the_lock_no_permit_is_held),
        SERVER_TEST(a_waiter_gets_the_permit_that_comes_back),
        SERVER_TEST(a_number_that_was_never_set_is_said),
        SERVER_TEST(its_permit_is_apart_from_those_of_the_owner),
        SERVER_TEST(without_reentrance_an_owner_gets_no_permit_beside_that_of_a_multi_lock),
        SERVER_TEST(two_multi_locks_have_a_permit_each),
        SERVER_TEST(extending_extends_its_permit_alone),
        SERVER_TEST(a_fixed_lease_ends_and_the_permit_comes_back),
        SERVER_TEST(a_further_level_that_is_renewed_has_the_permit_renewed),
        SERVER_TEST(a_permit_that_was_taken_loses_the_multi_lock),
        SERVER_TEST(another_permit_of_the_owner_does_not_replace_a_lost_one),
        SERVER_TEST(a_lost_lock_gives_the_permit_back_with_the_release),
        SERVER_TEST(a_thread_that_ends_gives_the_permit_back),
        SERVER_TEST(a_freed_client_gives_the_permit_back),
        SERVER_TEST(a_wait_that_ends_gives_the_permit_back),
        SERVER_TEST(a_second_thread_gets_a_level_when_the_first_one_gets_in),
        SERVER_TEST(the_permit_of_another_client_comes_back),
        SERVER_TEST(a_multi_lock_in_another_has_its_permit),
        SERVER_TEST(a_forked_child_leaves_the_permit),
        SERVER_TEST(a_release_beside_an_acquire_gives_the_permit_back),
        SERVER_TEST(an_owner_does_not_wait_for_its_permit),
        SERVER_TEST(its_permit_counts_in_the_search_for_deadlocks),
    };

    return SERVER_TESTS_RUN(tests);
}
