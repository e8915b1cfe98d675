/* A latch is the number that Redisson's RCountDownLatch has, and its messages. */
#include "support/actor.h"
#include "support/child.h"
#include "support/listener.h"
#include "support/numbers.h"
#include "support/reactor.h"
#include "support/rights.h"

#include <stdio.h>

#define CHANNEL "redisson_countdownlatch__channel__{start}"
#define N_THREADS 16

static uint64_t count_of(struct relock_latch *latch)
{
    uint64_t count = UINT64_MAX;

    assert_result(relock_latch_count(latch, &count), RELOCK_OK);
    return count;
}

static void set(struct relock_latch *latch, uint64_t count)
{
    bool is_set = false;

    assert_result(relock_latch_try_set(latch, count, &is_set), RELOCK_OK);
    assert_true(is_set);
}

/* ---- the state in Redis -------------------------------------------------------------------- */

static void a_latch_is_a_number_without_a_lease_and_has_no_key_at_zero(void **state)
{
    struct fixture *f = *state;
    struct relock_latch *latch = latch_of(fixture_client(f, NULL), "start");

    set(latch, 2);
    assert_int_equal(probe_int(f->probe, "GET start"), 2);
    assert_int_equal(probe_pttl(f->probe, "start"), -1);
    assert_int_equal(probe_n_keys(f->probe), 1);
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "GET start"), 1);
    assert_int_equal(count_of(latch), 1);
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_int_equal(count_of(latch), 0);
}

static void redisson_hears_zero_and_other_changes(void **state)
{
    struct fixture *f = *state;
    struct relock_latch *latch = latch_of(fixture_client(f, NULL), "start");
    struct listener *listener = listener_open(f->server->socket, CHANNEL);
    bool is = false;

    set(latch, 2);
    assert_true(listener_hears(listener, "1", SOON_MS));
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_true(listener_hears(listener, "0", SOON_MS)); /* and nothing for the first */
    set(latch, 1);
    assert_true(listener_hears(listener, "1", SOON_MS));
    assert_result(relock_latch_delete(latch, &is), RELOCK_OK);
    assert_true(is);
    assert_true(listener_hears(listener, "0", SOON_MS));
    listener_close(listener);
}

static void an_open_latch_stays_as_it_is(void **state)
{
    struct fixture *f = *state;
    struct relock_latch *latch = latch_of(fixture_client(f, NULL), "start");
    struct listener *listener = listener_open(f->server->socket, CHANNEL);
    bool deleted = true;

    assert_int_equal(count_of(latch), 0);
    assert_result(relock_latch_wait(latch, 0, NULL), RELOCK_OK);
    assert_result(relock_latch_wait(latch, RELOCK_FOREVER, NULL), RELOCK_OK);
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_result(relock_latch_delete(latch, &deleted), RELOCK_OK);
    assert_false(deleted);
    assert_int_equal(probe_n_keys(f->probe), 0);
    set(latch, 1); /* heard first */
    assert_true(listener_hears(listener, "1", SOON_MS));
    assert_result(relock_latch_delete(latch, NULL), RELOCK_OK);
    listener_close(listener);
}

static void a_closed_latch_is_not_set_again(void **state)
{
    struct fixture *f = *state;
    struct relock_latch *latch = latch_of(fixture_client(f, NULL), "start");
    bool is_set = true;

    set(latch, 3);
    assert_result(relock_latch_try_set(latch, 5, &is_set), RELOCK_OK);
    assert_false(is_set);
    assert_result(relock_latch_try_set(latch, 5, NULL), RELOCK_OK);
    assert_int_equal(count_of(latch), 3);
    assert_result(relock_latch_delete(latch, NULL), RELOCK_OK);
}

static void a_large_count_is_exact(void **state)
{
    struct fixture *f = *state;
    struct relock_latch *latch = latch_of(fixture_client(f, NULL), "start");

    set(latch, INT64_MAX);
    assert_true(count_of(latch) == INT64_MAX);
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_true(count_of(latch) == INT64_MAX - 1);
    probe_int(f->probe, "SET start %s", "-9223372036854775808");
    assert_int_equal(count_of(latch), 0);
    assert_result(relock_latch_delete(latch, NULL), RELOCK_OK);
}

/* A hash of it, whatever its type. */
static const char *data(struct probe *probe)
{
    return probe_text(probe, "EVAL %s 1 start",
                      "return redis.sha1hex(redis.call('dump', KEYS[1]))");
}

static void data_of_another_program_is_an_error_and_stays(void **state)
{
    static const char *const makes[] = {"HSET start a 1",
                                        "SET start abc",
                                        "SET start 1.5",
                                        "SET start 12345678901234567890",
                                        "SET start 9223372036854775808",
                                        "SET start 007",
                                        "RPUSH start 1"};
    struct fixture *f = *state;
    struct relock_latch *latch = latch_of(fixture_client(f, NULL), "start");
    uint64_t count;
    bool is_set = true;
    char before[256];

    for (size_t i = 0; i < sizeof(makes) / sizeof(*makes); i++) {
        assert_true(probe_int(f->probe, makes[i]) >= 0);
        snprintf(before, sizeof(before), "%s", data(f->probe));
        assert_result(relock_latch_count(latch, &count), RELOCK_E_SERVER);
        assert_result(relock_latch_wait(latch, 0, NULL), RELOCK_E_SERVER);
        assert_result(relock_latch_wait(latch, SOON_MS, NULL), RELOCK_E_SERVER);
        assert_result(relock_latch_count_down(latch), RELOCK_E_SERVER);
        assert_result(relock_latch_delete(latch, NULL), RELOCK_E_SERVER);
        assert_result(relock_latch_try_set(latch, 1, &is_set), RELOCK_OK);
        assert_false(is_set);
        assert_string_equal(data(f->probe), before);
        assert_int_equal(probe_int(f->probe, "DEL start"), 1);
    }
}

/* As Redisson counts. */
static void a_negative_number_is_an_open_latch(void **state)
{
    struct fixture *f = *state;
    struct relock_latch *latch = latch_of(fixture_client(f, NULL), "start");

    probe_int(f->probe, "SET start -3");
    assert_int_equal(count_of(latch), 0);
    assert_result(relock_latch_wait(latch, 0, NULL), RELOCK_OK);
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* ---- waiting ------------------------------------------------------------------------------- */

static void a_waiter_is_woken_by_the_message_alone(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct actor *waiting = actor_start();

    probe_int(f->probe, "SET start 2");
    actor_begin(waiting, latch_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    assert_int_equal(probe_int(f->probe, "DECR start"), 1);
    assert_true(actor_is_busy(waiting));
    assert_int_equal(probe_int(f->probe, "DEL start"), 1);
    assert_int_equal(probe_int(f->probe, "PUBLISH " CHANNEL " 0"), 1);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_int_equal(stats_of(client).waiters, 0);
    assert_int_equal(stats_of(client).round_trip.count, 0); /* that is of locks */
}

static void many_threads_are_one_subscription_and_few_looks(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct actor *waiting[N_THREADS];
    long long looks = probe_calls(f->probe, "get");

    probe_int(f->probe, "SET start 1");
    actors_begin(waiting, N_THREADS, latch_step, &wait);
    assert_true(wait_for_waiters(client, N_THREADS));
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    assert_result(relock_latch_count_down(latch_of(fixture_client(f, NULL), "start")), RELOCK_OK);
    assert_results(waiting, N_THREADS, RELOCK_OK);
    /* On arrival, when subscribed, for the message, and that of the script that counts down. */
    assert_in_range(probe_calls(f->probe, "get") - looks, 2, 4);
}

/* Deleted by hand, without a message. */
static void a_waiter_looks_every_recheck_ms(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &(struct relock_options){.recheck_ms = 300});
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct actor *waiting = actor_start();

    probe_int(f->probe, "SET start 1");
    actor_begin(waiting, latch_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    assert_int_equal(probe_int(f->probe, "DEL start"), 1);
    assert_result(actor_result(waiting), RELOCK_OK);
}

static void a_wait_ends_at_its_deadline_and_a_look_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_latch *latch = latch_of(fixture_client(f, NULL), "start");
    uint64_t began_ms;

    set(latch, 1);
    assert_result(relock_latch_wait(latch, 0, NULL), RELOCK_BUSY);
    assert_result(relock_latch_wait(latch, -5, NULL), RELOCK_BUSY);
    began_ms = now_ms();
    assert_result(relock_latch_wait(latch, 300, NULL), RELOCK_TIMEOUT);
    assert_true(now_ms() - began_ms + TWO_CLOCKS_MS >= 300);
    assert_result(relock_latch_delete(latch, NULL), RELOCK_OK);
}

static void the_subscription_goes_when_nobody_has_waited_for_a_while(void **state)
{
    struct fixture *f = *state;
    struct relock_latch *latch = latch_of(fixture_client(f, NULL), "start");

    set(latch, 1);
    assert_result(relock_latch_wait(latch, (int64_t)slow_ms(200), NULL), RELOCK_TIMEOUT);
    assert_result(relock_latch_delete(latch, NULL), RELOCK_OK);
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 0));
}

static void a_cancel_ends_a_wait_and_refuses_the_next(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct actor *waiting = actor_start();

    assert_result(relock_cancel_new(&wait.cancel), RELOCK_OK);
    set(wait.latch, 1);
    actor_begin(waiting, latch_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    relock_cancel_fire(wait.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    assert_result(relock_latch_wait(wait.latch, 0, wait.cancel), RELOCK_CANCELLED);
    relock_cancel_free(wait.cancel);
    assert_result(relock_latch_delete(wait.latch, NULL), RELOCK_OK);
}

/* Two waits: of an owner with a lock, which has work to finish, and of one without. */
static void a_shutdown_ends_waits_of_owners_without_a_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct actor *idle = actor_start(), *holding = actor_start();

    set(wait.latch, 1);
    assert_result(actor_lock(holding, lock), RELOCK_OK);
    actor_begin(holding, latch_step, &wait);
    actor_begin(idle, latch_step, &wait);
    assert_true(wait_for_waiters(client, 2));
    relock_client_shutdown(client);
    assert_result(actor_result(idle), RELOCK_E_CLOSED);
    assert_result(relock_latch_wait(wait.latch, 0, NULL), RELOCK_E_CLOSED);
    assert_true(actor_is_busy(holding));
    assert_result(relock_latch_count_down(wait.latch), RELOCK_OK);
    assert_result(actor_result(holding), RELOCK_OK);
    assert_result(actor_unlock(holding, lock), RELOCK_OK);
}

/* Redis does not know who will count down, so no search for deadlocks could go on from there. */
static void a_wait_of_a_holder_is_not_published(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.deadlock_ms = 10, .recheck_ms = NEVER_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct actor *holding = actor_start();

    set(wait.latch, 1);
    assert_result(actor_lock(holding, lock), RELOCK_OK);
    actor_begin(holding, latch_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    let_pass(500);
    assert_int_equal(probe_n_keys(f->probe), 2);
    assert_result(relock_latch_count_down(wait.latch), RELOCK_OK);
    assert_result(actor_result(holding), RELOCK_OK);
    assert_result(actor_unlock(holding, lock), RELOCK_OK);
}

static void a_freed_client_ends_waits_and_refuses_calls(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct actor *waiting = actor_start();
    uint64_t count;

    set(wait.latch, 1);
    actor_begin(waiting, latch_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    fixture_free_client(f, client);
    assert_result(actor_result(waiting), RELOCK_E_CLOSED);
    assert_result(relock_latch_wait(wait.latch, 0, NULL), RELOCK_E_CLOSED);
    assert_result(relock_latch_count(wait.latch, &count), RELOCK_E_CLOSED);
    assert_result(relock_latch_count_down(wait.latch), RELOCK_E_CLOSED);
    assert_result(relock_latch_try_set(wait.latch, 1, NULL), RELOCK_E_CLOSED);
    assert_result(relock_latch_delete(wait.latch, NULL), RELOCK_E_CLOSED);
    probe_int(f->probe, "DEL start");
}

#define N_CALLS 5

struct callback {
    struct relock_latch *latch;
    struct relock_unleased *jobs;
    uint64_t owner;
    int results[N_CALLS];
    bool is_over;
};

static void call_in_callback(int result, const struct relock_grant *grant, void *arg)
{
    struct callback *callback = arg;
    uint64_t count;

    callback->owner = result == RELOCK_OK ? grant->owner : 0;
    callback->results[0] = relock_latch_wait(callback->latch, RELOCK_FOREVER, NULL);
    callback->results[1] = relock_latch_count(callback->latch, &count);
    callback->results[2] = relock_latch_count_down(callback->latch);
    callback->results[3] = relock_unleased_acquire(callback->jobs, 1, 0, NULL);
    callback->results[4] = relock_unleased_release(callback->jobs, 1);
    callback->is_over = true;
}

static bool is_over(void *callback)
{
    return ((struct callback *)callback)->is_over;
}

/* A program with an event loop needs a thread for them. */
static void calls_in_a_callback_of_an_event_loop_are_refused(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct callback callback = {.latch = latch_of(client, "start"),
                                .jobs = semaphore_of(client, "jobs")};

    set(callback.latch, 1);
    assert_result(relock_acquire_async(lock, NULL, events, call_in_callback, &callback), RELOCK_OK);
    assert_true(reactor_run_until(events, is_over, &callback));
    for (size_t i = 0; i < N_CALLS; i++)
        assert_result(callback.results[i], RELOCK_E_DEADLOCK);
    assert_int_equal(count_of(callback.latch), 1);
    assert_result(reactor_release(lock, callback.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
    assert_result(relock_latch_delete(callback.latch, NULL), RELOCK_OK);
}

static int calls_in_the_child(struct child *parent, void *arg)
{
    struct relock_latch *latch = arg;
    uint64_t count;

    (void)parent;
    child_must(relock_latch_wait(latch, RELOCK_FOREVER, NULL) == RELOCK_E_FORKED);
    child_must(relock_latch_count(latch, &count) == RELOCK_E_FORKED);
    child_must(relock_latch_count_down(latch) == RELOCK_E_FORKED);
    child_must(relock_latch_try_set(latch, 1, NULL) == RELOCK_E_FORKED);
    child_must(relock_latch_delete(latch, NULL) == RELOCK_E_FORKED);
    relock_latch_free(latch);
    return 0;
}

static void a_forked_child_has_no_latch(void **state)
{
    struct fixture *f = *state;
    struct relock_latch *latch = latch_of(fixture_client(f, NULL), "start");

    set(latch, 1);
    assert_int_equal(child_wait(child_start(calls_in_the_child, latch), SOON_MS), 0);
    assert_int_equal(count_of(latch), 1);
    assert_result(relock_latch_delete(latch, NULL), RELOCK_OK);
}

/* ---- rights ------------------------------------------------------------------------------- */

static void the_rights_of_the_page_suffice(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct latch_wait wait = {NULL, RELOCK_FOREVER, NULL};
    struct actor *waiting = actor_start();

    rights_give(f, "latch", NULL);
    assert_int_equal(probe_int(f->probe, "ACL LOG RESET"), 0);
    client = rights_client(f, NEVER_MS, 0);
    wait.latch = latch_of(client, "orders");
    set(wait.latch, 1);
    assert_int_equal(count_of(wait.latch), 1);
    actor_begin(waiting, latch_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    assert_true(probe_wait_subscribers(f->probe, "redisson_countdownlatch__channel__{orders}", 1));
    assert_result(relock_latch_count_down(wait.latch), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_OK);
    set(wait.latch, 2);
    assert_result(relock_latch_delete(wait.latch, NULL), RELOCK_OK);
    fixture_free_client(f, client);
    assert_int_equal(log_count(f->log, "NOPERM"), 0);
    assert_int_equal(log_count(f->log, "refused PUBLISH"), 0);
    assert_int_equal(log_count(f->log, "; without it "), 0);
    assert_string_equal(probe_list(f->probe, "ACL LOG"), "");
}

/* ---- handles ------------------------------------------------------------------------------- */

/* Whatever the calls return. */
static void live(struct fixture *f)
{
    struct relock_client *client = rights_client(f, NEVER_MS, RELOCK_LAZY);
    struct relock_latch *latch = latch_of(client, "orders");
    uint64_t count;
    int r = relock_latch_try_set(latch, 2, NULL);

    r += relock_latch_count(latch, &count);
    r += relock_latch_wait(latch, 50, NULL);
    r += relock_latch_count_down(latch);
    r += relock_latch_count_down(latch);
    r += relock_latch_try_set(latch, 2, NULL);
    r += relock_latch_delete(latch, NULL);
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

    rights_assert_needed(*state, "latch", others, live);
}

static void bad_arguments_are_refused(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_latch *latch = latch_of(client, "start");
    struct relock_latch *none;
    uint64_t count;

    assert_result(relock_latch_new(NULL, "start", &none), RELOCK_E_INVALID);
    assert_result(relock_latch_new(client, "start", NULL), RELOCK_E_INVALID);
    assert_result(relock_latch_new(client, "", &none), RELOCK_E_INVALID);
    assert_result(relock_latch_try_set(latch, 0, NULL), RELOCK_E_INVALID);
    assert_result(relock_latch_try_set(latch, (uint64_t)INT64_MAX + 1, NULL), RELOCK_E_INVALID);
    assert_result(relock_latch_try_set(NULL, 1, NULL), RELOCK_E_INVALID);
    assert_result(relock_latch_count_down(NULL), RELOCK_E_INVALID);
    assert_result(relock_latch_count(NULL, &count), RELOCK_E_INVALID);
    assert_result(relock_latch_count(latch, NULL), RELOCK_E_INVALID);
    assert_result(relock_latch_wait(NULL, 0, NULL), RELOCK_E_INVALID);
    assert_result(relock_latch_delete(NULL, NULL), RELOCK_E_INVALID);
    assert_null(relock_latch_free(NULL));
}

static void a_name_is_for_a_lock_or_a_latch(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_latch *latch;
    struct relock_lock *lock;

    (void)fixture_lock(f, client, "orders");
    (void)latch_of(client, "start");
    assert_result(relock_latch_new(client, "orders", &latch), RELOCK_E_INVALID);
    assert_result(relock_lock_new(client, "start", &lock), RELOCK_E_INVALID);
}

static void the_prefix_is_in_the_key_and_in_the_channel(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.name_prefix = "shop:"});
    struct relock_latch *latch = latch_of(client, "start");
    struct listener *listener =
        listener_open(f->server->socket, "redisson_countdownlatch__channel__{shop:start}");

    set(latch, 1);
    assert_int_equal(probe_int(f->probe, "GET shop:start"), 1);
    assert_true(listener_hears(listener, "1", SOON_MS));
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    listener_close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        NUMBER_TEST(a_latch_is_a_number_without_a_lease_and_has_no_key_at_zero),
        NUMBER_TEST(redisson_hears_zero_and_other_changes),
        NUMBER_TEST(an_open_latch_stays_as_it_is),
        NUMBER_TEST(a_closed_latch_is_not_set_again),
        NUMBER_TEST(a_large_count_is_exact),
        NUMBER_TEST(data_of_another_program_is_an_error_and_stays),
        NUMBER_TEST(a_negative_number_is_an_open_latch),
        NUMBER_TEST(a_waiter_is_woken_by_the_message_alone),
        NUMBER_TEST(many_threads_are_one_subscription_and_few_looks),
        NUMBER_TEST(a_waiter_looks_every_recheck_ms),
        NUMBER_TEST(a_wait_ends_at_its_deadline_and_a_look_at_once),
        NUMBER_TEST(the_subscription_goes_when_nobody_has_waited_for_a_while),
        NUMBER_TEST(a_cancel_ends_a_wait_and_refuses_the_next),
        NUMBER_TEST(a_shutdown_ends_waits_of_owners_without_a_hold),
        NUMBER_TEST(a_wait_of_a_holder_is_not_published),
        NUMBER_TEST(a_freed_client_ends_waits_and_refuses_calls),
        NUMBER_TEST(calls_in_a_callback_of_an_event_loop_are_refused),
        NUMBER_TEST(a_forked_child_has_no_latch),
        NUMBER_TEST(the_rights_of_the_page_suffice),
        NUMBER_TEST(each_right_of_the_page_is_needed),
        NUMBER_TEST(bad_arguments_are_refused),
        NUMBER_TEST(a_name_is_for_a_lock_or_a_latch),
        NUMBER_TEST(the_prefix_is_in_the_key_and_in_the_channel),
    };

    return SERVER_TESTS_RUN(tests);
}
