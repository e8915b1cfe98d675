/*
 * A process that dies while it waits for a fair lock blocks those behind it for its patience at
 * most: three rechecks after its last attempt.
 */
#include "support/actor.h"
#include "support/child.h"
#include "support/fair_queue.h"

#include <signal.h>
#include <stdlib.h>

#define RECHECK_MS 400 /* a waiter delayed for two of these may count as dead */
#define PATIENCE_MS (3 * RECHECK_MS)
#define SLACK_MS 6000 /* of a machine that stands still now and then */
#define N_CHILDREN 3
#define LEASE_MS 2000

static struct relock_options options_of(struct fixture *f)
{
    return (struct relock_options){.url = f->server->unix_url,
                                   .connect_timeout_ms = slow_ms(SOON_MS),
                                   .command_timeout_ms = slow_ms(SOON_MS),
                                   .recheck_ms = slow_ms(RECHECK_MS),
                                   .watchdog_timeout_ms = slow_ms(30 * LEASE_MS)};
}

/* Waits, reports that it holds the lock, and releases it, each step on order. */
static int wait_in_turn(struct child *parent, void *arg)
{
    struct relock_client *client;
    struct relock_lock *lock;

    child_must(child_await(parent));
    child_must(relock_client_new(arg, &client) == RELOCK_OK);
    child_must(relock_fairlock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(child_send(parent, 1));
    child_must(child_await(parent));
    child_must(relock_unlock(lock) == RELOCK_OK);
    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

/* This process acquires the lock with a lease, 0: one that is renewed, and children wait for it in
 * this order. */
static struct relock_lock *hold_and_line_up(struct fixture *f, struct relock_options *options,
                                            uint64_t lease_ms, struct child *children[N_CHILDREN])
{
    const struct relock_how how = {.lease_ms = lease_ms};
    struct relock_lock *lock;

    for (int i = 0; i < N_CHILDREN; i++)
        children[i] = child_start(wait_in_turn, options);
    lock = fair_handle(f, fixture_client(f, options));
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    for (int i = 0; i < N_CHILDREN; i++) {
        assert_true(child_send(children[i], 0));
        assert_true(fair_queue_wait(f, i + 1));
    }
    return lock;
}

struct crowd {
    struct child **children; /* NULL: has ended */
    int in;                  /* which of them got in */
};

static bool one_is_in(void *arg)
{
    struct crowd *crowd = arg;
    int64_t number;

    for (int i = 0; i < N_CHILDREN && crowd->in < 0; i++)
        if (crowd->children[i] && child_receive_within(crowd->children[i], &number, 0))
            crowd->in = i;
    return crowd->in >= 0;
}

/* Any child may be next: one that was delayed may have lost its place. */
static void one_gets_in_and_goes(struct child *children[N_CHILDREN])
{
    struct crowd crowd = {children, -1};

    assert_true(wait_until(one_is_in, &crowd, PATIENCE_MS + RECHECK_MS + SLACK_MS));
    assert_true(child_send(children[crowd.in], 0));
    assert_int_equal(child_wait(children[crowd.in], SOON_MS), EXIT_SUCCESS);
    children[crowd.in] = NULL;
}

static void dies(struct child *children[N_CHILDREN], int i)
{
    child_signal(children[i], SIGKILL);
    assert_int_equal(child_wait(children[i], SOON_MS), 128 + SIGKILL);
    children[i] = NULL;
}

struct trial {
    struct fixture *f;
    struct relock_lock *lock;
};

/* Each attempt drops the dead. */
static bool is_clean(void *arg)
{
    struct trial *trial = arg;

    return relock_trylock(trial->lock) == RELOCK_OK && relock_unlock(trial->lock) == RELOCK_OK &&
           probe_n_keys(trial->f->probe) == 0;
}

static void the_others_go_on_when_one_dies(struct fixture *f, int dead)
{
    struct relock_options options = options_of(f);
    struct child *children[N_CHILDREN];
    struct relock_lock *lock = hold_and_line_up(f, &options, 0, children);

    dies(children, dead);
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (int i = 0; i < N_CHILDREN - 1; i++)
        one_gets_in_and_goes(children);
    assert_result(relock_timedlock(lock, (int64_t)slow_ms(PATIENCE_MS + SLACK_MS)), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(wait_until(is_clean, &(struct trial){f, lock}, PATIENCE_MS + SLACK_MS));
}

/* It listened until then. No waiter would ask by itself before the test ends. */
static void a_killed_first_waiter_delays_nobody(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = options_of(f);
    struct child *children[N_CHILDREN];
    struct relock_lock *lock;

    options.recheck_ms = NEVER_MS;
    lock = hold_and_line_up(f, &options, 0, children);
    for (int i = 0; i < N_CHILDREN; i++)
        assert_true(fair_queue_wait_listens(f, i));
    dies(children, 0);
    dies(children, 1);
    assert_true(probe_wait_lock_channels(f->probe, 1)); /* Redis has noticed */
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(child_await(children[2]));
    assert_true(child_send(children[2], 0));
    assert_int_equal(child_wait(children[2], SOON_MS), EXIT_SUCCESS);
    assert_int_equal(probe_int(f->probe, "DEL " FAIR_QUEUE " " FAIR_DEADLINES), 2);
}

/* Its default would be minutes: nobody asks by itself until then. */
static void the_program_sets_how_long_a_silent_waiter_is_alive(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fair_handle(f, client);
    struct actor *waiting = actor_start();
    uint64_t patience_ms = slow_ms(PATIENCE_MS);

    assert_result(relock_fairlock_set_patience(lock, patience_ms), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiting, lock);
    assert_true(fair_queue_wait_listens(f, 0));
    assert_true(fair_queue_rest_ms(f, 0) <= (long long)patience_ms);
    assert_true(wait_for_rechecks(client, 4)); /* it stays alive for longer than that */
    assert_true(actor_is_busy(waiting));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(waiting, lock);
}

static void patience_that_makes_no_sense_is_refused(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fair_handle(f, client);
    struct relock_lock *other = fixture_lock(f, client, "bills");

    assert_result(relock_fairlock_set_patience(lock, 999), RELOCK_E_INVALID);
    assert_result(relock_fairlock_set_patience(lock, 86400001), RELOCK_E_INVALID);
    assert_result(relock_fairlock_set_patience(NULL, 1000), RELOCK_E_INVALID);
    assert_result(relock_fairlock_set_patience(other, 1000), RELOCK_E_UNSUPPORTED);
    assert_result(relock_fairlock_set_patience(lock, 86400000), RELOCK_OK);
}

static void the_other_waiters_go_on_when_the_first_dies(void **state)
{
    the_others_go_on_when_one_dies(*state, 0);
}

static void the_other_waiters_go_on_when_one_in_the_middle_dies(void **state)
{
    the_others_go_on_when_one_dies(*state, 1);
}

static void a_later_waiter_goes_on_when_the_last_dies(void **state)
{
    the_others_go_on_when_one_dies(*state, 2);
}

/* However long the lease of the holder and the queue were. */
static void the_only_survivor_of_a_queue_gets_the_lock_after_a_long_lease(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = options_of(f);
    struct child *children[N_CHILDREN];
    struct relock_lock *lock = hold_and_line_up(f, &options, 3600000, children);

    for (int i = 0; i < N_CHILDREN - 1; i++)
        dies(children, i);
    assert_result(relock_unlock(lock), RELOCK_OK);
    one_gets_in_and_goes(children);
    assert_true(wait_until(is_clean, &(struct trial){f, lock}, PATIENCE_MS + SLACK_MS));
}

static int hold_for_ever(struct child *parent, void *arg)
{
    struct relock_client *client;
    struct relock_lock *lock;

    child_must(relock_client_new(arg, &client) == RELOCK_OK);
    child_must(relock_fairlock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(child_send(parent, 1));
    child_must(child_await(parent));
    return EXIT_SUCCESS;
}

/* Nothing is published when its lease ends, so the first waiter must retry by itself. */
static void the_first_waiter_gets_the_lock_when_the_lease_of_a_dead_holder_ends(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = options_of(f), patient = options_of(f);
    struct child *holder;
    struct relock_lock *lock;
    struct actor *first, *second;

    options.watchdog_timeout_ms = slow_ms(LEASE_MS);
    patient.recheck_ms = NEVER_MS;
    holder = child_start(hold_for_ever, &options);
    assert_true(child_await(holder));
    lock = fair_handle(f, fixture_client(f, &patient));
    first = actor_start();
    second = actor_start();
    fair_queue_begin(f, first, lock, 1);
    fair_queue_begin(f, second, lock, 2);
    child_signal(holder, SIGKILL);
    assert_int_equal(child_wait(holder, SOON_MS), 128 + SIGKILL);
    assert_result(actor_result_within(first, LEASE_MS + SLACK_MS), RELOCK_OK);
    assert_true(actor_is_busy(second));
    assert_result(actor_unlock(first, lock), RELOCK_OK);
    assert_gets_in(second, lock);
}

static bool is_out(void *arg)
{
    struct trial *trial = arg;

    return relock_trylock(trial->lock) == RELOCK_BUSY &&
           probe_int(trial->f->probe, "LLEN " FAIR_QUEUE) == 1;
}

static void gets_in_and_goes(struct child *child)
{
    assert_true(child_await(child));
    assert_true(child_send(child, 0));
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
}

/* The waiter is alive, but was dropped as dead: it goes to the end. */
static void a_waiter_that_was_silent_for_too_long_is_last(void **state)
{
    struct fixture *f = *state;
    struct relock_options options[2] = {options_of(f), options_of(f)};
    struct child *children[2];
    struct relock_lock *lock, *other;

    options[1].recheck_ms = NEVER_MS; /* it never counts as dead */
    for (int i = 0; i < 2; i++)
        children[i] = child_start(wait_in_turn, &options[i]);
    lock = fair_handle(f, fixture_client(f, &options[1]));
    other = fair_handle(f, fixture_client(f, &options[1]));
    assert_result(relock_lock(lock), RELOCK_OK);
    for (int i = 0; i < 2; i++) {
        assert_true(child_send(children[i], 0));
        assert_true(fair_queue_wait(f, i + 1));
    }
    child_signal(children[0], SIGSTOP);
    assert_true(wait_until(is_out, &(struct trial){f, other}, SOON_MS));
    child_signal(children[0], SIGCONT);
    assert_true(fair_queue_wait(f, 2));
    assert_result(relock_unlock(lock), RELOCK_OK);
    gets_in_and_goes(children[1]);
    gets_in_and_goes(children[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_killed_first_waiter_delays_nobody),
        SERVER_TEST(the_program_sets_how_long_a_silent_waiter_is_alive),
        SERVER_TEST(patience_that_makes_no_sense_is_refused),
        SERVER_TEST(the_other_waiters_go_on_when_the_first_dies),
        SERVER_TEST(the_other_waiters_go_on_when_one_in_the_middle_dies),
        SERVER_TEST(a_later_waiter_goes_on_when_the_last_dies),
        SERVER_TEST(the_only_survivor_of_a_queue_gets_the_lock_after_a_long_lease),
        SERVER_TEST(the_first_waiter_gets_the_lock_when_the_lease_of_a_dead_holder_ends),
        SERVER_TEST(a_waiter_that_was_silent_for_too_long_is_last),
    };

    return SERVER_TESTS_RUN(tests);
}
