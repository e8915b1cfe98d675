/* An unleased semaphore is the number that Redisson's RSemaphore has, and its messages. */
#include "support/actor.h"
#include "support/child.h"
#include "support/listener.h"
#include "support/numbers.h"
#include "support/rights.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define CHANNEL "redisson_sc:{jobs}"
#define N_THREADS 8

static int64_t available(struct relock_unleased *semaphore)
{
    int64_t n = INT64_MIN;

    assert_result(relock_unleased_available(semaphore, &n), RELOCK_OK);
    return n;
}

static void set(struct relock_unleased *semaphore, unsigned n)
{
    bool is_set = false;

    assert_result(relock_unleased_try_set(semaphore, n, &is_set), RELOCK_OK);
    assert_true(is_set);
}

static int try(struct relock_unleased *semaphore, unsigned n)
{
    return relock_unleased_acquire(semaphore, n, 0, NULL);
}

/* A semaphore stays in Redis for ever. */
static int end(void **state)
{
    struct fixture *f = *state;

    probe_int(f->probe, "DEL jobs");
    return numbers_end(state);
}

#define PERMITS_TEST(function) cmocka_unit_test_setup_teardown(function, fixture_begin, end)

/* ---- the state in Redis -------------------------------------------------------------------- */

static void the_number_in_redis_is_that_of_permits_available(void **state)
{
    struct fixture *f = *state;
    struct relock_unleased *semaphore = semaphore_of(fixture_client(f, NULL), "jobs");

    assert_int_equal(available(semaphore), 0);
    set(semaphore, 5);
    assert_int_equal(probe_int(f->probe, "GET jobs"), 5);
    assert_int_equal(probe_pttl(f->probe, "jobs"), -1);
    assert_result(try(semaphore, 3), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "GET jobs"), 2);
    assert_result(try(semaphore, 3), RELOCK_BUSY);
    assert_int_equal(available(semaphore), 2);
    assert_result(try(semaphore, 2), RELOCK_OK);
    assert_result(try(semaphore, 1), RELOCK_BUSY);
    assert_int_equal(probe_int(f->probe, "GET jobs"), 0);
    assert_result(relock_unleased_release(semaphore, 5), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "GET jobs"), 5);
    assert_int_equal(probe_n_keys(f->probe), 1);
}

static void redisson_hears_how_many_permits_there_are(void **state)
{
    struct fixture *f = *state;
    struct relock_unleased *semaphore = semaphore_of(fixture_client(f, NULL), "jobs");
    struct listener *listener = listener_open(f->server->socket, CHANNEL);

    set(semaphore, 5);
    assert_true(listener_hears(listener, "5", SOON_MS));
    assert_result(try(semaphore, 3), RELOCK_OK);
    assert_result(relock_unleased_release(semaphore, 1), RELOCK_OK);
    assert_true(listener_hears(listener, "3", SOON_MS));
    assert_result(relock_unleased_add(semaphore, 7), RELOCK_OK);
    assert_true(listener_hears(listener, "10", SOON_MS));
    assert_result(relock_unleased_add(semaphore, -11), RELOCK_OK);
    assert_true(listener_hears(listener, "-1", SOON_MS));
    listener_close(listener);
}

static void one_that_exists_is_not_set_again(void **state)
{
    struct fixture *f = *state;
    struct relock_unleased *semaphore = semaphore_of(fixture_client(f, NULL), "jobs");
    bool is_set = true;

    set(semaphore, 0);
    assert_result(relock_unleased_try_set(semaphore, 5, &is_set), RELOCK_OK);
    assert_false(is_set);
    assert_result(relock_unleased_try_set(semaphore, 5, NULL), RELOCK_OK);
    assert_int_equal(available(semaphore), 0);
}

static void one_that_was_never_set_has_no_permits_and_a_release_makes_it(void **state)
{
    struct fixture *f = *state;
    struct relock_unleased *semaphore = semaphore_of(fixture_client(f, NULL), "jobs");

    assert_result(try(semaphore, 1), RELOCK_BUSY);
    assert_result(relock_unleased_acquire(semaphore, 1, 30, NULL), RELOCK_TIMEOUT);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_result(relock_unleased_release(semaphore, 2), RELOCK_OK);
    assert_int_equal(available(semaphore), 2);
}

static void drained_permits_are_the_callers_and_may_be_negative(void **state)
{
    struct fixture *f = *state;
    struct relock_unleased *semaphore = semaphore_of(fixture_client(f, NULL), "jobs");
    int64_t n = -7;

    assert_result(relock_unleased_drain(semaphore, &n), RELOCK_OK);
    assert_int_equal(n, 0);
    assert_int_equal(probe_n_keys(f->probe), 0);
    set(semaphore, 4);
    assert_result(relock_unleased_drain(semaphore, &n), RELOCK_OK);
    assert_int_equal(n, 4);
    assert_int_equal(available(semaphore), 0);
    assert_result(relock_unleased_add(semaphore, -3), RELOCK_OK);
    assert_int_equal(available(semaphore), -3);
    assert_result(try(semaphore, 1), RELOCK_BUSY);
    assert_result(relock_unleased_drain(semaphore, &n), RELOCK_OK);
    assert_int_equal(n, -3);
    assert_int_equal(available(semaphore), 0);
}

/* As Redisson's addPermits() and trySetPermits() with a time to live. */
static void a_release_leaves_the_expiry_and_added_permits_end_it(void **state)
{
    struct fixture *f = *state;
    struct relock_unleased *semaphore = semaphore_of(fixture_client(f, NULL), "jobs");

    probe_int(f->probe, "SET jobs 1 PX %d", NEVER_MS);
    assert_result(relock_unleased_release(semaphore, 1), RELOCK_OK);
    assert_true(probe_pttl(f->probe, "jobs") > 0);
    assert_result(relock_unleased_add(semaphore, 1), RELOCK_OK);
    assert_int_equal(probe_pttl(f->probe, "jobs"), -1);
}

static void data_of_another_program_is_an_error_and_stays(void **state)
{
    static const char *const makes[] = {"HSET jobs a 1",
                                        "SET jobs abc",
                                        "SET jobs 1.5",
                                        "SET jobs 12345678901234567890",
                                        "SET jobs 9223372036854775808",
                                        "SET jobs -9223372036854775809",
                                        "SET jobs 007",
                                        "SET jobs -0",
                                        "SET jobs -"};
    struct fixture *f = *state;
    struct relock_unleased *semaphore = semaphore_of(fixture_client(f, NULL), "jobs");
    bool is_set = true;
    int64_t n;

    for (size_t i = 0; i < sizeof(makes) / sizeof(*makes); i++) {
        assert_true(probe_int(f->probe, makes[i]) >= 0);
        assert_result(relock_unleased_available(semaphore, &n), RELOCK_E_SERVER);
        assert_result(try(semaphore, 1), RELOCK_E_SERVER);
        assert_result(relock_unleased_acquire(semaphore, 1, SOON_MS, NULL), RELOCK_E_SERVER);
        assert_result(relock_unleased_release(semaphore, 1), RELOCK_E_SERVER);
        assert_result(relock_unleased_add(semaphore, 1), RELOCK_E_SERVER);
        assert_result(relock_unleased_drain(semaphore, &n), RELOCK_E_SERVER);
        assert_result(relock_unleased_try_set(semaphore, 1, &is_set), RELOCK_OK);
        assert_false(is_set);
        assert_string_equal(probe_text(f->probe, "TYPE jobs"), i == 0 ? "hash" : "string");
        if (i > 0)
            assert_string_equal(probe_text(f->probe, "GET jobs"), makes[i] + strlen("SET jobs "));
        assert_int_equal(probe_int(f->probe, "DEL jobs"), 1);
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

static void a_waiter_is_woken_by_redissons_message_alone(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct permits_wait wait = {semaphore_of(client, "jobs"), 2, RELOCK_FOREVER, NULL};
    struct actor *waiting = actor_start();

    probe_int(f->probe, "SET jobs 1");
    actor_begin(waiting, permits_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    assert_int_equal(probe_int(f->probe, "INCR jobs"), 2);
    assert_int_equal(probe_int(f->probe, "PUBLISH " CHANNEL " 2"), 1);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "GET jobs"), 0);
    assert_int_equal(stats_of(client).rechecks, 0);
}

static void one_release_serves_as_many_threads_as_it_can(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct permits_wait wait = {semaphore_of(client, "jobs"), 1, RELOCK_FOREVER, NULL};
    struct actor *waiting[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        waiting[i] = actor_start();
        actor_begin(waiting[i], permits_step, &wait);
        assert_true(wait_for_waiters(client, (uint64_t)i + 1));
    }
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    assert_result(relock_unleased_release(wait.semaphore, N_THREADS - 1), RELOCK_OK);
    assert_results(waiting, N_THREADS - 1, RELOCK_OK); /* the first that came */
    assert_true(actor_is_busy(waiting[N_THREADS - 1]));
    assert_int_equal(stats_of(client).waiters, 1);
    assert_int_equal(probe_int(f->probe, "GET jobs"), 0);
    assert_result(relock_unleased_release(wait.semaphore, 1), RELOCK_OK);
    assert_result(actor_result(waiting[N_THREADS - 1]), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* The first in the queue waits for more permits than there are. */
static void a_try_does_not_wait_for_the_queue(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct permits_wait large = {semaphore_of(client, "jobs"), 5, RELOCK_FOREVER, NULL};
    struct permits_wait small = {large.semaphore, 1, RELOCK_FOREVER, NULL};
    struct actor *first = actor_start(), *second = actor_start();

    set(large.semaphore, 3);
    actor_begin(first, permits_step, &large);
    assert_true(wait_for_waiters(client, 1));
    actor_begin(second, permits_step, &small);
    assert_true(wait_for_waiters(client, 2));
    assert_result(try(large.semaphore, 1), RELOCK_OK);
    assert_true(actor_is_busy(second));
    assert_result(relock_unleased_release(large.semaphore, 4), RELOCK_OK);
    assert_result(actor_result(first), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_int_equal(available(large.semaphore), 0);
}

/* The second thread has never asked, and so wants no subscription yet. */
static void the_next_in_the_queue_asks_when_the_first_has_its_permits(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct permits_wait wait = {semaphore_of(client, "jobs"), 1, RELOCK_FOREVER, NULL};
    struct actor *waiting[2] = {actor_start(), actor_start()};

    set(wait.semaphore, 0);
    actor_begin(waiting[0], permits_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    actor_begin(waiting[1], permits_step, &wait);
    assert_true(wait_for_waiters(client, 2));
    for (int i = 0; i < 2; i++) {
        assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
        assert_result(relock_unleased_release(wait.semaphore, 1), RELOCK_OK);
        assert_result(actor_result(waiting[i]), RELOCK_OK);
    }
}

/* ---- many threads -------------------------------------------------------------------------- */

#define N_PERMITS 3
#define N_ROUNDS 60

struct worker {
    struct relock_unleased *semaphore;
    unsigned nth;
};

static atomic_int n_out;        /* permits, of all threads */
static atomic_bool is_too_many; /* more than there are */

static int take_turns(void *arg)
{
    const struct worker *worker = arg;
    int r = RELOCK_OK;

    for (unsigned i = 0; i < N_ROUNDS && r == RELOCK_OK; i++) {
        unsigned n = 1 + (i + worker->nth) % 2;

        r = relock_unleased_acquire(worker->semaphore, n, RELOCK_FOREVER, NULL);
        if (r != RELOCK_OK)
            return r;
        if (atomic_fetch_add(&n_out, (int)n) + (int)n > N_PERMITS)
            atomic_store(&is_too_many, true);
        sched_yield();
        atomic_fetch_sub(&n_out, (int)n);
        r = relock_unleased_release(worker->semaphore, n);
    }
    return r;
}

/* Nobody rechecks, so a message that is missed stops them. */
static void threads_of_two_clients_have_no_more_permits_than_there_are(void **state)
{
    struct fixture *f = *state;
    struct relock_unleased *semaphores[2];
    struct worker workers[N_THREADS];
    struct actor *actors[N_THREADS];

    for (int i = 0; i < 2; i++)
        semaphores[i] = semaphore_of(woken_client(f), "jobs");
    set(semaphores[0], N_PERMITS);
    for (unsigned i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker){semaphores[i % 2], i / 2};
        actors[i] = actor_start();
        actor_begin(actors[i], take_turns, &workers[i]);
    }
    for (int i = 0; i < N_THREADS; i++)
        assert_result(actor_result_within(actors[i], 3 * SOON_MS), RELOCK_OK);
    assert_false(is_too_many);
    assert_int_equal(available(semaphores[0]), N_PERMITS);
}

/* No permits are released, so no message comes. */
static void a_small_request_is_served_when_the_large_one_before_it_ends(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct permits_wait large = {semaphore_of(client, "jobs"), 5, RELOCK_FOREVER, NULL};
    struct permits_wait small = {large.semaphore, 1, RELOCK_FOREVER, NULL};
    struct actor *first = actor_start(), *second = actor_start(), *third = actor_start();

    assert_result(relock_cancel_new(&large.cancel), RELOCK_OK);
    set(large.semaphore, 3);
    actor_begin(first, permits_step, &large);
    assert_true(wait_for_waiters(client, 1));
    actor_begin(second, permits_step, &large);
    assert_true(wait_for_waiters(client, 2));
    actor_begin(third, permits_step, &small);
    assert_true(wait_for_waiters(client, 3));
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    relock_cancel_fire(large.cancel);
    assert_result(actor_result(first), RELOCK_CANCELLED);
    assert_result(actor_result(second), RELOCK_CANCELLED);
    assert_result(actor_result(third), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
    relock_cancel_free(large.cancel);
}

static void a_number_near_its_limit_is_taken_from_once(void **state)
{
    struct fixture *f = *state;
    struct relock_unleased *semaphore = semaphore_of(fixture_client(f, NULL), "jobs");

    probe_int(f->probe, "SET jobs %s", "9223372036854775807");
    assert_result(try(semaphore, 1), RELOCK_OK);
    assert_result(relock_unleased_acquire(semaphore, 2, SOON_MS, NULL), RELOCK_OK);
    assert_string_equal(probe_text(f->probe, "GET jobs"), "9223372036854775804");
}

static void a_cancel_a_shutdown_and_the_deadline_end_waits(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct permits_wait wait = {semaphore_of(client, "jobs"), 1, RELOCK_FOREVER, NULL};
    struct permits_wait cancelled = wait;
    struct actor *waiting = actor_start();

    assert_result(relock_unleased_acquire(wait.semaphore, 1, 30, NULL), RELOCK_TIMEOUT);
    assert_result(relock_cancel_new(&cancelled.cancel), RELOCK_OK);
    actor_begin(waiting, permits_step, &cancelled);
    assert_true(wait_for_waiters(client, 1));
    relock_cancel_fire(cancelled.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    assert_result(relock_unleased_acquire(wait.semaphore, 1, 0, cancelled.cancel),
                  RELOCK_CANCELLED);
    relock_cancel_free(cancelled.cancel);
    actor_begin(waiting, permits_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    relock_client_shutdown(client);
    assert_result(actor_result(waiting), RELOCK_E_CLOSED);
    assert_result(try(wait.semaphore, 1), RELOCK_E_CLOSED);
    assert_result(relock_unleased_release(wait.semaphore, 1), RELOCK_OK);
}

static int calls_in_the_child(struct child *parent, void *arg)
{
    struct relock_unleased *semaphore = arg;
    int64_t n;

    (void)parent;
    child_must(relock_unleased_acquire(semaphore, 1, RELOCK_FOREVER, NULL) == RELOCK_E_FORKED);
    child_must(relock_unleased_release(semaphore, 1) == RELOCK_E_FORKED);
    child_must(relock_unleased_available(semaphore, &n) == RELOCK_E_FORKED);
    relock_unleased_free(semaphore);
    return 0;
}

/* Nobody is their owner, so the end of a thread gives nothing back. */
static void permits_outlive_the_thread_that_has_acquired_them(void **state)
{
    struct fixture *f = *state;
    struct permits_wait wait = {semaphore_of(fixture_client(f, NULL), "jobs"), 2, 0, NULL};
    struct actor *working = actor_start();
    int64_t n;

    set(wait.semaphore, 3);
    actor_begin(working, permits_step, &wait);
    assert_result(actor_result(working), RELOCK_OK);
    actor_end_all();
    assert_result(relock_unleased_available(wait.semaphore, &n), RELOCK_OK);
    assert_int_equal(n, 1);
    assert_result(relock_unleased_release(wait.semaphore, 2), RELOCK_OK); /* by another thread */
    assert_int_equal(probe_int(f->probe, "GET jobs"), 3);
}

static void a_forked_child_has_no_permits(void **state)
{
    struct fixture *f = *state;
    struct relock_unleased *semaphore = semaphore_of(fixture_client(f, NULL), "jobs");

    assert_int_equal(child_wait(child_start(calls_in_the_child, semaphore), SOON_MS), 0);
}

static void the_rights_of_the_page_suffice(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct permits_wait wait = {NULL, 2, RELOCK_FOREVER, NULL};
    struct actor *waiting = actor_start();
    int64_t n;

    rights_give(f, "unleased", NULL);
    assert_int_equal(probe_int(f->probe, "ACL LOG RESET"), 0);
    client = rights_client(f, NEVER_MS, 0);
    wait.semaphore = semaphore_of(client, "orders");
    set(wait.semaphore, 1);
    actor_begin(waiting, permits_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    assert_true(probe_wait_subscribers(f->probe, "redisson_sc:{orders}", 1));
    assert_result(relock_unleased_release(wait.semaphore, 1), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(relock_unleased_add(wait.semaphore, 2), RELOCK_OK);
    assert_result(relock_unleased_drain(wait.semaphore, &n), RELOCK_OK);
    assert_int_equal(n, 2);
    fixture_free_client(f, client);
    assert_int_equal(log_count(f->log, "NOPERM"), 0);
    assert_int_equal(log_count(f->log, "refused PUBLISH"), 0);
    assert_int_equal(log_count(f->log, "; without it "), 0);
    assert_string_equal(probe_list(f->probe, "ACL LOG"), "");
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
}

/* Whatever the calls return. */
static void live(struct fixture *f)
{
    struct relock_client *client = rights_client(f, NEVER_MS, RELOCK_LAZY);
    struct relock_unleased *semaphore = semaphore_of(client, "orders");
    int64_t n;
    int r = relock_unleased_try_set(semaphore, 2, NULL);

    r += relock_unleased_available(semaphore, &n);
    r += try(semaphore, 1);
    r += relock_unleased_acquire(semaphore, 2, 50, NULL);
    r += relock_unleased_release(semaphore, 1);
    r += relock_unleased_add(semaphore, 1);
    r += relock_unleased_drain(semaphore, &n);
    (void)r;
    numbers_free();
    fixture_free_client(f, client);
    probe_int(f->probe, "DEL orders");
}

/* To kill a connection is for failures, a client pings while waits last for seconds, and
 * unsubscribes a second after the last one. */
static void each_right_of_the_page_is_needed(void **state)
{
    static const char *const others[] = {"resetchannels", "+client|kill", "+unsubscribe", "+ping",
                                         NULL};

    rights_assert_needed(*state, "unleased", others, live);
}

static void bad_arguments_are_refused(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_unleased *semaphore = semaphore_of(client, "jobs");
    unsigned many = (unsigned)INT32_MAX + 1;
    struct relock_unleased *none;
    struct relock_latch *latch;
    int64_t n;

    assert_result(relock_unleased_new(NULL, "jobs", &none), RELOCK_E_INVALID);
    assert_result(relock_unleased_new(client, "jobs", NULL), RELOCK_E_INVALID);
    assert_result(relock_latch_new(client, "jobs", &latch), RELOCK_E_INVALID);
    assert_result(try(semaphore, 0), RELOCK_E_INVALID);
    assert_result(try(semaphore, many), RELOCK_E_INVALID);
    assert_result(try(NULL, 1), RELOCK_E_INVALID);
    assert_result(relock_unleased_release(semaphore, 0), RELOCK_E_INVALID);
    assert_result(relock_unleased_release(semaphore, many), RELOCK_E_INVALID);
    assert_result(relock_unleased_release(NULL, 1), RELOCK_E_INVALID);
    assert_result(relock_unleased_try_set(semaphore, many, NULL), RELOCK_E_INVALID);
    assert_result(relock_unleased_try_set(NULL, 1, NULL), RELOCK_E_INVALID);
    assert_result(relock_unleased_add(NULL, 1), RELOCK_E_INVALID);
    assert_result(relock_unleased_drain(NULL, &n), RELOCK_E_INVALID);
    assert_result(relock_unleased_drain(semaphore, NULL), RELOCK_E_INVALID);
    assert_result(relock_unleased_available(NULL, &n), RELOCK_E_INVALID);
    assert_result(relock_unleased_available(semaphore, NULL), RELOCK_E_INVALID);
    assert_null(relock_unleased_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PERMITS_TEST(the_number_in_redis_is_that_of_permits_available),
        PERMITS_TEST(redisson_hears_how_many_permits_there_are),
        PERMITS_TEST(one_that_exists_is_not_set_again),
        PERMITS_TEST(one_that_was_never_set_has_no_permits_and_a_release_makes_it),
        PERMITS_TEST(drained_permits_are_the_callers_and_may_be_negative),
        PERMITS_TEST(a_release_leaves_the_expiry_and_added_permits_end_it),
        PERMITS_TEST(data_of_another_program_is_an_error_and_stays),
        PERMITS_TEST(a_waiter_is_woken_by_redissons_message_alone),
        PERMITS_TEST(one_release_serves_as_many_threads_as_it_can),
        PERMITS_TEST(a_try_does_not_wait_for_the_queue),
        PERMITS_TEST(the_next_in_the_queue_asks_when_the_first_has_its_permits),
        PERMITS_TEST(threads_of_two_clients_have_no_more_permits_than_there_are),
        PERMITS_TEST(a_small_request_is_served_when_the_large_one_before_it_ends),
        PERMITS_TEST(a_number_near_its_limit_is_taken_from_once),
        PERMITS_TEST(a_cancel_a_shutdown_and_the_deadline_end_waits),
        PERMITS_TEST(permits_outlive_the_thread_that_has_acquired_them),
        PERMITS_TEST(a_forked_child_has_no_permits),
        PERMITS_TEST(the_rights_of_the_page_suffice),
        PERMITS_TEST(each_right_of_the_page_is_needed),
        PERMITS_TEST(bad_arguments_are_refused),
    };

    return SERVER_TESTS_RUN(tests);
}
