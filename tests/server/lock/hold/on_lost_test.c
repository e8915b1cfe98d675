/* The on_lost callback: its thread, the calls that it may make, and its end. */
#include "support/actor.h"
#include "support/fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#define LEASE_MS 1500 /* outlives a second in which a machine stands still */
#define LONG_MS 600000

static void on_lost_runs_on_one_thread_of_the_library(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *orders = fixture_lock(f, client, "orders");
    struct relock_lock *ledger = fixture_lock(f, client, "ledger");

    assert_result(relock_lock(orders), RELOCK_OK);
    assert_result(relock_lock(ledger), RELOCK_OK);
    probe_int(f->probe, "DEL orders ledger");
    assert_true(losses_wait(f->losses, 2, SOON_MS));
    assert_false(pthread_equal(losses_get(f->losses, 0).thread, pthread_self()));
    assert_true(pthread_equal(losses_get(f->losses, 0).thread, losses_get(f->losses, 1).thread));
    assert_string_not_equal(losses_get(f->losses, 0).name, losses_get(f->losses, 1).name);
    assert_result(relock_unlock(orders), RELOCK_LOST);
    assert_result(relock_unlock(ledger), RELOCK_LOST);
}

static void the_callback_of_the_hold_replaces_the_one_of_the_client(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *orders = fixture_lock(f, client, "orders");
    struct relock_lock *ledger = fixture_lock(f, client, "ledger");
    struct losses *own = losses_new();

    assert_result(acquire_reporting(orders, losses_write, own), RELOCK_OK);
    assert_result(relock_lock(ledger), RELOCK_OK);
    probe_int(f->probe, "DEL orders ledger");

    assert_true(losses_wait(own, 1, SOON_MS));
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(own, 0).name, "orders");
    assert_string_equal(losses_get(f->losses, 0).name, "ledger");
    assert_result(relock_unlock(orders), RELOCK_LOST);
    assert_result(relock_unlock(ledger), RELOCK_LOST);
    assert_int_equal(losses_count(own), 1);
    assert_int_equal(losses_count(f->losses), 1);
    losses_free(own);
}

static void the_callback_of_the_first_level_counts(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, watchful_client(f, LEASE_MS), "orders");
    struct losses *outer = losses_new(), *inner = losses_new();

    assert_result(acquire_reporting(lock, losses_write, outer), RELOCK_OK);
    assert_result(acquire_reporting(lock, losses_write, inner), RELOCK_OK);
    probe_int(f->probe, "DEL orders");

    assert_true(losses_wait(outer, 1, SOON_MS));
    assert_int_equal(losses_get(outer, 0).hold_count, 2);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_int_equal(losses_count(inner), 0);
    assert_int_equal(losses_count(f->losses), 0);
    losses_free(outer);
    losses_free(inner);
}

static void a_client_without_a_callback_loses_in_silence(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(
        f, &(struct relock_options){
               .watchdog_timeout_ms = slow_ms(LEASE_MS), .on_log = log_write, .arg = f->log});
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    probe_int(f->probe, "DEL orders");
    assert_true(wait_for_lost(client, 1));
    assert_result(relock_check(lock, 0, NULL), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* The results seen by a callback; the main thread reads them after `done`. */
struct seen {
    struct fixture *f;
    struct relock_client *client;
    struct relock_lock *lock, *free_one;
    struct relock_cancel *cancel;
    sem_t done;
    int results[12];
    int n;
    int check, stats, release, check_after;
    unsigned hold_count;
};

static void note(struct seen *seen, int result)
{
    seen->results[seen->n++] = result;
}

static void do_what_would_block(const struct relock_lost *what, void *arg)
{
    struct seen *seen = arg;
    struct relock_options options = {.url = seen->f->server->unix_url};
    struct relock_client *client = NULL;
    struct relock_holder holder;
    unsigned count;
    int64_t ttl_ms;
    bool locked;

    (void)what;
    note(seen, relock_lock(seen->free_one));
    note(seen, relock_trylock(seen->free_one));
    note(seen, relock_timedlock(seen->free_one, LONG_MS));
    note(seen, relock_acquire(seen->free_one, NULL, NULL));
    note(seen, relock_extend(seen->free_one, what->owner, 1000));
    note(seen, relock_force_unlock(seen->free_one));
    note(seen, relock_who_holds(seen->free_one, &holder));
    note(seen, relock_is_locked(seen->free_one, &locked));
    note(seen, relock_hold_count(seen->free_one, &count));
    note(seen, relock_ttl_ms(seen->free_one, &ttl_ms));
    note(seen, relock_client_new(&options, &client));
    sem_post(&seen->done);
}

static bool is_done(void *arg)
{
    return sem_trywait(&((struct seen *)arg)->done) == 0;
}

static void a_blocking_call_in_the_callback_reports_a_deadlock_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct seen seen = {.f = f,
                        .lock = fixture_lock(f, client, "orders"),
                        .free_one = fixture_lock(f, client, "free")};

    sem_init(&seen.done, 0, 0);
    assert_result(relock_lock(seen.free_one), RELOCK_OK);
    assert_result(acquire_reporting(seen.lock, do_what_would_block, &seen), RELOCK_OK);
    probe_int(f->probe, "DEL orders");
    assert_true(wait_until(is_done, &seen, SOON_MS));

    assert_int_equal(seen.n, 11);
    for (int i = 0; i < seen.n; i++)
        assert_result(seen.results[i], RELOCK_E_DEADLOCK);
    assert_result(relock_unlock(seen.lock), RELOCK_LOST);
    assert_result(relock_unlock(seen.free_one), RELOCK_OK);
    sem_destroy(&seen.done);
}

static void do_what_is_allowed(const struct relock_lost *what, void *arg)
{
    struct seen *seen = arg;
    struct relock_grant grant;
    struct relock_stats stats;

    seen->check = relock_check(seen->lock, what->owner, &grant);
    seen->hold_count = grant.hold_count;
    seen->stats = relock_client_stats(seen->client, &stats, sizeof(stats));
    note(seen, (int)relock_valid_ms(seen->lock));
    note(seen, relock_is_mine(seen->lock));
    note(seen, strcmp(relock_lock_name(seen->lock), what->name));
    note(seen, strcmp(relock_client_id(seen->client), relock_client_id(seen->client)));
    note(seen, relock_strerror(RELOCK_LOST) == NULL);
    note(seen, relock_owner_new() == 0);
    relock_cancel_fire(seen->cancel);
    seen->release = relock_release(seen->lock, what->owner);
    seen->check_after = relock_check(seen->lock, what->owner, NULL);
    relock_client_shutdown(seen->client);
    sem_post(&seen->done);
}

static void the_callback_may_query_memory_cancel_release_and_shut_down(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_client *other = fixture_client(f, NULL);
    struct seen seen = {.client = client, .lock = fixture_lock(f, client, "orders")};
    struct relock_lock *held = fixture_lock(f, other, "held");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *waiting = actor_start();

    sem_init(&seen.done, 0, 0);
    assert_result(relock_cancel_new(&seen.cancel), RELOCK_OK);
    how.cancel = seen.cancel;
    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_acquire(waiting, held, &how);

    assert_result(acquire_reporting(seen.lock, do_what_is_allowed, &seen), RELOCK_OK);
    probe_int(f->probe, "DEL orders");
    assert_true(wait_until(is_done, &seen, SOON_MS));

    assert_result(seen.check, RELOCK_LOST);
    assert_int_equal(seen.hold_count, 1);
    assert_result(seen.stats, RELOCK_OK);
    for (int i = 0; i < seen.n; i++)
        assert_int_equal(seen.results[i], 0);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    assert_result(seen.release, RELOCK_LOST);
    assert_result(seen.check_after, RELOCK_NOT_OWNER);
    assert_result(relock_unlock(seen.lock), RELOCK_NOT_OWNER);
    assert_result(relock_lock(seen.lock), RELOCK_E_CLOSED);

    assert_result(relock_unlock(held), RELOCK_OK);
    relock_cancel_free(seen.cancel);
    sem_destroy(&seen.done);
}

static void release_it(const struct relock_lost *what, void *arg)
{
    struct seen *seen = arg;

    seen->release = relock_release(seen->lock, what->owner);
    sem_post(&seen->done);
}

static void a_hold_released_inside_can_be_taken_anew(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {.lock = fixture_lock(f, watchful_client(f, LEASE_MS), "orders")};

    sem_init(&seen.done, 0, 0);
    assert_result(acquire_reporting(seen.lock, release_it, &seen), RELOCK_OK);
    probe_int(f->probe, "DEL orders");
    assert_true(wait_until(is_done, &seen, SOON_MS));
    assert_result(seen.release, RELOCK_LOST);
    assert_result(relock_lock(seen.lock), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_result(relock_unlock(seen.lock), RELOCK_OK);
    sem_destroy(&seen.done);
}

/* Not atomic on purpose: that the callback is over when the release returns orders the accesses. */
struct slow_callback {
    sem_t begun;
    int is_over;
};

static void take_long(const struct relock_lost *what, void *arg)
{
    struct slow_callback *callback = arg;

    (void)what;
    sem_post(&callback->begun);
    let_pass(300);
    callback->is_over = 1;
}

static void the_callback_ends_before_the_last_release_returns(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, watchful_client(f, LEASE_MS), "orders");
    struct slow_callback callback = {.is_over = 0};

    sem_init(&callback.begun, 0, 0);
    assert_result(acquire_reporting(lock, take_long, &callback), RELOCK_OK);
    probe_int(f->probe, "DEL orders");
    while (sem_wait(&callback.begun) != 0)
        ;

    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_int_equal(callback.is_over, 1);
    sem_destroy(&callback.begun);
}

static void count_calls(const struct relock_lost *what, void *arg)
{
    (void)what;
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Either the watchdog or the release finds the loss: no callback runs after the release. */
static void no_callback_comes_after_the_last_release(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, 300);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t deadline_ms = deadline_in(2 * SOON_MS);

    for (uint64_t i = 0; i < 30; i++) {
        atomic_int calls = 0;
        int after, r;

        do
            r = acquire_reporting(lock, count_calls, &calls);
        while (r == RELOCK_E_CONN && now_ms() < deadline_ms); /* of the lease nothing was left */
        assert_result(r, RELOCK_OK);
        probe_int(f->probe, "DEL orders");
        let_pass(slow_ms(85 + i)); /* the watchdog asks after a third of the lease, about */
        r = relock_unlock(lock);
        assert_result(r, RELOCK_LOST);
        after = atomic_load(&calls);
        assert_true(after <= 1);
        let_pass(5);
        assert_int_equal(atomic_load(&calls), after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(on_lost_runs_on_one_thread_of_the_library),
        SERVER_TEST(the_callback_of_the_hold_replaces_the_one_of_the_client),
        SERVER_TEST(the_callback_of_the_first_level_counts),
        SERVER_TEST(a_client_without_a_callback_loses_in_silence),
        SERVER_TEST(a_blocking_call_in_the_callback_reports_a_deadlock_at_once),
        SERVER_TEST(the_callback_may_query_memory_cancel_release_and_shut_down),
        SERVER_TEST(a_hold_released_inside_can_be_taken_anew),
        SERVER_TEST(the_callback_ends_before_the_last_release_returns),
        SERVER_TEST(no_callback_comes_after_the_last_release),
    };

    return SERVER_TESTS_RUN(tests);
}
