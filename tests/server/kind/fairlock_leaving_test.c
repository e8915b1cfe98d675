/*
 * A waiter of a fair lock whose wait ends leaves the queue at once and blocks nobody. No test here
 * lasts until a recheck, so a waiter that gets the lock was woken.
 */
#include "support/actor.h"
#include "support/fair_queue.h"

#include <pthread.h>
#include <stdatomic.h>

#define N_WAITERS 3

/* One client holds the lock, and three others wait for it. */
struct line {
    struct relock_client *clients[N_WAITERS];
    struct relock_lock *locks[N_WAITERS];
    struct actor *actors[N_WAITERS];
    struct relock_how how[N_WAITERS];
    struct relock_lock *held;
};

static void line_up(struct fixture *f, struct line *line)
{
    line->held = fair_handle(f, woken_client(f));
    assert_result(relock_lock(line->held), RELOCK_OK);
    for (int i = 0; i < N_WAITERS; i++) {
        line->how[i].wait_ms = RELOCK_FOREVER;
        assert_result(relock_cancel_new(&line->how[i].cancel), RELOCK_OK);
        line->clients[i] = woken_client(f);
        line->locks[i] = fair_handle(f, line->clients[i]);
        line->actors[i] = actor_start();
        actor_begin_acquire(line->actors[i], line->locks[i], &line->how[i]);
        assert_true(fair_queue_wait(f, i + 1));
    }
}

/* All waiters but one get in, in their order. */
static void the_others_get_in(struct fixture *f, struct line *line, int left)
{
    assert_true(fair_queue_wait(f, N_WAITERS - 1));
    assert_result(relock_unlock(line->held), RELOCK_OK);
    for (int i = 0; i < N_WAITERS; i++) {
        if (i == left)
            continue;
        assert_result(actor_result(line->actors[i]), RELOCK_OK);
        for (int j = i + 1; j < N_WAITERS; j++)
            assert_true(j == left || actor_is_busy(line->actors[j]));
        assert_result(actor_unlock(line->actors[i], line->locks[i]), RELOCK_OK);
        assert_int_equal(stats_of(line->clients[i]).rechecks, 0);
    }
    for (int i = 0; i < N_WAITERS; i++)
        relock_cancel_free(line->how[i].cancel);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_cancelled_waiter_leaves_any_place_of_the_queue(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < N_WAITERS; i++) {
        struct line line = {0};

        line_up(f, &line);
        relock_cancel_fire(line.how[i].cancel);
        assert_result(actor_result(line.actors[i]), RELOCK_CANCELLED);
        the_others_get_in(f, &line, i);
        for (int j = 0; j < N_WAITERS; j++)
            fixture_free_client(f, line.clients[j]);
    }
}

static void a_client_that_is_shut_down_or_freed_leaves_the_queue(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 2; i++) {
        struct line line = {0};

        line_up(f, &line);
        if (i == 0)
            relock_client_shutdown(line.clients[i]);
        else
            fixture_free_client(f, line.clients[i]);
        assert_result(actor_result(line.actors[i]), RELOCK_E_CLOSED);
        the_others_get_in(f, &line, i);
        for (int j = 0; j < N_WAITERS; j++)
            if (i == 0 || j != i)
                fixture_free_client(f, line.clients[j]);
    }
}

/* When a client has been freed, its places are gone. */
static void no_place_outlives_its_client(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *held = fair_handle(f, woken_client(f));
    struct relock_lock *lock = fair_handle(f, client);
    struct actor *actors[4];

    assert_result(relock_lock(held), RELOCK_OK);
    actors_begin_lock(actors, 4, lock);
    assert_true(fair_queue_wait(f, 4));
    fixture_free_client(f, client);
    assert_int_equal(probe_int(f->probe, "EXISTS " FAIR_QUEUE " " FAIR_DEADLINES), 0);
    assert_results(actors, 4, RELOCK_E_CLOSED);
    assert_result(relock_unlock(held), RELOCK_OK);
}

static void a_waiter_past_its_deadline_leaves_the_queue(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fair_handle(f, client);
    struct actor *first = actor_start(), *second = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_timedlock(first, lock, (int64_t)slow_ms(1500)); /* so long both are seen */
    assert_true(fair_queue_wait(f, 1));
    fair_queue_begin(f, second, lock, 2);
    assert_result(actor_result(first), RELOCK_TIMEOUT);
    assert_true(fair_queue_wait(f, 1));
    assert_result(actor_wait_out(first, lock, 1), RELOCK_TIMEOUT);
    assert_true(fair_queue_wait(f, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(second, lock);
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_int_equal(losses_count(f->losses), 0);
}

/* The lock is held by the caller that got RELOCK_OK, or by nobody. */
static void a_grant_that_meets_a_cancel_is_held_or_released(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fair_handle(f, client);
    struct relock_lock *held = fair_handle(f, woken_client(f));
    struct actor *first = actor_start(), *second = actor_start();
    int cancelled = 0;

    for (int i = 0; i < 60; i++) {
        struct relock_how how = {.wait_ms = RELOCK_FOREVER};
        int r;

        assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
        assert_result(relock_lock(held), RELOCK_OK);
        actor_begin_acquire(first, lock, &how);
        assert_true(fair_queue_wait(f, 1));
        fair_queue_begin(f, second, lock, 2);
        if (i % 2 == 0)
            relock_cancel_fire(how.cancel);
        assert_result(relock_unlock(held), RELOCK_OK);
        relock_cancel_fire(how.cancel);
        r = actor_result(first);
        cancelled += r == RELOCK_CANCELLED;
        if (r != RELOCK_CANCELLED) {
            assert_result(r, RELOCK_OK);
            assert_true(actor_is_busy(second));
            assert_result(actor_unlock(first, lock), RELOCK_OK);
        }
        assert_gets_in(second, lock);
        relock_cancel_free(how.cancel);
    }
    assert_true(cancelled > 0);
    assert_int_equal(stats_of(client).rechecks, 0);
}

struct doomed {
    struct relock_lock *lock;
    atomic_int locked;
};

static void *lock_then_end(void *arg)
{
    struct doomed *doomed = arg;

    atomic_store(&doomed->locked, relock_lock(doomed->lock));
    pthread_testcancel();
    return NULL;
}

/* A thread is not cancelled inside a wait: it keeps its place, and its exit releases the lock. */
static void a_thread_that_is_cancelled_goes_on_to_wait(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fair_handle(f, woken_client(f));
    struct doomed doomed = {.lock = lock, .locked = 1};
    struct actor *behind = actor_start();
    pthread_t thread;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(pthread_create(&thread, NULL, lock_then_end, &doomed), 0);
    assert_true(fair_queue_wait(f, 1));
    fair_queue_begin(f, behind, lock, 2);
    pthread_cancel(thread);
    let_pass(20);
    assert_true(fair_queue_wait(f, 2));
    assert_result(relock_unlock(lock), RELOCK_OK);
    pthread_join(thread, NULL);
    assert_result(atomic_load(&doomed.locked), RELOCK_OK);
    assert_gets_in(behind, lock);
}

/* The loss is reported to the holder, once. The waiters go on as after a release. */
static void a_forced_unlock_wakes_the_first(void **state)
{
    struct fixture *f = *state;
    struct relock_options watchful = {.watchdog_timeout_ms = slow_ms(900)};
    struct relock_client *client = woken_client(f);
    struct relock_lock *held = fair_handle(f, fixture_client(f, &watchful));
    struct relock_lock *lock = fair_handle(f, client);
    struct actor *first = actor_start(), *second = actor_start();

    assert_result(acquire_for(held, NEVER_MS), RELOCK_OK);
    assert_result(relock_lock(held), RELOCK_OK); /* renewed from here on */
    fair_queue_begin(f, first, lock, 1);
    fair_queue_begin(f, second, lock, 2);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_result(actor_result(first), RELOCK_OK);
    assert_true(actor_is_busy(second));
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_true(losses_get(f->losses, 0).reason == RELOCK_LOST_TAKEN ||
                losses_get(f->losses, 0).reason == RELOCK_LOST_GONE); /* a moment earlier */
    assert_result(relock_unlock(held), RELOCK_LOST);
    assert_result(relock_unlock(held), RELOCK_LOST);
    assert_result(actor_unlock(first, lock), RELOCK_OK);
    assert_gets_in(second, lock);
    assert_int_equal(losses_count(f->losses), 1);
    assert_int_equal(stats_of(client).rechecks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_cancelled_waiter_leaves_any_place_of_the_queue),
        SERVER_TEST(a_client_that_is_shut_down_or_freed_leaves_the_queue),
        SERVER_TEST(no_place_outlives_its_client),
        SERVER_TEST(a_waiter_past_its_deadline_leaves_the_queue),
        SERVER_TEST(a_grant_that_meets_a_cancel_is_held_or_released),
        SERVER_TEST(a_thread_that_is_cancelled_goes_on_to_wait),
        SERVER_TEST(a_forced_unlock_wakes_the_first),
    };

    return SERVER_TESTS_RUN(tests);
}
