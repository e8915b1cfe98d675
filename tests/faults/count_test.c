/*
 * Latches and unleased semaphores while commands, replies and messages are lost. A command that
 * changes a number runs at most once, whatever happens. Where a test is about waking, the client
 * never rechecks.
 */
#include "faults.h"
#include "support/numbers.h"

#include <stdio.h>
#include <string.h>

#define LATCH_CHANNEL "redisson_countdownlatch__channel__{start}"
#define JOBS_CHANNEL "redisson_sc:{jobs}"

static int end(void **state)
{
    struct faults *t = *state;

    numbers_free();
    probe_int(t->f->probe, "DEL start jobs");
    return faults_end(state);
}

#define COUNT_TEST(function) cmocka_unit_test_setup_teardown(function, faults_begin, end)

/* ---- commands ------------------------------------------------------------------------------ */

static struct relock_latch *latch;
static struct relock_unleased *jobs;

static int count_down(void)
{
    return relock_latch_count_down(latch);
}

static int set_latch(void)
{
    return relock_latch_try_set(latch, 3, NULL);
}

static int delete_latch(void)
{
    return relock_latch_delete(latch, NULL);
}

static int acquire(void)
{
    return relock_unleased_acquire(jobs, 2, 0, NULL);
}

static int wait_and_acquire(void)
{
    return relock_unleased_acquire(jobs, 2, RELOCK_FOREVER, NULL);
}

static int release(void)
{
    return relock_unleased_release(jobs, 2);
}

static int set_jobs(void)
{
    return relock_unleased_try_set(jobs, 3, NULL);
}

static int add(void)
{
    return relock_unleased_add(jobs, 2);
}

static int drain(void)
{
    int64_t n;

    return relock_unleased_drain(jobs, &n);
}

/* Each call that changes a number: its command, and the number before and after; NULL: none. */
static const struct change {
    int (*call)(void);
    const char *words, *key, *before, *after;
} changes[] = {
    {count_down, "latch_count_down 1 start", "start", "5", "4"},
    {set_latch, "number_try_set 1 start", "start", NULL, "3"},
    {delete_latch, "latch_delete 1 start", "start", "5", NULL},
    {acquire, "unleased_acquire 1 jobs", "jobs", "5", "3"},
    {wait_and_acquire, "unleased_acquire 1 jobs", "jobs", "5", "3"},
    {release, "unleased_release 1 jobs", "jobs", "5", "7"},
    {set_jobs, "number_try_set 1 jobs", "jobs", NULL, "3"},
    {add, "unleased_add 1 jobs", "jobs", "5", "7"},
    {drain, "unleased_drain 1 jobs", "jobs", "5", "0"},
};

#define N_CHANGES (sizeof(changes) / sizeof(*changes))

static void make_handles(struct relock_client *client)
{
    latch = latch_of(client, "start");
    jobs = semaphore_of(client, "jobs");
}

static void put(struct faults *t, const struct change *change)
{
    if (change->before)
        probe_int(t->f->probe, "SET %s %s", change->key, change->before);
    else
        probe_int(t->f->probe, "DEL %s", change->key);
}

static bool has(struct faults *t, const struct change *change, const char *value)
{
    return strcmp(probe_text(t->f->probe, "GET %s", change->key), value ? value : "") == 0;
}

static int call(void *arg)
{
    const struct change *change = arg;

    return change->call();
}

static void a_command_that_was_lost_is_not_repeated(void **state)
{
    struct faults *t = *state;

    make_handles(faults_client(t, NULL));
    for (size_t i = 0; i < N_CHANGES; i++) {
        size_t before = proxy_count(t->proxy, changes[i].words);

        put(t, &changes[i]);
        proxy_next(t->proxy, PROXY_CUT, changes[i].words);
        assert_result(changes[i].call(), RELOCK_E_CONN);
        assert_int_equal(proxy_count(t->proxy, changes[i].words), before + 1);
        assert_true(has(t, &changes[i], changes[i].before));
    }
}

static void a_command_whose_answer_was_lost_has_run_once(void **state)
{
    struct faults *t = *state;

    make_handles(faults_client(t, NULL));
    for (size_t i = 0; i < N_CHANGES; i++) {
        size_t before = proxy_count(t->proxy, changes[i].words);

        put(t, &changes[i]);
        proxy_next(t->proxy, PROXY_CUT_UNANSWERED, changes[i].words);
        assert_result(changes[i].call(), RELOCK_E_CONN);
        assert_int_equal(proxy_count(t->proxy, changes[i].words), before + 1);
        assert_true(has(t, &changes[i], changes[i].after));
    }
}

/* Nothing kills its connection, so that it would not run: it may also have run. */
static void a_late_command_runs_once_after_the_call(void **state)
{
    struct faults *t = *state;
    struct actor *caller = actor_start();

    make_handles(faults_calm_client(t, short_ms()));
    for (size_t i = 0; i < N_CHANGES; i++) {
        size_t before = proxy_count(t->proxy, changes[i].words);
        struct proxy_rule *late = proxy_next(t->proxy, PROXY_HOLD, changes[i].words);

        put(t, &changes[i]);
        actor_begin(caller, call, (void *)&changes[i]);
        assert_true(proxy_met(late, 1));
        assert_result(actor_result(caller), RELOCK_E_CONN);
        assert_true(has(t, &changes[i], changes[i].before));
        proxy_let_go(late);
        assert_int_equal(proxy_fate(late), PROXY_ANSWERED);
        assert_true(has(t, &changes[i], changes[i].after));
        assert_int_equal(proxy_count(t->proxy, changes[i].words), before + 1);
    }
}

static void a_refusal_for_now_is_repeated_until_it_has_run_once(void **state)
{
    struct faults *t = *state;
    struct actor *caller = actor_start();

    make_handles(faults_client(t, &(struct relock_options){.command_timeout_ms = LONG_MS}));
    for (size_t i = 0; i < N_CHANGES; i++) {
        size_t refusals = proxy_count(t->proxy, "-BUSY");

        put(t, &changes[i]);
        faults_be_busy(t);
        actor_begin(caller, call, (void *)&changes[i]);
        assert_true(proxy_counts(t->proxy, "-BUSY", refusals + 2));
        faults_be_busy_no_more(t);
        assert_result(actor_result(caller), RELOCK_OK);
        assert_true(has(t, &changes[i], changes[i].after));
    }
}

static void a_script_that_the_server_lacks_is_loaded_and_runs_once(void **state)
{
    struct faults *t = *state;

    make_handles(faults_client(t, NULL));
    for (size_t i = 0; i < N_CHANGES; i++) {
        put(t, &changes[i]);
        probe_int(t->f->probe, "SCRIPT FLUSH");
        assert_result(changes[i].call(), RELOCK_OK);
        assert_true(has(t, &changes[i], changes[i].after));
    }
}

static void a_server_that_is_a_replica_for_a_while_gets_it_once(void **state)
{
    struct faults *t = *state;
    struct actor *caller = actor_start();

    make_handles(faults_client(t, &(struct relock_options){.command_timeout_ms = LONG_MS}));
    put(t, &changes[0]);
    assert_result(count_down(), RELOCK_OK);
    probe_int(t->f->probe, "REPLICAOF 127.0.0.1 1");
    actor_begin(caller, call, (void *)&changes[0]);
    assert_true(proxy_counts(t->proxy, "-READONLY", 1));
    probe_int(t->f->probe, "REPLICAOF NO ONE");
    assert_result(actor_result(caller), RELOCK_OK);
    assert_int_equal(probe_int(t->f->probe, "GET start"), 3);
}

/* The library notices before it sends the command. */
static void an_idle_connection_that_the_server_closed_does_no_harm(void **state)
{
    struct faults *t = *state;

    make_handles(faults_client(t, NULL));
    for (size_t i = 0; i < N_CHANGES; i++) {
        put(t, &changes[i]);
        proxy_cut(t->proxy, "");
        let_pass(20); /* this is about idle ones */
        assert_result(changes[i].call(), RELOCK_OK);
        assert_true(has(t, &changes[i], changes[i].after));
    }
}

static void a_server_that_cannot_be_reached_gets_it_once_when_it_is_back(void **state)
{
    struct faults *t = *state;
    struct actor *caller = actor_start();

    make_handles(faults_client(t, &(struct relock_options){.command_timeout_ms = LONG_MS}));
    put(t, &changes[0]);
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    let_pass(20);
    actor_begin(caller, call, (void *)&changes[0]);
    let_pass(100);
    assert_true(actor_is_busy(caller));
    proxy_refuse(t->proxy, false);
    assert_result(actor_result(caller), RELOCK_OK);
    assert_true(has(t, &changes[0], "4"));
}

static void a_query_is_repeated(void **state)
{
    struct faults *t = *state;
    uint64_t count;
    int64_t n;

    make_handles(faults_client(t, NULL));
    probe_int(t->f->probe, "MSET start 5 jobs 7");
    proxy_next(t->proxy, PROXY_CUT, "GET start");
    assert_result(relock_latch_count(latch, &count), RELOCK_OK);
    assert_int_equal(count, 5);
    proxy_next(t->proxy, PROXY_CUT_UNANSWERED, "GET jobs");
    assert_result(relock_unleased_available(jobs, &n), RELOCK_OK);
    assert_int_equal(n, 7);
}

/* The first attempt was refused, so the wait would time out if it did not matter. */
static void an_acquire_that_is_unanswered_at_its_deadline_is_no_timeout(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct permits_wait wait = {NULL, 2, (int64_t)slow_ms(1500), NULL};
    struct actor *waiting = actor_start();
    struct proxy_rule *rule;

    make_handles(client);
    wait.semaphore = jobs;
    proxy_next(t->proxy, PROXY_PASS, "unleased_acquire 1 jobs");
    proxy_next(t->proxy, PROXY_PASS, "unleased_acquire 1 jobs"); /* when it is subscribed */
    rule = proxy_next(t->proxy, PROXY_SWALLOW, "unleased_acquire 1 jobs");
    actor_begin(waiting, permits_step, &wait);
    assert_true(proxy_counts(t->proxy, "unleased_acquire 1 jobs", 2));
    probe_int(t->f->probe, "SET jobs 2");
    probe_int(t->f->probe, "PUBLISH " JOBS_CHANNEL " 2");
    assert_true(proxy_met(rule, 1));
    assert_result(actor_result(waiting), RELOCK_E_CONN);
    assert_int_equal(probe_int(t->f->probe, "GET jobs"), 0);
}

static void the_log_says_that_it_may_have_run(void **state)
{
    struct faults *t = *state;

    make_handles(faults_client(t, NULL));
    probe_int(t->f->probe, "SET start 5");
    proxy_next(t->proxy, PROXY_CUT, "latch_count_down 1 start");
    assert_result(count_down(), RELOCK_E_CONN);
    assert_true(log_wait(t->f->log, ": the latch was not counted down: ", SOON_MS));
    assert_true(log_wait(t->f->log, "; it may have been done, or may yet be", SOON_MS));
}

/* ---- messages ------------------------------------------------------------------------------ */

/* A latch that a peer has closed, and an actor that waits for it. */
static struct actor *blocked(struct faults *t, struct latch_wait *wait)
{
    struct actor *waiting = actor_start();

    probe_int(t->f->probe, "SET start 1");
    actor_begin(waiting, latch_step, wait);
    return waiting;
}

static void a_change_before_the_subscription_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct proxy_rule *subscribe = proxy_next(t->proxy, PROXY_HOLD, "SUBSCRIBE " LATCH_CHANNEL);
    struct actor *waiting = blocked(t, &wait);

    assert_true(proxy_met(subscribe, 1));
    probe_int(t->f->probe, "DEL start");
    assert_int_equal(probe_int(t->f->probe, "PUBLISH " LATCH_CHANNEL " 0"), 0);
    assert_true(actor_is_busy(waiting));
    proxy_let_go(subscribe);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
}

static void a_message_while_the_subscriber_is_disconnected_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct actor *waiting = blocked(t, &wait);

    assert_true(probe_wait_subscribers(t->f->probe, LATCH_CHANNEL, 1));
    assert_true(proxy_counts(t->proxy, "GET start", 2));
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    assert_true(probe_wait_subscribers(t->f->probe, LATCH_CHANNEL, 0));
    probe_int(t->f->probe, "DEL start");
    assert_int_equal(probe_int(t->f->probe, "PUBLISH " LATCH_CHANNEL " 0"), 0);
    let_pass(100);
    assert_true(actor_is_busy(waiting));
    proxy_refuse(t->proxy, false);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* The message arrives while the answer to the look before it is in flight. */
static void a_change_during_a_look_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct proxy_rule *second;
    struct actor *waiting;

    proxy_next(t->proxy, PROXY_PASS, "GET start");
    second = proxy_next(t->proxy, PROXY_HOLD_REPLY, "GET start");
    waiting = blocked(t, &wait);
    assert_int_equal(proxy_fate(second), PROXY_ANSWERED);
    assert_true(probe_wait_subscribers(t->f->probe, LATCH_CHANNEL, 1));
    probe_int(t->f->probe, "DEL start");
    assert_int_equal(probe_int(t->f->probe, "PUBLISH " LATCH_CHANNEL " 0"), 1);
    proxy_let_go(second);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* Between the look and its answer, the latch is set again, and a second thread begins to wait. */
static void an_open_latch_lets_nobody_through_who_came_later(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct proxy_rule *look = proxy_next(t->proxy, PROXY_HOLD_REPLY, "GET start");
    struct actor *first = actor_start(), *second = actor_start();

    actor_begin(first, latch_step, &wait);
    assert_int_equal(proxy_fate(look), PROXY_ANSWERED);
    probe_int(t->f->probe, "SET start 1");
    actor_begin(second, latch_step, &wait);
    assert_true(wait_for_waiters(client, 2));
    proxy_let_go(look);
    assert_result(actor_result(first), RELOCK_OK);
    assert_true(probe_wait_subscribers(t->f->probe, LATCH_CHANNEL, 1));
    assert_true(actor_is_busy(second));
    assert_int_equal(stats_of(client).waiters, 1);
    assert_result(relock_latch_delete(wait.latch, NULL), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
}

static void a_wait_ends_when_the_server_is_silent(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_calm_client(t, short_ms());
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct actor *behind = actor_start();
    struct actor *waiting = blocked(t, &wait);

    assert_true(proxy_counts(t->proxy, "GET start", 2));
    actor_begin(behind, latch_step, &wait);
    assert_true(wait_for_waiters(client, 2));
    server_pause(t->f->server);
    assert_result(actor_result_within(waiting, SOON_MS), RELOCK_E_CONN);
    assert_result(actor_result_within(behind, SOON_MS), RELOCK_E_CONN);
    server_resume(t->f->server);
}

/* ---- rights -------------------------------------------------------------------------------- */

static void a_user_who_may_not_publish_still_changes_the_number(void **state)
{
    struct faults *t = *state;

    faults_worker(t, "~* &* +@all -publish");
    make_handles(faults_client(t, &(struct relock_options){.user = WORKER, .password = PASSWORD}));
    for (size_t i = 0; i < N_CHANGES; i++) {
        put(t, &changes[i]);
        assert_result(changes[i].call(), RELOCK_OK);
        assert_true(has(t, &changes[i], changes[i].after));
    }
    assert_true(log_wait(t->f->log, "start: changed, but the server refused PUBLISH", SOON_MS));
    assert_true(log_wait(t->f->log, "jobs: changed, but the server refused PUBLISH", SOON_MS));
}

static void what_a_user_may_not_do_leaves_the_number_as_it_is(void **state)
{
    static const struct change refused[] = {
        {count_down, "del", "start", "1", "1"},
        {add, "persist", "jobs", "5", "5"},
    };
    struct faults *t = *state;
    char rights[60];

    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        snprintf(rights, sizeof(rights), "~* &* +@all -%s", refused[i].words);
        faults_worker(t, rights);
        make_handles(
            faults_client(t, &(struct relock_options){.user = WORKER, .password = PASSWORD}));
        put(t, &refused[i]);
        assert_result(refused[i].call(), RELOCK_E_AUTH);
        assert_true(has(t, &refused[i], refused[i].after));
    }
}

/* No message comes, but this process knows of the change. */
static void waiters_of_a_client_that_may_not_publish_hear_of_its_own_changes(void **state)
{
    struct faults *t = *state;
    struct relock_client *client;
    struct latch_wait wait = {NULL, RELOCK_FOREVER, NULL};
    struct actor *waiting;

    faults_worker(t, "~* &* +@all -publish");
    client = faults_client(t, &(struct relock_options){.user = WORKER,
                                                       .password = PASSWORD,
                                                       .command_timeout_ms = LONG_MS,
                                                       .recheck_ms = NEVER_MS});
    wait.latch = latch_of(client, "start");
    waiting = blocked(t, &wait);
    assert_true(probe_wait_subscribers(t->f->probe, LATCH_CHANNEL, 1));
    assert_true(proxy_counts(t->proxy, "GET start", 2));
    assert_result(relock_latch_count_down(wait.latch), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        COUNT_TEST(a_command_that_was_lost_is_not_repeated),
        COUNT_TEST(a_command_whose_answer_was_lost_has_run_once),
        COUNT_TEST(a_late_command_runs_once_after_the_call),
        COUNT_TEST(a_refusal_for_now_is_repeated_until_it_has_run_once),
        COUNT_TEST(a_script_that_the_server_lacks_is_loaded_and_runs_once),
        COUNT_TEST(a_server_that_is_a_replica_for_a_while_gets_it_once),
        COUNT_TEST(an_idle_connection_that_the_server_closed_does_no_harm),
        COUNT_TEST(a_server_that_cannot_be_reached_gets_it_once_when_it_is_back),
        COUNT_TEST(a_query_is_repeated),
        COUNT_TEST(an_acquire_that_is_unanswered_at_its_deadline_is_no_timeout),
        COUNT_TEST(the_log_says_that_it_may_have_run),
        COUNT_TEST(a_change_before_the_subscription_is_not_missed),
        COUNT_TEST(a_message_while_the_subscriber_is_disconnected_is_not_missed),
        COUNT_TEST(a_change_during_a_look_is_not_missed),
        COUNT_TEST(an_open_latch_lets_nobody_through_who_came_later),
        COUNT_TEST(a_wait_ends_when_the_server_is_silent),
        COUNT_TEST(a_user_who_may_not_publish_still_changes_the_number),
        COUNT_TEST(what_a_user_may_not_do_leaves_the_number_as_it_is),
        COUNT_TEST(waiters_of_a_client_that_may_not_publish_hear_of_its_own_changes),
    };

    return FAULT_TESTS_RUN(tests);
}
