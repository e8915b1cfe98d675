/* Asynchronous calls, while connections and replies fail. */
#include "support/reactor.h"

#include "kind_faults.h"

#include <pthread.h>
#include <stdlib.h>

#define PAUSE_MS 15 /* an attempt without a connection is repeated after 10 ms, then later */
#define WAITS (&(struct relock_how){.wait_ms = NEVER_MS})

static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};
static const enum proxy_deed losses[] = {PROXY_SWALLOW, PROXY_LOSE};

/* No lease ends in a test: a missing key was released. */
static struct relock_client *client_with(struct faults *t, uint64_t command_timeout_ms)
{
    return faults_connected_client(
        t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                    .recheck_ms = LONG_MS,
                                    .command_timeout_ms = command_timeout_ms});
}

static void an_acquire_that_is_cut_off_is_repeated_and_counts_once(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, slow_ms(SOON_MS));
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct relock_events *events = reactor_events(client);
    uint64_t owner;

    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule = kind_next(t, cuts[i], "lock 1 orders");

        assert_result(reactor_acquire(lock, NULL, events, &owner), RELOCK_OK);
        assert_true(proxy_met(rule, 1));
        assert_true(proxy_next_place(t->proxy, proxy_place(rule), "CLIENT KILL ID") > 0);
        assert_true(kind_has_levels(t->f, "orders", 1));
        assert_result(reactor_release(lock, owner, events), RELOCK_OK);
        assert_true(wait_for_no_keys(t->f->probe));
    }
    assert_null(relock_events_free(events));
}

static void an_acquire_without_an_answer_is_not_held_and_leaves_nothing(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, short_ms());
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct relock_events *events = reactor_events(client);
    uint64_t owner;

    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule = kind_next(t, losses[i], "lock 1 orders");

        assert_result(reactor_acquire(lock, NULL, events, &owner), RELOCK_E_CONN);
        assert_true(proxy_met(rule, 1));
        assert_true(kind_counts(t, "unlock 1 orders * 0", i + 1));
        assert_true(wait_for_no_keys(t->f->probe));
        assert_true(wait_for_reconnects(client, i + 1));
    }
    assert_null(relock_events_free(events));
}

/* The kill that comes before the second attempt is in flight at the deadline. */
static void an_acquire_whose_fence_is_not_killed_in_time_leaves_nothing(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, short_ms());
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct proxy_rule *cut = kind_next(t, PROXY_CUT_UNANSWERED, "lock 1 orders");
    struct proxy_rule *lost = proxy_next(t->proxy, PROXY_LOSE, "CLIENT KILL ID");
    uint64_t owner;

    assert_result(reactor_acquire(lock, NULL, events, &owner), RELOCK_E_CONN);
    assert_true(proxy_met(cut, 1));
    assert_true(proxy_met(lost, 1));
    assert_true(wait_for_no_keys(t->f->probe));
    assert_null(relock_events_free(events));
}

static void a_level_that_is_cut_off_counts_once(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, slow_ms(SOON_MS));
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {.owner = relock_owner_new()};
    uint64_t owner;

    assert_result(reactor_acquire(lock, &how, events, &owner), RELOCK_OK);
    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule = kind_next(t, cuts[i], "lock 1 orders");

        assert_result(reactor_acquire(lock, &how, events, &owner), RELOCK_OK);
        assert_true(proxy_met(rule, 1));
        assert_true(kind_has_levels(t->f, "orders", 2));
        rule = kind_next(t, cuts[i], "unlock 1 orders");
        assert_result(reactor_release(lock, owner, events), RELOCK_OK);
        assert_true(proxy_met(rule, 1));
        assert_true(kind_has_levels(t->f, "orders", 1));
    }
    assert_result(reactor_release(lock, owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

/* The other waiter of this process is put into the line by the release that runs. */
static void a_release_that_is_cut_off_is_repeated_and_wakes_a_waiter(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, slow_ms(SOON_MS));
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how fixed = {.lease_ms = LONG_MS}; /* is not handed off */
    struct outcome waits;
    uint64_t owner;

    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule;

        assert_result(reactor_acquire(lock, &fixed, events, &owner), RELOCK_OK);
        assert_result(outcome_acquire(lock, WAITS, events, &waits), RELOCK_OK);
        assert_true(wait_for_waiters(client, 1));
        rule = kind_next(t, cuts[i], "unlock 1 orders");
        assert_result(reactor_release(lock, owner, events), RELOCK_OK);
        assert_true(proxy_met(rule, 1));
        assert_result(reactor_await(events, &waits), RELOCK_OK);
        assert_result(reactor_release(lock, waits.grant.owner, events), RELOCK_OK);
        assert_true(wait_for_no_keys(t->f->probe));
    }
    assert_null(relock_events_free(events));
}

static void a_release_without_an_answer_goes_on_in_the_background(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, short_ms());
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct proxy_rule *rule;
    uint64_t owner;

    assert_result(reactor_acquire(lock, NULL, events, &owner), RELOCK_OK);
    rule = kind_next(t, PROXY_LOSE, "unlock 1 orders * 0");
    assert_result(reactor_release(lock, owner, events), RELOCK_E_CONN);
    assert_true(proxy_met(rule, 1));
    assert_result(relock_check(lock, owner, NULL), RELOCK_NOT_OWNER);
    assert_true(wait_for_no_keys(t->f->probe));
    assert_null(relock_events_free(events));
}

#define COMMAND_MS 1500
#define RELEASE_MS 50

struct ending {
    struct faults *t;
    struct relock_client *client;
};

static void *free_client(void *arg)
{
    const struct ending *ending = arg;

    fixture_free_client(ending->t->f, ending->client);
    return NULL;
}

/* The connection lasts, because an earlier reply comes meanwhile. */
static void a_client_ends_though_the_reply_to_a_release_is_outstanding(void **state)
{
    struct faults *t = *state;
    struct ending ending = {
        t, faults_connected_client(t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                               .command_timeout_ms = COMMAND_MS,
                                                               .release_timeout_ms = RELEASE_MS})};
    struct relock_lock *orders = fixture_lock(t->f, ending.client, "orders");
    struct relock_lock *parcels = fixture_lock(t->f, ending.client, "parcels");
    struct relock_events *events = reactor_events(ending.client);
    struct proxy_rule *first;
    uint64_t owners[2];
    pthread_t thread;

    assert_result(reactor_acquire(orders, NULL, events, &owners[0]), RELOCK_OK);
    assert_result(reactor_acquire(parcels, NULL, events, &owners[1]), RELOCK_OK);
    first = proxy_next(t->proxy, PROXY_HOLD_REPLY, "unlock 1 orders * 0");
    (void)proxy_next(t->proxy, PROXY_HOLD_REPLY, "unlock 1 parcels * 0");
    assert_result(reactor_release(orders, owners[0], events), RELOCK_E_CONN);
    assert_result(reactor_release(parcels, owners[1], events), RELOCK_E_CONN);

    assert_int_equal(pthread_create(&thread, NULL, free_client, &ending), 0);
    let_pass(COMMAND_MS / 2);
    proxy_let_go(first);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(relock_events_free(events));
    proxy_reset(t->proxy);
}

static void calls_outlive_a_server_that_is_away_for_a_moment(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, slow_ms(SOON_MS));
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct outcome outcome;

    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    assert_result(outcome_acquire(lock, NULL, events, &outcome), RELOCK_OK);
    assert_true(wait_for_reconnects(client, 0));
    proxy_refuse(t->proxy, false);
    assert_result(reactor_await(events, &outcome), RELOCK_OK);
    assert_result(reactor_release(lock, outcome.grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

/* Also when they are made before the client has a connection. In every other round, each owner is
 * older than that of the call before: the owners have no part in the order. */
static void calls_for_a_fair_lock_keep_their_order(void **state)
{
    enum { N_ROUNDS = 4, N_CALLS = 3 };
    struct faults *t = *state;
    struct relock_options options = {.watchdog_timeout_ms = LONG_MS,
                                     .recheck_ms = LONG_MS,
                                     .command_timeout_ms = slow_ms(SOON_MS),
                                     .flags = RELOCK_LAZY};

    for (int round = 0; round < N_ROUNDS; round++) {
        struct relock_client *client;
        struct relock_lock *lock;
        struct relock_events *events;
        struct relock_how how[N_CALLS];
        struct outcome got[N_CALLS];

        proxy_refuse(t->proxy, true);
        client = faults_client(t, &options);
        lock = fixture_lock_of(t->f, client, "orders", relock_fairlock_new);
        events = reactor_events(client);
        for (int i = N_CALLS - 1; i >= 0; i--)
            how[i] = (struct relock_how){.wait_ms = NEVER_MS,
                                         .owner = round % 2 == 1 ? relock_owner_new() : 0};
        for (int i = 0; i < N_CALLS; i++) {
            assert_result(outcome_acquire(lock, &how[i], events, &got[i]), RELOCK_OK);
            let_pass(PAUSE_MS);
        }
        let_pass(round * PAUSE_MS); /* their next attempts are in another order each time */
        proxy_refuse(t->proxy, false);
        for (int i = 0; i < N_CALLS; i++) {
            assert_result(reactor_await(events, &got[i]), RELOCK_OK);
            assert_result(reactor_release(lock, got[i].grant.owner, events), RELOCK_OK);
        }
        assert_null(relock_events_free(events));
        fixture_free_client(t->f, client);
    }
}

/* ---- at random ----------------------------------------------------------------------------- */

#define N_CALLS 64
#define N_LOCKS 4
#define N_ROUNDS 6

static bool all_have_ended(void *arg)
{
    const struct outcome *outcomes = arg;

    for (unsigned i = 0; i < N_CALLS; i++)
        if (outcomes[i].result == REACTOR_NOTHING)
            return false;
    return true;
}

/* Of each round's calls some are cancelled, connections are cut, and the queue of every other round
 * is freed before they have ended. */
static void a_storm_of_cancels_cuts_and_frees_leaves_nothing(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, slow_ms(SOON_MS));
    struct relock_lock *locks[N_LOCKS];
    static const char *const names[N_LOCKS] = {"orders", "goods", "jobs", "mail"};
    static struct outcome outcomes[N_CALLS];
    unsigned seed = 7;

    for (unsigned i = 0; i < N_LOCKS; i++)
        locks[i] = kind_lock(t->f, client, names[i]);
    for (unsigned round = 0; round < N_ROUNDS; round++) {
        struct relock_events *events = reactor_events(client);
        struct relock_cancel *cancels[N_CALLS];

        for (unsigned i = 0; i < N_CALLS; i++) {
            struct relock_how how = {.wait_ms = NEVER_MS};

            assert_result(relock_cancel_new(&cancels[i]), RELOCK_OK);
            how.cancel = cancels[i];
            assert_result(outcome_acquire(locks[i % N_LOCKS], &how, events, &outcomes[i]),
                          RELOCK_OK);
            if (rand_r(&seed) % 16 == 0)
                proxy_cut(t->proxy, "");
            if (rand_r(&seed) % 2 == 0)
                relock_cancel_fire(cancels[(unsigned)rand_r(&seed) % (i + 1)]);
            assert_true(relock_events_dispatch(events) >= 0);
        }
        for (unsigned i = 0; i < N_CALLS; i++)
            relock_cancel_fire(cancels[i]);
        if (round % 2 == 0)
            assert_null(relock_events_free(events));
        else
            assert_true(reactor_run_until(events, all_have_ended, outcomes));
        for (unsigned i = 0; i < N_CALLS; i++) {
            if (outcomes[i].result == RELOCK_OK)
                assert_true(relock_release(locks[i % N_LOCKS], outcomes[i].grant.owner) <= 0);
        }
        assert_true(wait_for_waiters(client, 0));
        if (round % 2 != 0)
            assert_null(relock_events_free(events));
        for (unsigned i = 0; i < N_CALLS; i++)
            relock_cancel_free(cancels[i]);
    }
    assert_true(wait_for_no_keys(t->f->probe));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(an_acquire_that_is_cut_off_is_repeated_and_counts_once),
        FAULT_TEST(an_acquire_without_an_answer_is_not_held_and_leaves_nothing),
        FAULT_TEST(an_acquire_whose_fence_is_not_killed_in_time_leaves_nothing),
        FAULT_TEST(a_level_that_is_cut_off_counts_once),
        FAULT_TEST(a_release_that_is_cut_off_is_repeated_and_wakes_a_waiter),
        FAULT_TEST(a_release_without_an_answer_goes_on_in_the_background),
        FAULT_TEST(a_client_ends_though_the_reply_to_a_release_is_outstanding),
        FAULT_TEST(calls_outlive_a_server_that_is_away_for_a_moment),
        FAULT_TEST(calls_for_a_fair_lock_keep_their_order),
        FAULT_TEST(a_storm_of_cancels_cuts_and_frees_leaves_nothing),
        FAULT_TEST_OF_ALL(an_acquire_that_is_cut_off_is_repeated_and_counts_once),
        FAULT_TEST_OF(a_release_that_is_cut_off_is_repeated_and_wakes_a_waiter, fair),
        FAULT_TEST_OF(a_release_that_is_cut_off_is_repeated_and_wakes_a_waiter, plain),
        FAULT_TEST_OF(a_release_that_is_cut_off_is_repeated_and_wakes_a_waiter, write),
        FAULT_TEST_OF_ALL(a_storm_of_cancels_cuts_and_frees_leaves_nothing),
    };
    return FAULT_TESTS_RUN(tests);
}
