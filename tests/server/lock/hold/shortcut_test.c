/*
 * Threads make pairs of kept locks without the mutex, while the watchdog, other clients and other
 * calls look at these locks. unit/lock/hold/shortcut_test.c has each step by itself.
 */
#include "support/actor.h"
#include "support/keeping.h"
#include "support/kinds.h"

#include <stdatomic.h>

#define LONG_MS 3600000
#define WARM 3    /* pairs, after which a shortcut is open, unless the machine stands still */
#define THREADS 3 /* two share a lock, and one has its own, which is never recalled */
#define LOCKS 2
#define DISTURBANCES 1000
#define BETWEEN_RECALLS 100
#define PAIRS_MIN 100 /* of each thread */

static void warm_up(struct relock_lock *lock)
{
    for (int i = 0; i < WARM; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
}

/* ---- one thread after the other -------------------------------------------------------------- */

static void another_thread_meets_the_owner(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *other = actor_start();
    struct relock_grant grant;

    warm_up(lock);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(actor_trylock(other, lock), RELOCK_BUSY);
    assert_result(actor_unlock(other, lock), RELOCK_NOT_OWNER);
    assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 1);
    assert_result(relock_lock(lock), RELOCK_OK); /* a second level */
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(relock_is_mine(lock));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_lock(other, lock), RELOCK_OK);
    assert_result(actor_unlock(other, lock), RELOCK_OK);
}

static void a_grant_describes_the_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.watchdog_timeout_ms = LONG_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_grant first, grant;

    assert_result(relock_acquire(lock, NULL, &first), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (int i = 0; i < WARM; i++) {
        assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
        assert_int_equal(grant.owner, first.owner);
        assert_int_equal(grant.hold_count, 1);
        assert_int_equal(grant.fencing_token, 0);
        assert_true(grant.valid_ms > LONG_MS / 2 && grant.valid_ms <= LONG_MS);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
}

static void a_lock_that_is_used_all_the_time_is_verified(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(
        f, &(struct relock_options){.watchdog_timeout_ms = LONG_MS, .flags = RELOCK_NO_TRACKING});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t until_ms = now_ms() + SOON_MS;

    while (stats_of(client).renewed < 3 && now_ms() < until_ms)
        warm_up(lock);
    assert_true(late_unless(stats_of(client).renewed >= 3));
}

/* Returns what ended them: RELOCK_LOST, RELOCK_BUSY when the lock was not kept any more, or
 * RELOCK_OK when nothing did in time. */
static int make_pairs(struct relock_lock *lock)
{
    uint64_t until_ms = now_ms() + SOON_MS;
    int r = RELOCK_OK;

    while (r == RELOCK_OK && now_ms() < until_ms) {
        r = relock_trylock(lock);
        if (r == RELOCK_OK)
            r = relock_unlock(lock);
    }
    return r;
}

static void pairs_end_soon_when_the_lock_was_taken(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(
        f, &(struct relock_options){.watchdog_timeout_ms = LONG_MS, .flags = RELOCK_NO_TRACKING});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    int r;

    warm_up(lock);
    assert_true(kind_peer_usurp(f, "orders"));
    r = make_pairs(lock);
    assert_true(late_unless(r != RELOCK_OK));
    assert_true(r == RELOCK_LOST || r == RELOCK_BUSY);
    assert_true(kind_peer_unlock(f, "orders"));
}

/* Meanwhile another thread makes pairs of the lock, which is free. */
static void the_owner_of_a_lost_hold_acquires_no_further_level(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.watchdog_timeout_ms = LONG_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *loser = actor_start();

    assert_result(actor_lock(loser, lock), RELOCK_OK);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    warm_up(lock);
    warm_up(lock);
    assert_result(actor_lock(loser, lock), RELOCK_LOST);
    assert_result(actor_unlock(loser, lock), RELOCK_LOST);
    assert_result(actor_unlock(loser, lock), RELOCK_NOT_OWNER);
    warm_up(lock);
}

static void another_client_waits_for_the_release(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *theirs = kind_lock(f, fixture_client(f, NULL), "orders");
    struct actor *other = actor_start();

    warm_up(lock);
    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(other, theirs);
    assert_true(wait_for_recalls(client, 1));
    assert_true(actor_is_busy(other));
    assert_true(relock_is_mine(lock));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(other, theirs);
}

static int warm_up_and_leave(void *arg)
{
    int r = RELOCK_OK;

    for (int i = 0; i < WARM && r == RELOCK_OK; i++) {
        r = relock_lock(arg);
        if (r == RELOCK_OK && i + 1 < WARM)
            r = relock_unlock(arg);
    }
    return r;
}

static void the_lock_of_a_thread_that_ends_is_released(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *other = actor_start();

    actor_begin(other, warm_up_and_leave, lock);
    assert_result(actor_result(other), RELOCK_OK);
    actor_end(other);
    assert_int_equal(stats_of(client).holds, 0);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void after_a_shutdown_the_owner_releases_in_redis(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *other = actor_start();

    warm_up(lock);
    assert_result(relock_lock(lock), RELOCK_OK);
    relock_client_shutdown(client);
    assert_result(actor_trylock(other, lock), RELOCK_E_CLOSED);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(kind_holder(f, "orders"), "");
    assert_result(relock_lock(lock), RELOCK_E_CLOSED);
}

/* ---- all at once ----------------------------------------------------------------------------- */

struct shared {
    struct relock_lock *lock;
    uint64_t n; /* guarded by the lock alone */
};

struct adder {
    struct shared *shared;
    uint64_t n; /* of this thread */
};

static atomic_bool is_over;

static int add_up(void *arg)
{
    struct adder *adder = arg;
    int r = RELOCK_OK;

    for (adder->n = 0; r == RELOCK_OK && (!is_over || adder->n < PAIRS_MIN); adder->n++) {
        r = relock_lock(adder->shared->lock);
        if (r != RELOCK_OK)
            break;
        adder->shared->n++;
        r = relock_unlock(adder->shared->lock);
    }
    return r;
}

/* While threads use the lock: others ask for it, and look at it. */
static void disturb(struct relock_client *client, struct relock_lock *ours,
                    struct relock_lock *theirs, bool recalls)
{
    assert_true(stats_of(client).holds <= LOCKS);
    assert_false(relock_is_mine(ours));
    assert_result(relock_unlock(ours), RELOCK_NOT_OWNER);
    if (relock_trylock(ours) == RELOCK_OK)
        assert_result(relock_unlock(ours), RELOCK_OK);
    if (!recalls)
        return;
    assert_result(relock_lock(theirs), RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_OK);
}

static void assert_counts(struct relock_client *client, uint64_t n_least)
{
    struct relock_stats stats = stats_of(client);

    assert_true(stats.reused > 0);
    assert_true(stats.acquires[RELOCK_OK] >= n_least);
    assert_int_equal(stats.acquires[RELOCK_OK], stats.acquired + stats.passed_on + stats.reused);
    assert_int_equal(stats.acquires[RELOCK_OK], stats.releases[RELOCK_OK]);
    assert_int_equal(stats.wait.count, stats.acquires[RELOCK_OK]);
    assert_int_equal(stats.hold.count, stats.acquires[RELOCK_OK]);
    assert_int_equal(stats.holds, 0);
}

static void threads_lose_no_update_and_no_count(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.watchdog_timeout_ms = LONG_MS});
    struct relock_client *other = fixture_client(f, NULL);
    static const char *const names[LOCKS] = {"orders", "invoices"};
    struct relock_lock *theirs[LOCKS];
    struct actor *actors[THREADS];
    struct adder adders[THREADS];
    struct shared shared[LOCKS] = {{0}};
    uint64_t n[LOCKS] = {0};

    is_over = false;
    for (int i = 0; i < LOCKS; i++) {
        shared[i].lock = fixture_lock(f, client, names[i]);
        theirs[i] = fixture_lock(f, other, names[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        adders[i] = (struct adder){.shared = &shared[i % LOCKS]};
        actors[i] = actor_start();
        actor_begin(actors[i], add_up, &adders[i]);
    }
    for (int i = 0; i < DISTURBANCES; i++)
        disturb(client, shared[i % LOCKS].lock, theirs[i % LOCKS], i % BETWEEN_RECALLS == 0);
    is_over = true;
    assert_results(actors, THREADS, RELOCK_OK);
    for (int i = 0; i < THREADS; i++)
        n[i % LOCKS] += adders[i].n;
    for (int i = 0; i < LOCKS; i++)
        assert_int_equal(shared[i].n, n[i]);
    assert_counts(client, n[0] + n[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(another_thread_meets_the_owner),
        SERVER_TEST(a_grant_describes_the_hold),
        SERVER_TEST(a_lock_that_is_used_all_the_time_is_verified),
        KINDS_TEST_OF(pairs_end_soon_when_the_lock_was_taken, reentrant),
        SERVER_TEST(the_owner_of_a_lost_hold_acquires_no_further_level),
        KINDS_TEST_OF(another_client_waits_for_the_release, reentrant),
        KINDS_TEST_OF(the_lock_of_a_thread_that_ends_is_released, reentrant),
        KINDS_TEST_OF(the_lock_of_a_thread_that_ends_is_released, spin),
        KINDS_TEST_OF(after_a_shutdown_the_owner_releases_in_redis, reentrant),
        SERVER_TEST(threads_lose_no_update_and_no_count),
    };

    return SERVER_TESTS_RUN(tests);
}
