/* Asynchronous calls, and the ends of all that they need: queue, client, handle, hold. */
#include "support/actor.h"
#include "support/child.h"
#include "support/kinds.h"
#include "support/peer.h"
#include "support/reactor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LEASE_MS 1500 /* outlives a second in which a machine stands still */
#define WAITS (&(struct relock_how){.wait_ms = NEVER_MS, .permits = kind_now()->permits})

static void acquire(struct relock_lock *lock, struct relock_events *events, struct outcome *held)
{
    assert_result(outcome_acquire(lock, NULL, events, held), RELOCK_OK);
    assert_result(reactor_await(events, held), RELOCK_OK);
}

/* One call holds the lock, and one waits for it. */
static void hold_and_wait(struct relock_client *client, struct relock_lock *lock,
                          struct relock_events *events, struct outcome *held, struct outcome *waits)
{
    acquire(lock, events, held);
    assert_result(outcome_acquire(lock, WAITS, events, waits), RELOCK_OK);
    assert_true(wait_for_waiters(client, 1));
}

/* ---- losses -------------------------------------------------------------------------------- */

struct told {
    struct relock_lock *lock;
    struct relock_events *events;
    struct outcome released;
    unsigned n_times;
    uint64_t owner;
    uint64_t order;
    pthread_t thread;
    int blocking; /* the result of a call that would block */
    struct relock_events *freed;
};

static struct outcome order; /* counts callbacks */

static void on_lost(const struct relock_lost *what, void *arg)
{
    struct told *told = arg;

    outcome_released(RELOCK_OK, &order);
    told->n_times++;
    told->owner = what->owner;
    told->order = order.order;
    told->thread = pthread_self();
    told->blocking = relock_trylock(told->lock);
    told->freed = relock_events_free(told->events);
    (void)outcome_release(told->lock, what->owner, told->events, &told->released);
}

static bool is_told(void *arg)
{
    return ((struct told *)arg)->n_times > 0;
}

static void a_loss_is_told_by_the_queue_and_released_there(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct told told = {.lock = lock, .events = events};
    struct relock_how how = {.on_lost = on_lost, .arg = &told};
    uint64_t owner;

    assert_result(reactor_acquire(lock, &how, events, &owner), RELOCK_OK);
    probe_int(f->probe, "DEL orders");
    assert_true(reactor_run_until(events, is_told, &told));
    assert_true(told.owner == owner && pthread_equal(told.thread, pthread_self()));
    assert_result(told.blocking, RELOCK_E_DEADLOCK);
    assert_ptr_equal(told.freed, events);
    assert_true(log_wait(f->log, "relock_events_free was called from a callback", SOON_MS));
    assert_result(reactor_await(events, &told.released), RELOCK_LOST);
    assert_int_equal(told.n_times, 1);
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(reactor_release(lock, owner, events), RELOCK_NOT_OWNER);
    assert_null(relock_events_free(events));
}

static void a_call_ends_before_the_loss_of_its_hold_is_told(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct told told = {.lock = lock, .events = events};
    struct relock_how how = {.on_lost = on_lost, .arg = &told};
    struct outcome outcome;

    assert_result(outcome_acquire(lock, &how, events, &outcome), RELOCK_OK);
    assert_true(probe_wait_key(f->probe, "orders"));
    probe_int(f->probe, "DEL orders");
    assert_true(wait_for_lost(client, 1));
    assert_true(reactor_run_until(events, is_told, &told));
    assert_result(outcome.result, RELOCK_OK);
    assert_true(outcome.order < told.order);
    assert_true(outcome.grant.valid_ms == 0);
    assert_result(reactor_await(events, &told.released), RELOCK_LOST);
    assert_null(relock_events_free(events));
}

static void a_release_takes_back_a_loss_that_was_not_told(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct told told = {.lock = lock, .events = events};
    struct relock_how how = {.on_lost = on_lost, .arg = &told};
    struct outcome released;
    uint64_t owner;

    assert_result(reactor_acquire(lock, &how, events, &owner), RELOCK_OK);
    probe_int(f->probe, "DEL orders");
    assert_true(wait_for_lost(client, 1));
    assert_result(relock_release(lock, owner), RELOCK_LOST);
    assert_result(outcome_release(lock, owner, events, &released), RELOCK_OK);
    assert_result(reactor_await(events, &released), RELOCK_NOT_OWNER);
    assert_int_equal(told.n_times, 0);
    assert_null(relock_events_free(events));
}

/* ---- the queue ----------------------------------------------------------------------------- */

static void a_queue_that_is_freed_leaves_nothing_held(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *other = kind_lock(f, client, "goods");
    struct relock_events *events = reactor_events(client);
    struct outcome held, waits, ended, released;

    hold_and_wait(client, lock, events, &held, &waits);
    assert_result(outcome_acquire(other, NULL, events, &ended), RELOCK_OK);
    assert_true(probe_wait_key(f->probe, "goods"));
    assert_null(relock_events_free(events));

    assert_true(wait_for_waiters(client, 0));
    assert_true(probe_wait_no_key(f->probe, "goods", SOON_MS));
    assert_int_equal(waits.result, REACTOR_NOTHING);
    assert_int_equal(ended.result, REACTOR_NOTHING);
    assert_result(relock_check(lock, held.grant.owner, NULL), RELOCK_OK);

    events = reactor_events(client);
    assert_result(outcome_release(lock, held.grant.owner, events, &released), RELOCK_OK);
    assert_null(relock_events_free(events)); /* the release goes on */
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

struct dispatcher {
    struct relock_events *events;
    atomic_bool is_inside, may_go;
};

static void stays_inside(int result, void *arg)
{
    struct dispatcher *dispatcher = arg;

    (void)result;
    atomic_store(&dispatcher->is_inside, true);
    while (!atomic_load(&dispatcher->may_go))
        let_pass(1);
}

static int dispatch(void *arg)
{
    struct dispatcher *dispatcher = arg;

    return relock_events_dispatch(dispatcher->events);
}

static bool is_due(void *arg)
{
    return reactor_is_due(arg);
}

static bool is_set(void *arg)
{
    return atomic_load((atomic_bool *)arg);
}

static void a_queue_is_not_freed_while_another_thread_dispatches(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct dispatcher dispatcher = {.events = events};
    struct actor *thread = actor_start();

    assert_result(relock_release_async(lock, relock_owner_new(), events, stays_inside, &dispatcher),
                  RELOCK_OK);
    assert_true(wait_until(is_due, events, SOON_MS));
    actor_begin(thread, dispatch, &dispatcher);
    assert_true(wait_until(is_set, &dispatcher.is_inside, SOON_MS));
    assert_ptr_equal(relock_events_free(events), events);
    atomic_store(&dispatcher.may_go, true);
    assert_int_equal(actor_result(thread), 1);
    assert_int_equal(relock_events_dispatch(events), 0);
    assert_null(relock_events_free(events));
}

/* ---- the client ---------------------------------------------------------------------------- */

static void a_client_that_is_shut_down_ends_the_waits(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct outcome held, waits;

    hold_and_wait(client, lock, events, &held, &waits);
    relock_client_shutdown(client);
    assert_result(reactor_await(events, &waits), RELOCK_E_CLOSED);
    assert_result(reactor_release(lock, held.grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

static void a_client_that_is_freed_ends_all_calls_and_the_queue_outlives_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct outcome held, waits[8], released;

    acquire(lock, events, &held);
    for (unsigned i = 0; i < 8; i++)
        assert_result(outcome_acquire(lock, WAITS, events, &waits[i]), RELOCK_OK);
    fixture_free_client(f, client);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    for (unsigned i = 0; i < 8; i++)
        assert_result(reactor_await(events, &waits[i]), RELOCK_E_CLOSED);
    assert_result(outcome_acquire(lock, NULL, events, &waits[0]), RELOCK_E_CLOSED);
    assert_result(outcome_release(lock, held.grant.owner, events, &released), RELOCK_E_CLOSED);
    assert_int_equal(relock_events_dispatch(events), 0);
    assert_null(relock_events_free(events));
}

static void a_queue_with_ended_calls_may_be_freed_after_its_client(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct outcome held;

    assert_result(outcome_acquire(lock, NULL, events, &held), RELOCK_OK);
    assert_true(probe_wait_key(f->probe, "orders"));
    fixture_free_client(f, client);
    assert_null(relock_events_free(events));
    assert_int_equal(held.result, REACTOR_NOTHING);
}

static void a_handle_may_be_freed_while_its_calls_go_on(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *short_lived = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct outcome waits;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(outcome_acquire(short_lived, WAITS, events, &waits), RELOCK_OK);
    fixture_free_lock(f, short_lived);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(reactor_await(events, &waits), RELOCK_OK);
    assert_result(reactor_release(lock, waits.grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

/* ---- a forked child ------------------------------------------------------------------------ */

struct heritage {
    struct relock_lock *lock;
    struct relock_events *events;
};

static int use_everything(struct child *parent, void *arg)
{
    struct heritage *of = arg;
    struct outcome outcome;

    (void)parent;
    child_must(outcome_acquire(of->lock, NULL, of->events, &outcome) == RELOCK_E_FORKED);
    child_must(outcome_release(of->lock, 1, of->events, &outcome) == RELOCK_E_FORKED);
    child_must(relock_events_fd(of->events) == RELOCK_E_FORKED);
    child_must(relock_events_dispatch(of->events) == RELOCK_E_FORKED);
    child_must(!relock_events_free(of->events));
    return EXIT_SUCCESS;
}

static void a_forked_child_leaves_the_calls_of_its_parent_alone(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct heritage heritage = {lock, events};
    struct outcome held, waits;

    hold_and_wait(client, lock, events, &held, &waits);
    assert_int_equal(child_wait(child_start(use_everything, &heritage), SOON_MS), EXIT_SUCCESS);
    assert_result(reactor_release(lock, held.grant.owner, events), RELOCK_OK);
    assert_result(reactor_await(events, &waits), RELOCK_OK);
    assert_result(reactor_release(lock, waits.grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

/* ---- misuse -------------------------------------------------------------------------------- */

static void invalid_arguments_are_refused(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL), *other = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client), *theirs = reactor_events(other);
    struct relock_how unknown = {.flags = 1U << 20};
    struct outcome outcome;

    assert_result(relock_events_new(NULL, &events), RELOCK_E_INVALID);
    assert_result(relock_events_new(client, NULL), RELOCK_E_INVALID);
    assert_result(relock_events_fd(NULL), RELOCK_E_INVALID);
    assert_result(relock_events_dispatch(NULL), RELOCK_E_INVALID);
    assert_null(relock_events_free(NULL));
    assert_result(outcome_acquire(NULL, NULL, events, &outcome), RELOCK_E_INVALID);
    assert_result(outcome_acquire(lock, NULL, NULL, &outcome), RELOCK_E_INVALID);
    assert_result(outcome_acquire(lock, NULL, theirs, &outcome), RELOCK_E_INVALID);
    assert_result(outcome_acquire(lock, &unknown, events, &outcome), RELOCK_E_INVALID);
    assert_result(relock_acquire_async(lock, NULL, events, NULL, NULL), RELOCK_E_INVALID);
    assert_result(outcome_release(NULL, 1, events, &outcome), RELOCK_E_INVALID);
    assert_result(outcome_release(lock, 0, events, &outcome), RELOCK_E_INVALID);
    assert_result(outcome_release(lock, 1, theirs, &outcome), RELOCK_E_INVALID);
    assert_null(relock_events_free(theirs));
    assert_null(relock_events_free(events));
}

static void a_multi_lock_and_a_client_that_waits_for_replicas_do_not_support_them(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *careful = fixture_client(f, &(struct relock_options){.min_replicas = 1});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *copied = fixture_lock(f, careful, "goods");
    struct relock_lock **multi = fixture_place(f);
    struct relock_events *events = reactor_events(client), *theirs = reactor_events(careful);
    struct outcome outcome;

    assert_result(relock_multilock_new(&lock, 1, multi), RELOCK_OK);
    assert_result(outcome_acquire(*multi, NULL, events, &outcome), RELOCK_E_UNSUPPORTED);
    assert_result(outcome_release(*multi, 1, events, &outcome), RELOCK_E_UNSUPPORTED);
    assert_result(outcome_acquire(copied, NULL, theirs, &outcome), RELOCK_E_UNSUPPORTED);
    assert_null(relock_events_free(theirs));
    assert_null(relock_events_free(events));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_loss_is_told_by_the_queue_and_released_there),
        KINDS_TEST(a_call_ends_before_the_loss_of_its_hold_is_told),
        KINDS_TEST(a_release_takes_back_a_loss_that_was_not_told),
        KINDS_TEST(a_queue_that_is_freed_leaves_nothing_held),
        SERVER_TEST(a_queue_is_not_freed_while_another_thread_dispatches),
        KINDS_TEST(a_client_that_is_shut_down_ends_the_waits),
        SEMAPHORE_TEST(a_client_that_is_shut_down_ends_the_waits),
        KINDS_TEST(a_client_that_is_freed_ends_all_calls_and_the_queue_outlives_it),
        KINDS_TEST(a_queue_with_ended_calls_may_be_freed_after_its_client),
        SEMAPHORE_TEST(a_queue_with_ended_calls_may_be_freed_after_its_client),
        KINDS_TEST(a_handle_may_be_freed_while_its_calls_go_on),
        SEMAPHORE_TEST(a_handle_may_be_freed_while_its_calls_go_on),
        KINDS_TEST(a_forked_child_leaves_the_calls_of_its_parent_alone),
        SEMAPHORE_TEST(a_forked_child_leaves_the_calls_of_its_parent_alone),
        SERVER_TEST(invalid_arguments_are_refused),
        SERVER_TEST(a_multi_lock_and_a_client_that_waits_for_replicas_do_not_support_them),
    };
    return SERVER_TESTS_RUN(tests);
}
