/* The I/O thread of an idle client, which no timer and no message wakes. */
#include "base/clock.h"
#include "lock/state/client.h"
#include "redis/io/io.h"
#include "redis/io/private.h"
#include "support/actor.h"
#include "support/fixture.h"

#include <stdatomic.h>

#define N_TASKS 1000

static atomic_uint n_ran;

static void run(struct relock_client *client, struct relock_task *task)
{
    (void)client;
    (void)task;
    atomic_fetch_add(&n_ran, 1);
}

static bool have_all_run(void *arg)
{
    (void)arg;
    return atomic_load(&n_ran) == N_TASKS;
}

static void all_tasks_run_at_once_though_they_take_several_turns(void **state)
{
    static struct relock_task tasks[N_TASKS];
    struct relock_client *client = woken_client(*state);

    relock_mutex_lock(&client->mutex);
    for (int i = 0; i < N_TASKS; i++) {
        tasks[i].run = run;
        relock_client_post(client, &tasks[i]);
    }
    relock_mutex_unlock(&client->mutex);
    assert_true(wait_until(have_all_run, NULL, SOON_MS));
}

#define N_TIMERS 5000

static atomic_uint n_fired;
static atomic_uint n_fired_before; /* the task ran; and one more */

static void fire(struct relock_timer *timer, uint64_t now_ms)
{
    (void)timer;
    (void)now_ms;
    atomic_fetch_add(&n_fired, 1);
}

static void note(struct relock_client *client, struct relock_task *task)
{
    (void)client;
    (void)task;
    atomic_store(&n_fired_before, atomic_load(&n_fired) + 1);
}

static bool have_all_fired(void *arg)
{
    (void)arg;
    return atomic_load(&n_fired) == N_TIMERS && atomic_load(&n_fired_before) > 0;
}

/* Nor replies: they are read between two iterations. */
static void timers_that_are_due_together_do_not_hold_up_a_task(void **state)
{
    static struct relock_timer timers[N_TIMERS];
    static struct relock_task task = {.run = note};
    struct relock_client *client = woken_client(*state);

    relock_mutex_lock(&client->mutex);
    for (int i = 0; i < N_TIMERS; i++) {
        relock_timer_init(&timers[i], fire);
        relock_client_set_timer(client, &timers[i], 1);
    }
    relock_client_post(client, &task);
    relock_mutex_unlock(&client->mutex);
    assert_true(wait_until(have_all_fired, NULL, SOON_MS));
    assert_true(atomic_load(&n_fired_before) < N_TIMERS);
}

/* ---- turns of renewals -------------------------------------------------------------------------
 */

static struct relock_hold *soon_due;
static uint64_t sent_before_ms;
static atomic_bool is_early; /* the hold was renewed while timers were due */

static void fire_and_look(struct relock_timer *timer, uint64_t now_ms)
{
    fire(timer, now_ms);
    if (soon_due->sent_ms != sent_before_ms)
        atomic_store(&is_early, true);
}

static bool is_renewed_once(void *arg)
{
    return stats_of(arg).renewed >= 1;
}

static bool is_renewed_twice(void *arg)
{
    return stats_of(arg).renewed >= 2;
}

static void set_renewal(struct relock_client *client, uint64_t at_ms, bool is_ahead)
    RELOCK_REQUIRES(client->mutex)
{
    soon_due->renew_at_ms = at_ms;
    relock_client_set_hold_timer(client, soon_due, at_ms, is_ahead);
}

/* One of those that are due may be the end of the hold. */
static void no_renewal_comes_forward_while_timers_are_due(void **state)
{
    static struct relock_timer timers[N_TIMERS];
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    atomic_store(&n_fired, 0);
    assert_result(relock_lock(lock), RELOCK_OK);
    relock_mutex_lock(&client->mutex);
    RELOCK_HOLDS_FOREACH(client, soon_due)
    {
        break;
    }
    set_renewal(client, relock_clock_now_ms(), false);
    relock_mutex_unlock(&client->mutex);
    assert_true(wait_until(is_renewed_once, client, SOON_MS)); /* the connection is up */

    relock_mutex_lock(&client->mutex);
    sent_before_ms = soon_due->sent_ms;
    client->guarded.batches.ahead_ms = SOON_MS;
    set_renewal(client, relock_clock_now_ms() + SOON_MS, true);
    for (int i = 0; i < N_TIMERS; i++) {
        relock_timer_init(&timers[i], fire_and_look);
        relock_client_set_timer(client, &timers[i], 1);
    }
    relock_mutex_unlock(&client->mutex);
    assert_true(wait_until(is_renewed_twice, client, SOON_MS));
    assert_int_equal(atomic_load(&n_fired), N_TIMERS);
    assert_false(atomic_load(&is_early));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- after its end ------------------------------------------------------------------------- */

static void is_due(struct relock_timer *timer, uint64_t now_ms)
{
    (void)timer;
    (void)now_ms;
    fail_msg("no thread is left that could fire it");
}

/* As the end of a command does that was never answered: the timer of its hold is set. */
static void set_a_timer_and_post(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    static struct relock_timer timer;
    static struct relock_task task = {.run = run};

    relock_timer_init(&timer, is_due);
    relock_client_set_timer(client, &timer, 1);
    relock_client_post(client, &task);
}

static void work_for_the_io_thread_is_dropped_when_it_has_ended(void **state)
{
    static const struct relock_client_hook_ops ops = {.close = set_a_timer_and_post};
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);

    atomic_store(&n_ran, 0);
    relock_mutex_lock(&client->mutex);
    assert_non_null(relock_client_attach(client, &ops, sizeof(struct relock_client_hook)));
    relock_mutex_unlock(&client->mutex);
    fixture_free_client(f, client);
    assert_int_equal(atomic_load(&n_ran), 0);
}

/* ---- messages ------------------------------------------------------------------------------ */

static bool reads_all_messages(void *arg)
{
    struct relock_client *client = arg;
    struct relock_pubsub *pubsub;
    bool reads;

    relock_mutex_lock(&client->mutex);
    pubsub = atomic_load(&client->topology->nodes)->pubsub;
    relock_client_wake(client);
    relock_mutex_unlock(&client->mutex);
    relock_reading_lock(pubsub->conn.reading);
    reads = pubsub->conn.reading->shared.is_needed;
    relock_reading_unlock(pubsub->conn.reading);
    return reads;
}

/* Else a message for a call that waits for several servers could stay with a waiter that reads, and
 * has been stopped by a debugger. */
static void the_io_thread_reads_all_messages_once_there_is_a_composite(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *held = fixture_lock(f, woken_client(f), "orders");
    struct actor *actor = actor_start();
    struct relock_lock **multi = fixture_place(f);

    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_lock(actor, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_false(reads_all_messages(client));
    let_pass(20);
    assert_false(reads_all_messages(client));

    assert_result(relock_multilock_new(&lock, 1, multi), RELOCK_OK);
    assert_true(wait_until(reads_all_messages, client, SOON_MS));

    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(actor_unlock(actor, lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(all_tasks_run_at_once_though_they_take_several_turns),
        SERVER_TEST(timers_that_are_due_together_do_not_hold_up_a_task),
        SERVER_TEST(no_renewal_comes_forward_while_timers_are_due),
        SERVER_TEST(work_for_the_io_thread_is_dropped_when_it_has_ended),
        SERVER_TEST(the_io_thread_reads_all_messages_once_there_is_a_composite),
    };

    return SERVER_TESTS_RUN(tests);
}
