/* Releases that do not wait for the answer, and get none or a strange one. */
#include "faults.h"
#include "kind_faults.h"
#include "support/reactor.h"
#include "support/sides.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LONG_NAME 4000
#define MANY 96
#define QUERY_MS 1000

static struct relock_client *deferring(struct faults *t, uint64_t command_timeout_ms)
{
    return faults_client(
        t, &(struct relock_options){.flags = RELOCK_DEFER_RELEASES | RELOCK_NO_TRACKING,
                                    .command_timeout_ms = command_timeout_ms,
                                    .recheck_ms = LONG_MS,
                                    .watchdog_timeout_ms = LONG_MS});
}

/* The next try waits until Redis has released the lock after all. */
static void release_is_made_good(struct faults *t, enum proxy_deed deed)
{
    struct relock_client *client = deferring(t, SOON_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct proxy_rule *rule;

    assert_result(relock_lock(lock), RELOCK_OK);
    rule = kind_next(t, deed, "unlock 1 orders");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(proxy_met(rule, 1));
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    faults_assert_free(t);
    assert_int_equal(stats_of(client).deferred_lost, 0);
}

static void a_release_that_is_lost_with_its_connection_is_made_good(void **state)
{
    release_is_made_good(*state, PROXY_CUT);
}

static void a_release_that_ran_without_an_answer_is_no_loss(void **state)
{
    release_is_made_good(*state, PROXY_CUT_UNANSWERED);
}

static void a_release_that_is_refused_is_made_good(void **state)
{
    release_is_made_good(*state, PROXY_REFUSE);
}

static void a_missing_script_is_loaded_for_it(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, SOON_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    (void)probe_int(t->f->probe, "SCRIPT FLUSH");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    faults_assert_free(t);
    assert_int_equal(log_count(t->f->log, "not in Redis yet"), 0);
}

static bool has_no_connection(void *proxy)
{
    return proxy_n_connections(proxy) == 0;
}

/* The idle connection has ended: the call makes another one, and waits for the answer. */
static void a_release_makes_a_connection_if_there_is_none(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, SOON_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    assert_true(wait_until(has_no_connection, t->proxy, SOON_MS));
    proxy_refuse(t->proxy, false);
    let_pass(10); /* a connection that was just used is not looked at */
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).deferred, 0);
    faults_assert_free(t);
}

static void a_try_waits_for_the_answer(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, LONG_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct proxy_rule *rule;
    struct actor *trying = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    rule = kind_next(t, PROXY_HOLD, "unlock 1 orders");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(proxy_met(rule, 1));
    actor_begin_timedlock(trying, lock, 0);
    let_pass(50);
    assert_true(actor_is_busy(trying));
    proxy_let_go(rule);
    assert_result(actor_result(trying), RELOCK_OK);
    assert_result(actor_unlock(trying, lock), RELOCK_OK);
    faults_assert_free(t);
}

/* The answer was no answer to a release, so the I/O thread releases the lock. */
static void a_try_waits_for_the_settling(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, LONG_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct proxy_rule *refused, *held;
    struct actor *trying = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    refused = kind_next(t, PROXY_REFUSE, "unlock 1 orders");
    held = kind_next(t, PROXY_HOLD, "unlock 1 orders");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(proxy_met(refused, 1));
    assert_true(proxy_met(held, 1));
    actor_begin_timedlock(trying, lock, 0);
    let_pass(50);
    assert_true(actor_is_busy(trying));
    proxy_let_go(held);
    assert_result(actor_result(trying), RELOCK_OK);
    assert_result(actor_unlock(trying, lock), RELOCK_OK);
    faults_assert_free(t);
}

/* Another call drives the only lane when the lock is released, and sends the release at its end. */
static void a_release_behind_another_call_is_sent_at_its_end(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.flags = RELOCK_DEFER_RELEASES,
                                                  .connections = 1,
                                                  .command_timeout_ms = SOON_MS,
                                                  .watchdog_timeout_ms = LONG_MS});
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct relock_lock *other = kind_lock(t->f, client, "other");
    struct actor *locking = actor_start();
    struct proxy_rule *rule;

    assert_result(relock_lock(lock), RELOCK_OK);
    rule = kind_next(t, PROXY_HOLD_REPLY, "lock 1 other");
    actor_begin_lock(locking, other);
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).deferred, 1);
    proxy_let_go(rule);
    assert_result(actor_result(locking), RELOCK_OK);
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
    assert_result(actor_unlock(locking, other), RELOCK_OK);
    faults_assert_free(t);
}

static void a_try_ends_in_time_without_the_answer(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, short_ms());
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct proxy_rule *rule;
    uint64_t began_ms;

    assert_result(relock_lock(lock), RELOCK_OK);
    rule = proxy_each(t->proxy, PROXY_HOLD, kind_words("unlock 1 orders"));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(proxy_met(rule, 1));
    began_ms = now_ms();
    assert_result(relock_trylock(lock), RELOCK_E_CONN);
    assert_no_later(now_ms() - began_ms, short_ms() + SOON_MS);
    proxy_let_go(rule);
    assert_result(relock_timedlock(lock, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    faults_assert_free(t);
}

/* As without the flag: nobody has said that the lock is held. */
static void a_wait_ends_as_unanswered_while_the_server_hangs(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, LONG_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    server_pause(t->f->server);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_timedlock(lock, 60), RELOCK_E_CONN);
    server_resume(t->f->server);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    faults_assert_free(t);
}

/* One time limit is for the wait and for the query. */
static void a_query_ends_in_time_without_the_answer(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, QUERY_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    uint64_t began_ms;
    bool is_locked;

    assert_result(relock_lock(lock), RELOCK_OK);
    server_pause(t->f->server);
    assert_result(relock_unlock(lock), RELOCK_OK);
    began_ms = now_ms();
    assert_result(relock_is_locked(lock, &is_locked), RELOCK_E_CONN);
    assert_no_later(now_ms() - began_ms, QUERY_MS + QUERY_MS / 2);
    server_resume(t->f->server);
    assert_result(relock_timedlock(lock, SOON_MS), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    faults_assert_free(t);
}

/* On a busy machine, the answer may come too late. */
static void asks(struct faults *t, struct relock_lock *lock,
                 int (*query)(struct relock_lock *, bool *))
{
    struct proxy_rule *asked = proxy_next(t->proxy, PROXY_PASS, kind_words("inspect 1 orders"));
    bool is_locked = false;
    int r = query(lock, &is_locked);

    assert_true(proxy_met(asked, 1));
    if (r == RELOCK_E_CONN)
        return;
    assert_result(r, RELOCK_OK);
    assert_true(is_locked);
}

/* They wait in vain, and then ask all the same. */
static void queries_have_time_to_ask_although_a_release_is_refused(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, QUERY_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct proxy_rule *rule;

    assert_result(relock_lock(lock), RELOCK_OK);
    rule = proxy_each(t->proxy, PROXY_REFUSE, kind_words("unlock 1 orders"));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(proxy_met(rule, 1));
    asks(t, lock, relock_is_locked);
    asks(t, lock, relock_force_unlock_held);
    proxy_let_go(rule);
    faults_assert_free(t);
}

static void a_cancel_and_a_shutdown_end_the_wait_for_an_answer(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, LONG_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct actor *waiting = actor_start();
    struct relock_cancel *cancel;
    struct relock_how how = {.wait_ms = NEVER_MS};

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    how.cancel = cancel;
    assert_result(relock_lock(lock), RELOCK_OK);
    server_pause(t->f->server);
    assert_result(relock_unlock(lock), RELOCK_OK);
    actor_begin_acquire(waiting, lock, &how);
    let_pass(20);
    relock_cancel_fire(cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    actor_begin_lock(waiting, lock);
    let_pass(20);
    relock_client_shutdown(client);
    assert_result(actor_result(waiting), RELOCK_E_CLOSED);
    server_resume(t->f->server);
    faults_assert_free(t);
    relock_cancel_free(cancel);
}

/* ---- threads of one owner -------------------------------------------------------------------- */

#define STALL_MS 300

struct taking {
    struct relock_lock *lock;
    struct relock_how how;
    pthread_t thread;
    atomic_bool has_begun;
};

static void stall(int signal)
{
    (void)signal;
    let_pass(STALL_MS);
}

static int take(void *arg)
{
    struct taking *taking = arg;

    taking->thread = pthread_self();
    atomic_store(&taking->has_begun, true);
    return relock_acquire(taking->lock, &taking->how, NULL);
}

static bool has_begun(void *taking)
{
    return atomic_load(&((struct taking *)taking)->has_begun);
}

/* Two threads wait for the answer and act for one owner. The second one goes on when the first has
 * the lock, so it nests, and waits for no one. */
static void threads_of_one_owner_nest_behind_the_answer(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.flags = RELOCK_DEFER_RELEASES,
                                                  .connections = 1,
                                                  .command_timeout_ms = LONG_MS,
                                                  .watchdog_timeout_ms = LONG_MS});
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct relock_lock *other = kind_lock(t->f, client, "other");
    struct taking first = {.lock = lock, .how = {.wait_ms = SOON_MS, .owner = relock_owner_new()}};
    struct taking second = {.lock = lock, .how = first.how};
    struct actor *driving = actor_start(), *one = actor_start(), *two = actor_start();
    struct proxy_rule *rule;

    (void)signal(SIGUSR1, stall);
    assert_result(relock_lock(lock), RELOCK_OK);
    rule = kind_next(t, PROXY_HOLD, "unlock 1 orders");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(proxy_met(rule, 1));
    actor_begin_lock(driving, other); /* reads the answers of all */
    let_pass(20);
    actor_begin(one, take, &first);
    actor_begin(two, take, &second);
    assert_true(wait_until(has_begun, &second, SOON_MS));
    let_pass(50);
    assert_int_equal(pthread_kill(second.thread, SIGUSR1), 0);
    let_pass(50);
    proxy_let_go(rule);
    assert_result(actor_result(one), RELOCK_OK);
    assert_result(actor_result(two), RELOCK_OK);
    assert_result(relock_release(lock, first.how.owner), RELOCK_OK);
    assert_result(relock_release(lock, first.how.owner), RELOCK_OK);
    assert_result(actor_result(driving), RELOCK_OK);
    assert_result(actor_unlock(driving, other), RELOCK_OK);
    faults_assert_free(t);
}

/* ---- calls without a thread ---------------------------------------------------------------- */

/* Has the calls before this one begin. */
static void let_them_begin(struct relock_lock *other, struct relock_events *events)
{
    uint64_t owner;

    assert_result(reactor_acquire(other, NULL, events, &owner), RELOCK_OK);
    assert_result(reactor_release(other, owner, events), RELOCK_OK);
}

/* The script is missing, so the answer is none, and the release is settled. */
static void an_asynchronous_try_waits_for_the_settling(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, LONG_MS);
    struct relock_client *others = fixture_client(t->f, NULL);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct relock_lock *theirs = kind_lock(t->f, others, "theirs");
    struct relock_events *events = reactor_events(client);
    struct proxy_rule *held;
    struct outcome tries;

    assert_result(relock_lock(lock), RELOCK_OK);
    held = kind_next(t, PROXY_HOLD, "unlock 1 orders");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(proxy_met(held, 1));
    assert_result(outcome_acquire(lock, NULL, events, &tries), RELOCK_OK);
    let_them_begin(kind_lock(t->f, client, "goods"), events);
    (void)probe_int(t->f->probe, "SCRIPT FLUSH");
    assert_result(relock_lock(theirs), RELOCK_OK); /* loads the script that acquires */
    proxy_let_go(held);
    assert_result(reactor_await(events, &tries), RELOCK_OK);
    assert_result(relock_release(lock, tries.grant.owner), RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_OK);
    assert_null(relock_events_free(events));
    faults_assert_free(t);
}

static void an_asynchronous_try_waits_for_each_of_two_releases(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, LONG_MS);
    struct sides ours = sides_of(t->f, client);
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {.owner = relock_owner_new()};
    struct proxy_rule *held[2];
    struct outcome tries;

    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_acquire(ours.read, &how, NULL), RELOCK_OK);
    held[0] = proxy_next(t->proxy, PROXY_HOLD, "read_unlock 1 orders");
    held[1] = proxy_next(t->proxy, PROXY_HOLD, "read_unlock 1 orders");
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_release(ours.read, how.owner), RELOCK_OK);
    assert_true(proxy_met(held[0], 1));
    assert_result(outcome_acquire(ours.write, NULL, events, &tries), RELOCK_OK);
    let_them_begin(kind_lock(t->f, client, "goods"), events);
    proxy_let_go(held[0]);
    assert_true(proxy_met(held[1], 1));
    let_pass(50); /* the first answer is read */
    let_them_begin(kind_lock(t->f, client, "goods"), events);
    assert_int_equal(tries.result, REACTOR_NOTHING);
    proxy_let_go(held[1]);
    assert_result(reactor_await(events, &tries), RELOCK_OK);
    assert_result(relock_release(ours.write, tries.grant.owner), RELOCK_OK);
    assert_null(relock_events_free(events));
    faults_assert_free(t);
}

/* ---- servers and connections that hang ----------------------------------------------------- */

static void a_server_that_hangs_holds_up_no_release(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, LONG_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    server_pause(t->f->server);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).deferred, 1);
    server_resume(t->f->server);
    faults_assert_free(t);
}

static void many_releases_on_a_stalled_connection_are_made_in_time(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.flags = RELOCK_DEFER_RELEASES,
                                                  .command_timeout_ms = SOON_MS,
                                                  .release_timeout_ms = 100,
                                                  .watchdog_timeout_ms = LONG_MS,
                                                  .connections = 1});
    struct relock_lock *locks[MANY];
    char name[LONG_NAME + 1];

    for (int i = 0; i < MANY; i++) {
        memset(name, 'n', LONG_NAME);
        (void)snprintf(name + LONG_NAME - 4, 5, "%04d", i);
        assert_result(relock_lock_new(client, name, &locks[i]), RELOCK_OK);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    }
    proxy_stall(t->proxy, "");
    for (int i = 0; i < MANY; i++) {
        uint64_t began_ms = now_ms();
        int r = relock_unlock(locks[i]);

        assert_true(r == RELOCK_OK || r == RELOCK_E_CONN);
        assert_no_later(now_ms() - began_ms, 100 + SOON_MS);
        relock_lock_free(locks[i]);
    }
    proxy_flow(t->proxy);
    faults_assert_free(t);
}

static void a_client_is_freed_in_time_without_the_answer(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = deferring(t, short_ms());
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct proxy_rule *rule;
    uint64_t began_ms;

    assert_result(relock_lock(lock), RELOCK_OK);
    rule = proxy_each(t->proxy, PROXY_HOLD, kind_words("unlock 1 orders"));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(proxy_met(rule, 1));
    began_ms = now_ms();
    fixture_free_client(t->f, client);
    assert_true(now_ms() - began_ms >= short_ms() - TWO_CLOCKS_MS); /* it waits for the answer */
    assert_no_later(now_ms() - began_ms, short_ms() + SOON_MS);
    proxy_let_go(rule);
    (void)probe_int(t->f->probe, "DEL orders");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_release_that_is_lost_with_its_connection_is_made_good),
        FAULT_TEST(a_release_that_ran_without_an_answer_is_no_loss),
        FAULT_TEST(a_release_that_is_refused_is_made_good),
        FAULT_TEST(a_missing_script_is_loaded_for_it),
        FAULT_TEST(a_release_makes_a_connection_if_there_is_none),
        FAULT_TEST(a_try_waits_for_the_answer),
        FAULT_TEST(a_try_waits_for_the_settling),
        FAULT_TEST(a_release_behind_another_call_is_sent_at_its_end),
        FAULT_TEST(a_try_ends_in_time_without_the_answer),
        FAULT_TEST(a_wait_ends_as_unanswered_while_the_server_hangs),
        FAULT_TEST(a_query_ends_in_time_without_the_answer),
        FAULT_TEST(queries_have_time_to_ask_although_a_release_is_refused),
        FAULT_TEST(a_cancel_and_a_shutdown_end_the_wait_for_an_answer),
        FAULT_TEST(threads_of_one_owner_nest_behind_the_answer),
        FAULT_TEST(an_asynchronous_try_waits_for_the_settling),
        FAULT_TEST(an_asynchronous_try_waits_for_each_of_two_releases),
        FAULT_TEST(a_server_that_hangs_holds_up_no_release),
        FAULT_TEST(many_releases_on_a_stalled_connection_are_made_in_time),
        FAULT_TEST(a_client_is_freed_in_time_without_the_answer),
    };
    const struct CMUnitTest of_kinds[] = {
        FAULT_TEST_OF_ALL(a_release_that_is_lost_with_its_connection_is_made_good),
        FAULT_TEST_OF_ALL(a_release_that_ran_without_an_answer_is_no_loss),
        FAULT_TEST_OF_ALL(a_try_waits_for_the_answer),
    };

    return kind_faults_wanted(argc, argv) ? FAULT_TESTS_RUN(of_kinds) : FAULT_TESTS_RUN(tests);
}
