/*
 * Clients in the line of a lock, one of which dies, stops, or loses a connection or a command. Only
 * messages and the times of the line wake waiters, no recheck.
 */
#include "faults.h"

#include "support/child.h"
#include "support/line.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define GOT_IN 1
#define WAIT_MS 1500 /* a refusal comes in this time, also on a slow machine */

/* In the child: waits for the lock, says that it got it, and releases it when it is told to. */
static int wait_in_line(struct child *parent, void *arg)
{
    struct faults *t = arg;
    struct relock_client *client;
    struct relock_lock *lock;

    child_must(child_await(parent));
    client = child_client(t->f, &(struct relock_options){.recheck_ms = NEVER_MS});
    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(child_send(parent, 0));
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(child_send(parent, GOT_IN));
    child_must(child_await(parent));
    child_must(relock_unlock(lock) == RELOCK_OK);
    relock_client_free(client);
    relock_lock_free(lock);
    return EXIT_SUCCESS;
}

/* A client of this process holds "orders", a child is first in line, and another client second. */
struct scene {
    struct faults *t;
    struct child *child;
    struct relock_client *client;
    struct relock_lock *held, *lock;
    struct actor *waiting;
    char first[LINE_ENTRY_MAX], second[LINE_ENTRY_MAX];
};

static void set(struct scene *scene, struct faults *t)
{
    if (!child_can_have_threads())
        skip();
    *scene = (struct scene){.t = t, .child = child_start(wait_in_line, t)};
    scene->held = fixture_lock(t->f, line_client(t->f), "orders");
    assert_result(relock_lock(scene->held), RELOCK_OK);
    assert_true(child_send(scene->child, 0));
    assert_true(child_await(scene->child));
    assert_true(line_wait(t->f, 1));
    line_entry(t->f, 0, scene->first);
    scene->client = line_client(t->f);
    scene->lock = fixture_lock(t->f, scene->client, "orders");
    scene->waiting = line_begin(t->f, scene->lock, 2);
    line_entry(t->f, 1, scene->second);
}

static void second_gets_in(struct scene *scene)
{
    assert_result(actor_result(scene->waiting), RELOCK_OK);
    assert_int_equal(stats_of(scene->client).rechecks, 0);
}

/* The release finds nobody at its inbox, and tells the second client. */
static void a_first_client_that_is_killed_delays_nobody(void **state)
{
    struct faults *t = *state;
    struct listener *beside;
    struct scene scene;
    char inbox[128];

    set(&scene, t);
    beside = line_listen(t->f, scene.second);
    snprintf(inbox, sizeof(inbox), LINE_INBOX("%s"), scene.first);
    child_signal(scene.child, SIGKILL);
    assert_int_equal(child_wait(scene.child, SOON_MS), 128 + SIGKILL);
    assert_true(probe_wait_subscribers(t->f->probe, inbox, 0));
    assert_result(relock_unlock(scene.held), RELOCK_OK);
    assert_true(line_hears_now(beside));
    second_gets_in(&scene);
    assert_result(actor_unlock(scene.waiting, scene.lock), RELOCK_OK);
    listener_close(beside);
}

static void a_first_client_that_is_stopped_delays_the_second_for_a_moment(void **state)
{
    struct faults *t = *state;
    struct scene scene;
    uint64_t began_ms;
    int64_t said;

    set(&scene, t);
    child_signal(scene.child, SIGSTOP);
    began_ms = now_ms();
    assert_result(relock_unlock(scene.held), RELOCK_OK);
    second_gets_in(&scene);
    assert_took(began_ms, LINE_RESERVED_MS, slow_ms(SOON_MS));

    child_signal(scene.child, SIGCONT); /* it learns that the lock is held, and waits on */
    assert_true(line_wait(t->f, 1));
    assert_result(actor_unlock(scene.waiting, scene.lock), RELOCK_OK);
    assert_true(child_receive(scene.child, &said));
    assert_int_equal(said, GOT_IN);
    assert_true(child_send(scene.child, 0));
    assert_int_equal(child_wait(scene.child, SOON_MS), EXIT_SUCCESS);
}

/* ---- lost messages and commands ------------------------------------------------------------ */

/* The client asks when its connection ends, though it may not have been told. */
static void a_message_that_is_lost_with_the_inbox_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_lock *held = fixture_lock(t->f, line_client(t->f), "orders");
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct listener *first;
    struct actor *waiting;

    assert_result(relock_lock(held), RELOCK_OK);
    first = line_join_silent(t->f, SILENT);
    waiting = line_begin(t->f, lock, 2); /* as the second, it listens to its inbox alone */
    proxy_stall(t->proxy, "SUBSCRIBE");
    assert_int_equal(probe_int(t->f->probe, "LREM " LINE " 1 " SILENT), 1);
    assert_result(relock_unlock(held), RELOCK_OK);
    let_pass(50);
    assert_true(actor_is_busy(waiting));
    proxy_cut(t->proxy, "SUBSCRIBE");
    faults_gets_in_by_signals(client, waiting, lock);
    listener_close(first);
}

/* A thread that waits again has taken the place that was to be left: it asks again. */
static void a_late_departure_is_followed_by_another_attempt(void **state)
{
    struct faults *t = *state;
    struct relock_lock *held = fixture_lock(t->f, line_client(t->f), "orders");
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *departure = proxy_next(t->proxy, PROXY_HOLD, "line_leave 1 orders");
    struct listener *first;
    struct actor *waiting = actor_start();
    char entry[LINE_ENTRY_MAX];

    assert_result(relock_lock(held), RELOCK_OK);
    first = line_join_silent(t->f, SILENT);
    assert_result(relock_timedlock(lock, (int64_t)slow_ms(WAIT_MS)), RELOCK_TIMEOUT);
    line_entry(t->f, 1, entry);
    assert_true(proxy_met(departure, 1));
    proxy_next(t->proxy, PROXY_PASS, "lock 1 orders");
    actor_begin_lock(waiting, lock);
    assert_true(proxy_counts(t->proxy, "lock 1 orders", 2));
    assert_true(wait_for_waiters(client, 1));
    let_pass(20); /* it has been refused by then, mostly */

    proxy_let_go(departure);
    assert_int_equal(proxy_fate(departure), PROXY_ANSWERED);
    assert_true(proxy_counts(t->proxy, "lock 1 orders", 3));
    assert_true(line_wait(t->f, 2));
    assert_int_equal(probe_int(t->f->probe, "LREM " LINE " 1 " SILENT), 1);
    assert_result(relock_unlock(held), RELOCK_OK);
    faults_gets_in_by_signals(client, waiting, lock);
    listener_close(first);
}

/* Otherwise the client would stand in the line, and delay those behind it. */
static void a_departure_that_is_cut_off_is_repeated(void **state)
{
    struct faults *t = *state;
    struct relock_lock *held = fixture_lock(t->f, line_client(t->f), "orders");
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");

    assert_result(relock_lock(held), RELOCK_OK);
    proxy_next(t->proxy, PROXY_CUT, "line_leave 1 orders");
    assert_result(relock_timedlock(lock, (int64_t)slow_ms(WAIT_MS)), RELOCK_TIMEOUT);
    assert_true(proxy_counts(t->proxy, "line_leave 1 orders", 2));
    assert_true(line_wait(t->f, 0));
    assert_result(relock_unlock(held), RELOCK_OK);
}

/* Its attempt has joined the line, which only Redis knows. */
static void a_waiter_whose_attempt_is_not_answered_leaves_the_line(void **state)
{
    struct faults *t = *state;
    struct relock_lock *held = fixture_lock(t->f, line_client(t->f), "orders");
    struct relock_lock *lock = fixture_lock(t->f, faults_patient_client(t), "orders");
    struct proxy_rule *joins = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 orders");
    struct proxy_rule *departure = proxy_next(t->proxy, PROXY_HOLD, "line_leave 1 orders");
    struct actor *waiting = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_timedlock(waiting, lock, (int64_t)slow_ms(500));
    assert_int_equal(proxy_fate(joins), PROXY_ANSWERED);
    assert_result(actor_result(waiting), RELOCK_E_CONN);
    assert_true(proxy_met(departure, 1));
    assert_true(line_wait(t->f, 1));
    proxy_let_go(departure);
    assert_true(line_wait(t->f, 0));
    proxy_let_go(joins);
    assert_result(relock_unlock(held), RELOCK_OK);
}

/* The client has its inbox from its first wait on. */
static void open_inbox(struct faults *t, struct relock_lock *lock)
{
    struct relock_lock *held = fixture_lock(t->f, line_client(t->f), "orders");
    struct actor *waiting;

    assert_result(relock_lock(held), RELOCK_OK);
    waiting = line_begin(t->f, lock, 1);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

static int unlock(void *lock)
{
    return relock_unlock(lock);
}

/* A thread waits while another one of its client releases. That puts the client into the line, and
 * is not answered yet. */
struct releasing {
    struct relock_client *client;
    struct relock_lock *lock;
    struct relock_how how;
    struct actor *waiting, *holding;
};

static void begin_to_release(struct releasing *of, struct faults *t)
{
    struct proxy_rule *release;

    *of = (struct releasing){.client = faults_patient_client(t),
                             .how.wait_ms = RELOCK_FOREVER,
                             .waiting = actor_start(),
                             .holding = actor_start()};
    of->lock = fixture_lock(t->f, of->client, "orders");
    assert_result(relock_cancel_new(&of->how.cancel), RELOCK_OK);
    open_inbox(t, of->lock);
    actor_begin_lock(of->holding, of->lock);
    assert_result(actor_result(of->holding), RELOCK_OK);
    actor_begin_acquire(of->waiting, of->lock, &of->how);
    assert_true(wait_for_waiters(of->client, 1));
    let_pass(50); /* after this the hold is not handed off */
    release = proxy_next(t->proxy, PROXY_HOLD_REPLY, "unlock 1 orders");
    actor_begin(of->holding, unlock, of->lock);
    assert_int_equal(proxy_fate(release), PROXY_ANSWERED);
    assert_true(line_wait(t->f, 1));
}

/* Asked again, Redis says that it is released. */
static void cut_release(const struct releasing *of, struct faults *t)
{
    proxy_cut(t->proxy, "unlock 1 orders");
    assert_result(actor_result(of->holding), RELOCK_OK);
}

static void a_client_whose_release_is_not_answered_leaves_the_line(void **state)
{
    struct releasing releasing;

    begin_to_release(&releasing, *state);
    relock_cancel_fire(releasing.how.cancel);
    assert_result(actor_result(releasing.waiting), RELOCK_CANCELLED);
    cut_release(&releasing, *state);
    assert_true(line_wait(((struct faults *)*state)->f, 0));
    relock_cancel_free(releasing.how.cancel);
}

/* No message follows: the lost reply was to say that it is the client's turn. */
static void a_waiter_asks_if_the_release_is_not_answered(void **state)
{
    struct releasing releasing;

    begin_to_release(&releasing, *state);
    cut_release(&releasing, *state);
    faults_gets_in_by_signals(releasing.client, releasing.waiting, releasing.lock);
    relock_cancel_free(releasing.how.cancel);
}

/* A client with one connection. While a call "beside" is in flight there, the connection outlives
 * the deadline of a command, and the server may run that command late. */
struct sharing {
    struct relock_client *client;
    struct relock_lock *lock, *other;
    struct relock_how how;
    struct actor *acting, *beside;
    struct proxy_rule *departure;
};

static void set_sharing(struct sharing *of, struct faults *t)
{
    struct relock_options options = {.connections = 1,
                                     .recheck_ms = LONG_MS,
                                     .watchdog_timeout_ms = LONG_MS,
                                     .release_timeout_ms = slow_ms(200),
                                     .handoff_ms = 1};

    *of = (struct sharing){.client = faults_client(t, &options),
                           .how.wait_ms = RELOCK_FOREVER,
                           .acting = actor_start(),
                           .beside = actor_start()};
    of->lock = fixture_lock(t->f, of->client, "orders");
    of->other = fixture_lock(t->f, of->client, "ledger");
    open_inbox(t, of->lock);
    of->departure = proxy_next(t->proxy, PROXY_PASS, "line_leave 1 orders");
}

/* The command, whose call fails, runs when the client has left. */
static void run_late(struct sharing *of, struct faults *t, struct proxy_rule *command)
{
    assert_true(proxy_met(command, 1));
    actor_begin_lock(of->beside, of->other);
    assert_result(actor_result(of->acting), RELOCK_E_CONN);
    assert_int_equal(proxy_fate(of->departure), PROXY_ANSWERED);
    proxy_let_go(command);
    assert_int_equal(proxy_fate(command), PROXY_ANSWERED);
    assert_result(actor_result(of->beside), RELOCK_OK);
    assert_true(line_wait(t->f, 0));
    assert_result(actor_unlock(of->beside, of->other), RELOCK_OK);
}

static void an_attempt_that_runs_after_the_departure_leaves_no_place(void **state)
{
    struct faults *t = *state;
    struct relock_lock *held = fixture_lock(t->f, line_client(t->f), "orders");
    struct sharing sharing;
    struct proxy_rule *attempt;

    set_sharing(&sharing, t);
    assert_result(relock_lock(held), RELOCK_OK);
    attempt = proxy_next(t->proxy, PROXY_HOLD, "lock 1 orders");
    actor_begin_timedlock(sharing.acting, sharing.lock, (int64_t)slow_ms(200));
    run_late(&sharing, t, attempt);
    assert_result(relock_unlock(held), RELOCK_OK);
}

static void a_release_that_runs_after_the_departure_leaves_no_place(void **state)
{
    struct faults *t = *state;
    struct actor *waiting = actor_start();
    struct sharing sharing;
    struct proxy_rule *release;

    set_sharing(&sharing, t);
    assert_result(relock_cancel_new(&sharing.how.cancel), RELOCK_OK);
    actor_begin_lock(sharing.acting, sharing.lock);
    assert_result(actor_result(sharing.acting), RELOCK_OK);
    actor_begin_acquire(waiting, sharing.lock, &sharing.how);
    assert_true(wait_for_waiters(sharing.client, 1));
    let_pass(50); /* after this the hold is not handed off */
    release = proxy_next(t->proxy, PROXY_HOLD, "unlock 1 orders");
    actor_begin(sharing.acting, unlock, sharing.lock);
    assert_true(proxy_met(release, 1));
    relock_cancel_fire(sharing.how.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    run_late(&sharing, t, release);
    relock_cancel_free(sharing.how.cancel);
}

struct freed {
    struct fixture *f;
    struct relock_client *client;
};

static int free_client(void *arg)
{
    struct freed *freed = arg;

    fixture_free_client(freed->f, freed->client);
    return RELOCK_OK;
}

static void a_client_leaves_its_lines_before_it_is_freed(void **state)
{
    struct faults *t = *state;
    struct relock_lock *held = fixture_lock(t->f, line_client(t->f), "orders");
    struct freed freed = {t->f, faults_patient_client(t)};
    struct relock_lock *lock = fixture_lock(t->f, freed.client, "orders");
    struct proxy_rule *departure = proxy_next(t->proxy, PROXY_HOLD, "line_leave 1 orders");
    struct actor *waiting, *freeing = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    waiting = line_begin(t->f, lock, 1);
    actor_begin(freeing, free_client, &freed);
    assert_result(actor_result(waiting), RELOCK_E_CLOSED);
    assert_true(proxy_met(departure, 1));
    let_pass(50); /* otherwise it is freed by then */
    assert_true(actor_is_busy(freeing));
    proxy_let_go(departure);
    assert_result(actor_result(freeing), RELOCK_OK);
    assert_int_equal(probe_int(t->f->probe, "EXISTS " LINE " " LINE_TURN), 0);
    assert_result(relock_unlock(held), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_first_client_that_is_killed_delays_nobody),
        FAULT_TEST(a_first_client_that_is_stopped_delays_the_second_for_a_moment),
        FAULT_TEST(a_message_that_is_lost_with_the_inbox_is_not_missed),
        FAULT_TEST(a_late_departure_is_followed_by_another_attempt),
        FAULT_TEST(a_departure_that_is_cut_off_is_repeated),
        FAULT_TEST(a_waiter_whose_attempt_is_not_answered_leaves_the_line),
        FAULT_TEST(a_client_whose_release_is_not_answered_leaves_the_line),
        FAULT_TEST(a_waiter_asks_if_the_release_is_not_answered),
        FAULT_TEST(an_attempt_that_runs_after_the_departure_leaves_no_place),
        FAULT_TEST(a_release_that_runs_after_the_departure_leaves_no_place),
        FAULT_TEST(a_client_leaves_its_lines_before_it_is_freed),
    };

    return FAULT_TESTS_RUN(tests);
}
