/* Semaphores: permits, in the format of Redisson's RPermitExpirableSemaphore. */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"
#include "support/listener.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define OUT "{orders}:timeout"
#define LINE "relock_waiters:{orders}"
#define CHANNEL "redisson_sc:{orders}"
#define LONG_MS 60000
#define SILENT "5b0c7a4e-1d2f-4c6b-9a8e-3f1e2d4c5b6a" /* the id of a client */
#define PEER_ID "0123456789abcdef"                    /* Redisson's are random */

static struct relock_lock *semaphore(struct fixture *f, struct relock_client *client)
{
    return fixture_lock_of(f, client, "orders", relock_semaphore_new);
}

static struct relock_lock *semaphore_of(struct fixture *f, struct relock_client *client, uint64_t n)
{
    struct relock_lock *lock = semaphore(f, client);

    assert_result(relock_semaphore_set(lock, n), RELOCK_OK);
    return lock;
}

static int take(struct relock_lock *lock, uint64_t n)
{
    return relock_acquire(lock, &(struct relock_how){.permits = n}, NULL);
}

static int take_within(struct relock_lock *lock, uint64_t n, int64_t wait_ms)
{
    return relock_acquire(lock, &(struct relock_how){.permits = n, .wait_ms = wait_ms}, NULL);
}

static uint64_t server_now_ms(struct fixture *f)
{
    return (uint64_t)probe_int(f->probe, "EVAL %s 0",
                               "local t = redis.call('time')"
                               "return t[1] * 1000 + math.floor(t[2] / 1000)");
}

/* Another program takes one permit as Redisson does, with a deadline by its own clock. */
static void peer_takes(struct fixture *f, uint64_t lease_ms)
{
    assert_true(probe_int(f->probe, "DECRBY orders 1") >= 0);
    assert_int_equal(probe_int(f->probe, "ZADD " OUT " %llu " PEER_ID,
                               (unsigned long long)(server_now_ms(f) + lease_ms)),
                     1);
}

static void peer_gives_back(struct fixture *f)
{
    static const char script[] = "local n = redis.call('zrem', '" OUT "', '" PEER_ID "')\n"
                                 "redis.call('incrby', 'orders', n)\n"
                                 "redis.call('publish', '" CHANNEL "', '1')\n"
                                 "return n";

    assert_int_equal(probe_int(f->probe, "EVAL %s 0", script), 1);
}

static void assert_free(struct fixture *f, int64_t n_free, uint64_t n_out)
{
    assert_int_equal(probe_int(f->probe, "GET orders"), n_free);
    assert_int_equal(probe_int(f->probe, "ZCARD " OUT), n_out);
}

/* The semaphore stays when nobody uses it. */
static void forget(struct fixture *f, int64_t n)
{
    assert_free(f, n, 0);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
}

/* ---- how many ------------------------------------------------------------------------------ */

static void at_most_n_permits_are_out(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = semaphore_of(f, fixture_client(f, NULL), 3);
    struct relock_lock *theirs = semaphore(f, fixture_client(f, NULL));
    struct relock_permits permits;

    assert_result(relock_trylock(ours), RELOCK_OK);
    assert_result(take(theirs, 2), RELOCK_OK);
    assert_result(relock_trylock(ours), RELOCK_BUSY);
    assert_result(relock_trylock(theirs), RELOCK_BUSY);
    assert_result(relock_semaphore_read(ours, &permits), RELOCK_OK);
    assert_int_equal(permits.n_free, 0);
    assert_int_equal(permits.n_out, 3);
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_result(take(theirs, 2), RELOCK_BUSY);
    assert_result(take(theirs, 1), RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_OK); /* the newest */
    assert_free(f, 1, 2);
    assert_result(relock_unlock(theirs), RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_NOT_OWNER);
    forget(f, 3);
}

static void permits_that_were_never_set_are_a_result_of_their_own(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore(f, fixture_client(f, NULL));
    struct relock_permits permits;
    bool was_unset;

    assert_result(relock_lock(lock), RELOCK_E_NO_PERMITS);
    assert_result(relock_trylock(lock), RELOCK_E_NO_PERMITS);
    assert_result(relock_semaphore_read(lock, &permits), RELOCK_E_NO_PERMITS);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_result(relock_semaphore_init(lock, 2, &was_unset), RELOCK_OK);
    assert_true(was_unset);
    assert_result(relock_semaphore_init(lock, 5, &was_unset), RELOCK_OK);
    assert_false(was_unset);
    assert_result(take(lock, 2), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 2);
}

static void no_permits_are_refused_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, fixture_client(f, NULL), 2);

    assert_result(take_within(lock, 0, LONG_MS), RELOCK_E_INVALID);
    assert_true(log_wait(f->log, "`permits` of struct relock_how is 0", SOON_MS));
    assert_result(relock_acquire(lock, NULL, NULL), RELOCK_OK); /* one */
    assert_free(f, 1, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 2);
}

static void more_than_all_permits_are_refused_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, fixture_client(f, NULL), 2);
    struct relock_lock *plain = fixture_lock(f, fixture_client(f, NULL), "other");

    assert_result(take_within(lock, 3, LONG_MS), RELOCK_E_INVALID);
    assert_result(take(lock, 1), RELOCK_OK);
    assert_result(take_within(lock, 3, LONG_MS), RELOCK_E_INVALID);
    assert_result(take_within(lock, RELOCK_PERMITS_MAX + 1, LONG_MS), RELOCK_E_INVALID);
    assert_result(take_within(lock, (uint64_t)-1, LONG_MS), RELOCK_E_INVALID);
    assert_result(take_within(plain, 1, 0), RELOCK_E_INVALID);
    assert_result(relock_semaphore_set(plain, 1), RELOCK_E_UNSUPPORTED);
    assert_result(relock_semaphore_set(lock, (uint64_t)RELOCK_SEMAPHORE_MAX + 1), RELOCK_E_INVALID);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 2);
}

static void a_lower_number_waits_until_permits_come_back(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, fixture_client(f, NULL), 3);
    struct relock_permits permits;

    assert_result(take(lock, 3), RELOCK_OK);
    assert_result(relock_semaphore_set(lock, 1), RELOCK_OK);
    assert_result(relock_semaphore_read(lock, &permits), RELOCK_OK);
    assert_int_equal(permits.n_free, -2);
    assert_int_equal(permits.n_out, 3);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(take(lock, 2), RELOCK_E_INVALID);
    forget(f, 1);
}

static void the_most_permits_of_one_call_have_ids_of_their_own(void **state)
{
    static unsigned char ids[16 * RELOCK_PERMITS_MAX];
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = semaphore_of(f, client, RELOCK_PERMITS_MAX);
    struct relock_how how = {.permits = RELOCK_PERMITS_MAX, .permit_ids = ids};
    struct relock_grant grant;
    char hex[3];

    assert_result(relock_acquire(lock, &how, &grant), RELOCK_OK);
    assert_int_equal(grant.permits, RELOCK_PERMITS_MAX);
    assert_int_equal(grant.fencing_token, 0);
    assert_free(f, 0, RELOCK_PERMITS_MAX);
    for (size_t i = 0; i < RELOCK_PERMITS_MAX; i++)
        assert_true(probe_int(f->probe, "ZSCORE " OUT " %b", ids + 16 * i, (size_t)16) > 0);
    for (size_t i = 0; i < 4; i++) { /* they begin with the id of the client */
        (void)snprintf(hex, sizeof(hex), "%02x", ids[i]);
        assert_memory_equal(hex, relock_client_id(client) + 2 * i, 2);
    }
    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, RELOCK_PERMITS_MAX);
}

static void data_of_another_program_stay(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore(f, fixture_client(f, NULL));

    assert_int_equal(probe_int(f->probe, "SET orders a-token"), 0);
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    assert_result(relock_semaphore_init(lock, 2, NULL), RELOCK_E_SERVER);
    assert_result(relock_semaphore_set(lock, 2), RELOCK_E_SERVER);
    assert_string_equal(probe_text(f->probe, "GET orders"), "a-token");
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_int_equal(probe_int(f->probe, "HSET orders precious 1"), 1);
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    assert_result(relock_semaphore_set(lock, 2), RELOCK_E_SERVER);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_int_equal(log_count(f->log, "the server sent a reply"), 0);
}

/* A number, but that of no semaphore. */
static void a_number_out_of_range_is_data_of_another_program(void **state)
{
    static const char *const numbers[] = {"9223372036854775807", "-9223372036854775808",
                                          "2147483648", "-2147483648"};
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore(f, fixture_client(f, NULL));
    struct relock_permits permits;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        assert_int_equal(probe_int(f->probe, "SET orders %s", numbers[i]), 0);
        assert_result(relock_semaphore_read(lock, &permits), RELOCK_E_SERVER);
        assert_result(relock_semaphore_add(lock, -1), RELOCK_E_SERVER);
        assert_result(relock_semaphore_add(lock, 1), RELOCK_E_SERVER);
        assert_string_equal(probe_text(f->probe, "GET orders"), numbers[i]);
    }
    assert_true(log_wait(f->log,
                         "not read or set: Redis returned an error or is a replica: the key "
                         "has the number of no semaphore",
                         SOON_MS));
    assert_int_equal(probe_int(f->probe, "SET orders 2147483647"), 0);
    assert_result(relock_semaphore_read(lock, &permits), RELOCK_OK);
    assert_true(permits.n_free == RELOCK_SEMAPHORE_MAX && permits.n_out == 0);
    assert_result(relock_semaphore_add(lock, 1), RELOCK_E_INVALID);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
}

static void permits_can_be_added_and_taken_away(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore(f, fixture_client(f, NULL));

    assert_result(relock_semaphore_add(lock, 1), RELOCK_E_NO_PERMITS);
    assert_result(relock_semaphore_set(lock, 1), RELOCK_OK);
    assert_result(take(lock, 1), RELOCK_OK);
    assert_result(relock_semaphore_add(lock, 2), RELOCK_OK);
    assert_free(f, 2, 1);
    assert_result(relock_semaphore_add(lock, -3), RELOCK_OK);
    assert_free(f, -1, 1);
    assert_result(relock_semaphore_add(lock, -1), RELOCK_E_INVALID);
    assert_result(relock_semaphore_add(lock, INT64_MAX), RELOCK_E_INVALID);
    assert_result(relock_semaphore_add(lock, 1), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 1);
}

/* ---- the holds of an owner ----------------------------------------------------------------- */

static void an_owner_has_the_permits_of_each_acquire(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, fixture_client(f, NULL), 6);
    struct relock_grant grant;
    struct relock_holder holder;
    unsigned count;
    bool locked;

    assert_result(
        relock_acquire(lock, &(struct relock_how){.permits = 3, .lease_ms = LONG_MS}, &grant),
        RELOCK_OK);
    assert_int_equal(grant.permits, 3);
    assert_int_equal(grant.hold_count, 1);
    assert_result(take(lock, 2), RELOCK_OK);
    assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.permits, 5);
    assert_int_equal(grant.hold_count, 2);
    assert_true(grant.valid_ms < LONG_MS / 2 + LONG_MS / 4); /* of the one that is renewed */
    assert_result(relock_hold_count(lock, &count), RELOCK_OK);
    assert_int_equal(count, 5);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_int_equal(holder.n_holders, 5);
    assert_int_equal(holder.hold_count, 2);
    assert_int_equal(strlen(holder.id), 32);
    assert_result(relock_is_locked(lock, &locked), RELOCK_OK);
    assert_true(locked);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_free(f, 3, 3);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_is_locked(lock, &locked), RELOCK_OK);
    assert_false(locked);
    assert_result(relock_check(lock, 0, &grant), RELOCK_NOT_OWNER);
    forget(f, 6);
}

static void another_owner_of_the_client_does_not_count(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, fixture_client(f, NULL), 6);
    uint64_t other = relock_owner_new();
    unsigned count;

    assert_result(relock_acquire(lock, &(struct relock_how){.permits = 4, .owner = other}, NULL),
                  RELOCK_OK);
    assert_result(take(lock, 1), RELOCK_OK);
    assert_result(relock_hold_count(lock, &count), RELOCK_OK);
    assert_int_equal(count, 1);
    assert_result(relock_hold_count_of(lock, other, &count), RELOCK_OK);
    assert_int_equal(count, 4);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_release(lock, other), RELOCK_OK);
    forget(f, 6);
}

static void non_reentrant_refuses_an_owner_with_permits(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, fixture_client(f, NULL), 2);
    struct relock_how once = {.flags = RELOCK_NON_REENTRANT, .permits = 1};

    assert_result(relock_acquire(lock, &once, NULL), RELOCK_OK);
    assert_result(relock_acquire(lock, &once, NULL), RELOCK_E_DEADLOCK);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 2);
}

static void extending_extends_all_that_an_owner_has(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, fixture_client(f, NULL), 3);
    struct relock_how brief = {.lease_ms = LONG_MS, .permits = 1};
    struct relock_grant grant;

    for (int i = 0; i < 3; i++)
        assert_result(relock_acquire(lock, &brief, NULL), RELOCK_OK);
    assert_result(relock_extend(lock, 0, 10 * LONG_MS), RELOCK_OK);
    assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
    assert_true(grant.valid_ms > 5 * LONG_MS);
    assert_result(relock_extend(lock, 0, 1), RELOCK_OK); /* shortens nothing */
    assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
    assert_true(grant.valid_ms > 5 * LONG_MS);
    for (int i = 0; i < 3; i++)
        assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_NOT_OWNER);
    forget(f, 3);
}

/* Both locks are waited for by the other's owner: no permit is held by a blocked owner alone. */
static void a_wait_for_permits_is_no_deadlock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &(struct relock_options){.deadlock_ms = 20});
    struct relock_lock *permits = semaphore_of(f, client, 2);
    struct relock_lock *lock = fixture_lock(f, client, "other");
    struct actor *first = actor_start(), *second = actor_start();

    assert_result(actor_lock(first, permits), RELOCK_OK);
    assert_result(take(permits, 1), RELOCK_OK); /* it will give one back */
    assert_result(actor_lock(second, lock), RELOCK_OK);
    actor_begin_lock(second, permits);
    assert_true(wait_for_waiters(client, 1));
    actor_begin_lock(first, lock);
    assert_true(wait_for_waiters(client, 2));
    assert_result(actor_result_within(first, 300), ACTOR_BUSY); /* several searches */
    assert_true(actor_is_busy(second));
    assert_result(relock_unlock(permits), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_result(actor_unlock(second, lock), RELOCK_OK);
    assert_result(actor_result(first), RELOCK_OK);
    assert_result(actor_unlock(second, permits), RELOCK_OK);
    assert_result(actor_unlock(first, permits), RELOCK_OK);
    assert_result(actor_unlock(first, lock), RELOCK_OK);
    assert_int_equal(stats_of(client).deadlocks, 0);
    forget(f, 2);
}

/* ---- leases -------------------------------------------------------------------------------- */

static void permits_are_renewed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, 300);
    struct relock_lock *lock = semaphore_of(f, client, 3);

    assert_result(take(lock, 2), RELOCK_OK);
    assert_result(take(lock, 1), RELOCK_OK); /* both by one script */
    assert_true(wait_for_renewals(client, 0, 10));
    assert_free(f, 0, 3);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 3);
}

static void a_fixed_lease_ends_and_its_permits_come_back(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = semaphore_of(f, client, 2);
    struct relock_lock *other = semaphore(f, fixture_client(f, NULL));

    assert_result(relock_acquire(lock, &(struct relock_how){.permits = 2, .lease_ms = 50}, NULL),
                  RELOCK_OK);
    assert_result(take_within(other, 2, LONG_MS), RELOCK_OK);
    assert_true(wait_for_lost(client, 1));
    assert_result(relock_lock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(other), RELOCK_OK);
    forget(f, 2);
}

static int take_and_die(struct child *parent, void *arg)
{
    struct relock_options options = {.watchdog_timeout_ms = 300};
    struct relock_lock *lock;

    child_must(relock_semaphore_new(child_client(arg, &options), "orders", &lock) == RELOCK_OK);
    child_must(relock_semaphore_init(lock, 1, NULL) == RELOCK_OK);
    child_must(relock_trylock(lock) == RELOCK_OK);
    (void)child_send(parent, 1);
    (void)child_await(parent);
    return 0;
}

static void the_permits_of_a_process_that_died_come_back(void **state)
{
    struct fixture *f = *state;
    struct child *child;
    struct relock_lock *lock;

    if (!child_can_have_threads())
        return;
    child = child_start(take_and_die, f);
    assert_true(child_await(child));
    lock = semaphore(f, fixture_client(f, NULL));
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    child_signal(child, SIGKILL);
    (void)child_wait(child, SOON_MS);
    assert_result(take_within(lock, 1, LONG_MS), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 1);
}

/* Taken by force, or by a program whose clock is ahead. */
static void permits_that_were_taken_are_lost(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, 300);
    struct relock_lock *lock = semaphore_of(f, client, 3);
    struct relock_lock *other = semaphore(f, fixture_client(f, NULL));
    struct relock_grant grant;

    assert_result(
        relock_acquire(lock,
                       &(struct relock_how){
                           .permits = 2, .lease_ms = 0, .on_lost = losses_write, .arg = f->losses},
                       NULL),
        RELOCK_OK);
    assert_result(relock_force_unlock(other), RELOCK_OK);
    assert_free(f, 3, 0);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(relock_check(lock, 0, &grant), RELOCK_LOST);
    assert_int_equal(grant.permits, 2);
    assert_result(take(lock, 1), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(take(lock, 3), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 3);
}

/* Work that goes on keeps its permits. */
static void a_lost_acquire_is_released_before_newer_ones(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, 300);
    struct relock_lock *lock = semaphore_of(f, client, 3);
    struct relock_how how = {.on_lost = losses_write, .arg = f->losses, .permits = 1};

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL " OUT), 1); /* the next ones are in a new set */
    assert_result(take(lock, 2), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_free(f, 0, 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_semaphore_set(lock, 3), RELOCK_OK);
    forget(f, 3);
}

static void a_thread_that_ends_gives_its_permits_back(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, fixture_client(f, NULL), 3);
    struct actor *actor = actor_start();

    assert_result(actor_lock(actor, lock), RELOCK_OK);
    assert_result(actor_lock(actor, lock), RELOCK_OK);
    actor_end(actor);
    assert_result(take_within(lock, 3, LONG_MS), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 3);
}

static void a_freed_client_gives_all_permits_back(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = semaphore_of(f, client, 3);

    assert_result(take(lock, 2), RELOCK_OK);
    assert_result(take(lock, 1), RELOCK_OK);
    fixture_free_client(f, client);
    forget(f, 3);
}

static void red_locks_refuse_a_semaphore(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *members[3];
    struct relock_lock *lock = NULL;

    for (size_t i = 0; i < 3; i++)
        members[i] = semaphore(f, fixture_client(f, NULL));
    assert_result(relock_redlock_new(members, 3, &lock), RELOCK_E_INVALID);
    assert_null(lock);
}

/* ---- waiting ------------------------------------------------------------------------------- */

struct turn {
    struct relock_lock *lock;
    uint64_t n;
};

static int take_turn(void *arg)
{
    const struct turn *turn = arg;

    return take_within(turn->lock, turn->n, LONG_MS);
}

static void a_release_wakes_a_waiter(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = semaphore_of(f, fixture_client(f, NULL), 2);
    struct relock_client *client = woken_client(f);
    struct turn turn = {semaphore(f, client), 1};
    struct actor *waiter = actor_start();

    assert_result(take(ours, 2), RELOCK_OK);
    actor_begin(waiter, take_turn, &turn);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_result(actor_result(waiter), RELOCK_OK);
    assert_result(actor_unlock(waiter, turn.lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 1); /* the line is gone */
    forget(f, 2);
}

static void a_waiter_of_the_same_client_is_woken(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = semaphore_of(f, client, 2);
    struct turn turns[2] = {{lock, 2}, {lock, 1}};
    struct actor *first = actor_start(), *second = actor_start();

    assert_result(take(lock, 1), RELOCK_OK);
    actor_begin(first, take_turn, &turns[0]);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    actor_begin(second, take_turn, &turns[1]);
    assert_true(wait_for_waiters(client, 2));
    assert_result(relock_trylock(lock), RELOCK_BUSY); /* one is free, and kept for the first */
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(first), RELOCK_OK);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    assert_true(actor_is_busy(second));
    assert_result(actor_unlock(first, lock), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_result(actor_unlock(second, lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 1);
    forget(f, 2);
}

/* Two clients wait, the first for more than is free. */
static void a_large_request_is_not_overtaken(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = semaphore_of(f, fixture_client(f, NULL), 4);
    struct relock_client *last = fixture_client(f, NULL);
    struct turn large = {semaphore(f, woken_client(f)), 3},
                small = {semaphore(f, woken_client(f)), 1};
    struct actor *first = actor_start(), *second = actor_start();

    assert_result(take(ours, 1), RELOCK_OK);
    assert_result(take(ours, 1), RELOCK_OK);
    actor_begin(first, take_turn, &large);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    actor_begin(second, take_turn, &small);
    assert_true(probe_wait_in_line(f->probe, "orders", 2));
    assert_free(f, 2, 2);
    assert_result(relock_trylock(semaphore(f, last)), RELOCK_BUSY);
    assert_result(actor_result_within(second, 400), ACTOR_BUSY);
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_result(actor_result(first), RELOCK_OK);
    assert_true(actor_is_busy(second));
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_result(actor_unlock(first, large.lock), RELOCK_OK);
    assert_result(actor_unlock(second, small.lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 1);
    forget(f, 4);
}

/* One release serves as many as it can: each that is served tells the next one. */
static void a_release_of_many_permits_serves_many(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = semaphore_of(f, fixture_client(f, NULL), 3);
    struct turn turns[3];
    struct actor *waiters[3];
    long long calls;

    assert_result(take(ours, 3), RELOCK_OK);
    for (int i = 0; i < 3; i++) {
        turns[i] = (struct turn){semaphore(f, woken_client(f)), 1};
        waiters[i] = actor_start();
        actor_begin(waiters[i], take_turn, &turns[i]);
        assert_true(probe_wait_in_line(f->probe, "orders", i + 1));
    }
    calls = probe_calls(f->probe, "evalsha");
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_results(waiters, 3, RELOCK_OK);
    calls = probe_calls(f->probe, "evalsha") - calls;
    assert_free(f, 0, 3);
    assert_true(calls >= 4 && calls <= 8); /* the second asks by itself if the machine is slow */
    for (int i = 0; i < 3; i++)
        assert_result(actor_unlock(waiters[i], turns[i].lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 1);
    forget(f, 3);
}

static void more_permits_wake_waiters(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = semaphore_of(f, fixture_client(f, NULL), 1);
    struct turn turn = {semaphore(f, woken_client(f)), 1};
    struct actor *waiter = actor_start();

    assert_result(take(ours, 1), RELOCK_OK);
    actor_begin(waiter, take_turn, &turn);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    assert_result(relock_semaphore_set(ours, 2), RELOCK_OK);
    assert_result(actor_result(waiter), RELOCK_OK);
    assert_result(actor_unlock(waiter, turn.lock), RELOCK_OK);
    assert_result(relock_unlock(ours), RELOCK_OK);
    forget(f, 2);
}

/* Also those behind the first one. */
static void waiters_learn_that_there_are_too_few(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = semaphore_of(f, fixture_client(f, NULL), 3);
    struct turn turns[2];
    struct actor *waiters[2];

    assert_result(take(ours, 3), RELOCK_OK);
    for (int i = 0; i < 2; i++) {
        turns[i] = (struct turn){semaphore(f, woken_client(f)), 2};
        waiters[i] = actor_start();
        actor_begin(waiters[i], take_turn, &turns[i]);
        assert_true(probe_wait_in_line(f->probe, "orders", i + 1));
    }
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    assert_result(actor_result_within(waiters[0], 300), ACTOR_BUSY); /* it listens, and has asked */
    assert_result(relock_semaphore_set(ours, 1), RELOCK_OK);
    assert_results(waiters, 2, RELOCK_E_INVALID);
    assert_result(relock_unlock(ours), RELOCK_OK);
    forget(f, 1);
}

static void a_waiter_learns_that_the_semaphore_was_deleted(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &(struct relock_options){.recheck_ms = 100});
    struct relock_lock *ours = semaphore_of(f, fixture_client(f, NULL), 1);
    struct turn turn = {semaphore(f, client), 1};
    struct actor *waiter = actor_start();

    assert_result(take(ours, 1), RELOCK_OK);
    actor_begin(waiter, take_turn, &turn);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_result(actor_result(waiter), RELOCK_E_NO_PERMITS);
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_true(wait_for_no_keys(f->probe));
}

/* ---- those that do not come ---------------------------------------------------------------- */

/* A process that stands in the line, needs `need` permits, and does nothing more. */
static void silent_joins(struct fixture *f, const char *need)
{
    assert_int_equal(probe_int(f->probe, "RPUSH " LINE " " SILENT), 1);
    assert_int_equal(
        probe_int(f->probe, "HSET relock_waiters:turn:{orders} needer " SILENT " need %s", need),
        2);
}

static void a_dead_process_before_them_stops_nobody(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, woken_client(f), 4);

    assert_result(take(lock, 2), RELOCK_OK);
    silent_joins(f, "4"); /* nobody is subscribed to its inbox */
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS " LINE), 0);
    silent_joins(f, "4");
    assert_result(take_within(lock, 1, LONG_MS), RELOCK_OK);
    for (int i = 0; i < 3; i++)
        assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 1);
    forget(f, 4);
}

/* It is subscribed, so permits are kept for it; but not for ever. */
static void a_silent_process_is_waited_for_a_moment(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = semaphore_of(f, fixture_client(f, NULL), 2);
    struct turn turn = {semaphore(f, woken_client(f)), 1};
    struct actor *waiter = actor_start();
    struct probe *silent = probe_open(f->server->socket);

    (void)probe_text(silent, "SUBSCRIBE relock_client:{" SILENT "}");
    assert_result(take(ours, 2), RELOCK_OK);
    silent_joins(f, "2");
    actor_begin(waiter, take_turn, &turn);
    assert_true(probe_wait_in_line(f->probe, "orders", 2));
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_result(actor_result(waiter), RELOCK_OK);
    assert_result(actor_unlock(waiter, turn.lock), RELOCK_OK);
    probe_close(silent);
    assert_int_equal(probe_n_keys(f->probe), 1);
    forget(f, 2);
}

/* It wants more than there are now in all, so there will never be enough for it. */
static void a_silent_process_that_wants_too_many_stops_nobody(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, woken_client(f), 4);
    struct probe *silent = probe_open(f->server->socket);

    (void)probe_text(silent, "SUBSCRIBE relock_client:{" SILENT "}");
    silent_joins(f, "4");
    assert_result(relock_semaphore_set(lock, 3), RELOCK_OK);
    assert_result(take_within(lock, 1, LONG_MS), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    probe_close(silent);
    assert_int_equal(probe_n_keys(f->probe), 1);
    forget(f, 3);
}

/* The first leaves, and those behind it can be served. */
static void a_large_request_that_ends_lets_others_pass(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = semaphore_of(f, fixture_client(f, NULL), 2);
    struct turn turn = {semaphore(f, woken_client(f)), 1};
    struct actor *first = actor_start(), *second = actor_start();
    struct relock_cancel *cancel;
    struct relock_how how = {.permits = 2, .wait_ms = LONG_MS};

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    how.cancel = cancel;
    assert_result(take(ours, 1), RELOCK_OK);
    actor_begin_acquire(first, semaphore(f, woken_client(f)), &how);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    actor_begin(second, take_turn, &turn);
    assert_true(probe_wait_in_line(f->probe, "orders", 2));
    relock_cancel_fire(cancel);
    assert_result(actor_result(first), RELOCK_CANCELLED);
    assert_result(actor_result(second), RELOCK_OK);
    assert_result(actor_unlock(second, turn.lock), RELOCK_OK);
    assert_result(relock_unlock(ours), RELOCK_OK);
    relock_cancel_free(cancel);
    assert_int_equal(probe_n_keys(f->probe), 1);
    forget(f, 2);
}

/* It waits behind another thread of its client, which wants more. */
static void a_small_request_behind_one_that_ended_is_served(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = semaphore_of(f, client, 2);
    struct turn turn = {lock, 1};
    struct actor *first = actor_start(), *second = actor_start();
    struct relock_cancel *cancel;
    struct relock_how how = {.permits = 2, .wait_ms = LONG_MS};

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    how.cancel = cancel;
    assert_result(take(lock, 1), RELOCK_OK);
    actor_begin_acquire(first, lock, &how);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    actor_begin(second, take_turn, &turn);
    assert_true(wait_for_waiters(client, 2));
    assert_result(actor_result_within(second, 100), ACTOR_BUSY);
    relock_cancel_fire(cancel);
    assert_result(actor_result(first), RELOCK_CANCELLED);
    assert_result(actor_result(second), RELOCK_OK);
    assert_result(actor_unlock(second, lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    relock_cancel_free(cancel);
    assert_int_equal(probe_n_keys(f->probe), 1);
    forget(f, 2);
}

/* The first in line is told that it is its turn when there are enough permits for it. */
static void a_waiter_that_cannot_be_served_sleeps_on(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, fixture_client(f, NULL), 4);
    struct listener *silent = listener_open(f->server->socket, "relock_client:{" SILENT "}");

    for (int i = 0; i < 4; i++)
        assert_result(take(lock, 1), RELOCK_OK);
    silent_joins(f, "3");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(silent, "first orders", SOON_MS)); /* does it live? */
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(silent, "first orders", SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(silent, "now orders", SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    listener_close(silent);
    (void)probe_int(f->probe, "DEL " LINE " relock_waiters:turn:{orders}");
    forget(f, 4);
}

/* ---- beside Redisson ----------------------------------------------------------------------- */

static void a_permit_of_redissons_counts(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, fixture_client(f, NULL), 2);

    peer_takes(f, LONG_MS);
    assert_result(take(lock, 2), RELOCK_BUSY);
    assert_result(take(lock, 1), RELOCK_OK);
    peer_gives_back(f);
    assert_result(take(lock, 1), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 2);
}

static void redissons_release_wakes_a_waiter(void **state)
{
    struct fixture *f = *state;
    struct turn turn = {semaphore_of(f, woken_client(f), 1), 1};
    struct actor *waiter = actor_start();

    peer_takes(f, LONG_MS);
    actor_begin(waiter, take_turn, &turn);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    peer_gives_back(f);
    assert_result(actor_result(waiter), RELOCK_OK);
    assert_result(actor_unlock(waiter, turn.lock), RELOCK_OK);
    forget(f, 1);
}

static void an_expired_permit_of_redissons_comes_back(void **state)
{
    struct fixture *f = *state;
    struct turn turn = {semaphore_of(f, woken_client(f), 1), 1};

    peer_takes(f, 60);
    assert_result(take_turn(&turn), RELOCK_OK);
    assert_result(relock_unlock(turn.lock), RELOCK_OK);
    forget(f, 1);
}

static void a_clock_that_is_a_little_ahead_takes_no_permit(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = semaphore_of(f, fixture_client(f, NULL), 1);
    struct relock_how how = {.lease_ms = LONG_MS, .permits = 1};
    unsigned char id[16];
    uint64_t before_ms = server_now_ms(f), till_ms;

    how.permit_ids = id;
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    till_ms = (uint64_t)probe_int(f->probe, "ZSCORE " OUT " %b", id, sizeof(id));
    assert_true(till_ms >= before_ms + LONG_MS + 1000);
    assert_true(till_ms <= server_now_ms(f) + LONG_MS + 1000);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(at_most_n_permits_are_out),
        SERVER_TEST(permits_that_were_never_set_are_a_result_of_their_own),
        SERVER_TEST(no_permits_are_refused_at_once),
        SERVER_TEST(more_than_all_permits_are_refused_at_once),
        SERVER_TEST(a_lower_number_waits_until_permits_come_back),
        SERVER_TEST(permits_can_be_added_and_taken_away),
        SERVER_TEST(the_most_permits_of_one_call_have_ids_of_their_own),
        SERVER_TEST(data_of_another_program_stay),
        SERVER_TEST(a_number_out_of_range_is_data_of_another_program),
        SERVER_TEST(an_owner_has_the_permits_of_each_acquire),
        SERVER_TEST(another_owner_of_the_client_does_not_count),
        SERVER_TEST(non_reentrant_refuses_an_owner_with_permits),
        SERVER_TEST(extending_extends_all_that_an_owner_has),
        SERVER_TEST(a_wait_for_permits_is_no_deadlock),
        SERVER_TEST(permits_are_renewed),
        SERVER_TEST(a_fixed_lease_ends_and_its_permits_come_back),
        SERVER_TEST(the_permits_of_a_process_that_died_come_back),
        SERVER_TEST(permits_that_were_taken_are_lost),
        SERVER_TEST(a_lost_acquire_is_released_before_newer_ones),
        SERVER_TEST(a_thread_that_ends_gives_its_permits_back),
        SERVER_TEST(a_freed_client_gives_all_permits_back),
        SERVER_TEST(red_locks_refuse_a_semaphore),
        SERVER_TEST(a_release_wakes_a_waiter),
        SERVER_TEST(a_waiter_of_the_same_client_is_woken),
        SERVER_TEST(a_large_request_is_not_overtaken),
        SERVER_TEST(a_release_of_many_permits_serves_many),
        SERVER_TEST(more_permits_wake_waiters),
        SERVER_TEST(waiters_learn_that_there_are_too_few),
        SERVER_TEST(a_waiter_learns_that_the_semaphore_was_deleted),
        SERVER_TEST(a_dead_process_before_them_stops_nobody),
        SERVER_TEST(a_silent_process_is_waited_for_a_moment),
        SERVER_TEST(a_silent_process_that_wants_too_many_stops_nobody),
        SERVER_TEST(a_large_request_that_ends_lets_others_pass),
        SERVER_TEST(a_small_request_behind_one_that_ended_is_served),
        SERVER_TEST(a_waiter_that_cannot_be_served_sleeps_on),
        SERVER_TEST(a_permit_of_redissons_counts),
        SERVER_TEST(redissons_release_wakes_a_waiter),
        SERVER_TEST(an_expired_permit_of_redissons_comes_back),
        SERVER_TEST(a_clock_that_is_a_little_ahead_takes_no_permit),
    };

    return SERVER_TESTS_RUN(tests);
}
