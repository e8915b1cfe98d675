/* Another process that wants a lock which is kept, or may be, recalls it. */
#include "support/actor.h"
#include "support/keeping.h"
#include "support/kinds.h"
#include "support/listener.h"
#include "support/peer.h"
#include "support/reactor.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define N_TRIES 5
#define REST_MS 1000 /* after a recall, for so long what is acquired is not kept */
#define LONG_MS 3600000

/* Nothing but the recall ends a wait. */
static struct relock_client *waiting_client(struct fixture *f)
{
    return fixture_client(f, &(struct relock_options){.recheck_ms = NEVER_MS});
}

static void a_waiter_elsewhere_gets_a_kept_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *theirs = kind_lock(f, waiting_client(f), "orders");

    keeping_fill(client, lock);
    assert_result(relock_timedlock(theirs, NEVER_MS), RELOCK_OK);
    assert_int_equal(stats_of(client).recalled, 1);
    assert_int_equal(stats_of(client).kept, 0);
    assert_result(relock_unlock(theirs), RELOCK_OK);
}

static void a_call_without_a_thread_elsewhere_gets_a_kept_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL), *other = waiting_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *theirs = kind_lock(f, other, "orders");
    struct relock_events *events = reactor_events(other);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    uint64_t owner;

    keeping_fill(client, lock);
    assert_result(reactor_acquire(theirs, &how, events, &owner), RELOCK_OK);
    assert_int_equal(stats_of(client).recalled, 1);
    assert_int_equal(stats_of(client).kept, 0);
    assert_result(reactor_release(theirs, owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

static void a_held_lock_is_not_kept_after_a_recall(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_client *other = waiting_client(f);
    struct relock_lock *theirs = kind_lock(f, other, "orders");
    struct actor *waiting = actor_start();
    struct relock_grant grant;

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiting, theirs);
    assert_true(wait_for_waiters(other, 1));
    assert_true(wait_for_recalls(client, 1));
    assert_result(relock_check(lock, 0, &grant), RELOCK_OK); /* it stays until its release */
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(waiting, theirs);
    assert_int_equal(stats_of(client).kept, 0);
}

struct waiters {
    struct actor *local, *elsewhere;
};

static bool has_one_got_in(void *arg)
{
    const struct waiters *waiters = arg;

    return !actor_is_busy(waiters->local) || !actor_is_busy(waiters->elsewhere);
}

/* Returns whether the client elsewhere got the lock first. On a slow machine, it does not ask in
 * time, and is overtaken. */
static bool is_passed_on(struct fixture *f)
{
    struct relock_client *client = keeping_client(f, &(struct relock_options){.handoff_ms = 1});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *theirs = fixture_lock(f, waiting_client(f), "orders");
    struct waiters waiters = {actor_start(), actor_start()};
    bool is_first;

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiters.elsewhere, theirs);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    actor_begin_lock(waiters.local, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_true(wait_for_recalls(client, 1));
    let_pass(5); /* more than handoff_ms */
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(wait_until(has_one_got_in, &waiters, SOON_MS));
    is_first = actor_is_busy(waiters.local);
    if (is_first)
        assert_gets_in(waiters.elsewhere, theirs);
    assert_gets_in(waiters.local, lock);
    if (!is_first)
        assert_gets_in(waiters.elsewhere, theirs);
    assert_int_equal(stats_of(client).passed_on, 0);
    return is_first;
}

static void a_held_lock_with_local_waiters_is_passed_on_after_a_recall(void **state)
{
    bool is_first = false;

    for (int i = 0; i < N_TRIES && !is_first; i++)
        is_first = is_passed_on(*state);
    assert_true(is_first);
}

/* It was in the line before, and does not ask again: the holder learns of it with the grant. */
static void a_client_in_the_line_is_not_kept_waiting(void **state)
{
    struct fixture *f = *state;
    struct relock_client *first = keeping_client(f, NULL), *last = waiting_client(f);
    struct relock_lock *ours = fixture_lock(f, first, "orders");
    struct relock_lock *theirs = fixture_lock(f, last, "orders");
    struct actor *one = actor_start(), *two = actor_start();

    assert_true(peer_lock(f->probe, "orders", "peer:1", PEER_LEASE_MS));
    actor_begin_lock(one, ours);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    actor_begin_lock(two, theirs);
    assert_true(probe_wait_in_line(f->probe, "orders", 2));
    assert_true(peer_unlock(f->probe, "orders", "peer:1"));
    assert_result(actor_result(one), RELOCK_OK);
    assert_result(actor_unlock(one, ours), RELOCK_OK);
    assert_int_equal(stats_of(first).kept, 0);
    assert_gets_in(two, theirs);
}

static void a_try_elsewhere_fails_once(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *theirs = kind_lock(f, waiting_client(f), "orders");

    keeping_fill(client, lock);
    assert_result(relock_trylock(theirs), RELOCK_BUSY);
    assert_true(keeping_wait(client, 0));
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_result(relock_trylock(theirs), RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_OK);
}

static void use_until_it_is_kept(struct relock_client *client, struct relock_lock *lock)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);

    do {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    } while (stats_of(client).kept == 0 && now_ms() < deadline_ms);
    assert_int_equal(stats_of(client).kept, 1);
}

/* So that a waiter that polls gets its turn. */
static void a_recalled_lock_is_not_kept_for_a_second(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *theirs = kind_lock(f, waiting_client(f), "orders");
    uint64_t began_ms;

    keeping_fill(client, lock);
    began_ms = now_ms(); /* not after the recall */
    assert_result(relock_trylock(theirs), RELOCK_BUSY);
    assert_true(keeping_wait(client, 0));
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    use_until_it_is_kept(client, lock);
    assert_true(now_ms() - began_ms + TWO_CLOCKS_MS >= REST_MS);
}

static void only_a_hold_that_may_be_kept_is_recalled(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *theirs = fixture_lock(f, waiting_client(f), "orders");
    char inbox[64];
    struct listener *listener;

    snprintf(inbox, sizeof(inbox), "relock_client:{%s}", relock_client_id(client));
    listener = listener_open(f->server->socket, inbox);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_trylock(theirs), RELOCK_BUSY);
    assert_true(listener_hears_nothing(listener, 20));
    assert_result(relock_unlock(lock), RELOCK_OK);
    listener_close(listener);
}

static void a_recall_names_the_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *theirs = fixture_lock(f, waiting_client(f), "orders");
    char inbox[64], message[128], field[128];
    struct listener *listener;

    snprintf(inbox, sizeof(inbox), "relock_client:{%s}", relock_client_id(client));
    listener = listener_open(f->server->socket, inbox);
    assert_result(relock_lock(lock), RELOCK_OK);
    snprintf(field, sizeof(field), "%s", probe_only_field(f->probe, "orders"));
    snprintf(message, sizeof(message), "recall%s orders", strchr(field, ':'));
    assert_result(relock_trylock(theirs), RELOCK_BUSY);
    assert_true(listener_hears(listener, message, SOON_MS));
    assert_true(wait_for_recalls(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);

    /* One about an older hold changes nothing. */
    use_until_it_is_kept(client, lock);
    probe_int(f->probe, "PUBLISH %s %b", inbox, message, strlen(message));
    probe_int(f->probe, "PUBLISH %s %s", inbox, "recall:");
    probe_int(f->probe, "PUBLISH %s %b", inbox, "recall: orders", (size_t)14);
    assert_true(listener_hears(listener, message, SOON_MS));
    assert_true(listener_hears(listener, "recall:", SOON_MS));
    assert_true(listener_hears(listener, "recall: orders", SOON_MS));
    let_pass(20);
    assert_int_equal(stats_of(client).kept, 1);
    listener_close(listener);
}

static void a_recall_with_a_prefix_finds_the_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.name_prefix = "shop:"});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *theirs = fixture_lock(f, waiting_client(f), "shop:orders");

    keeping_fill(client, lock);
    assert_result(relock_trylock(theirs), RELOCK_BUSY);
    assert_true(wait_for_recalls(client, 1));
    assert_true(keeping_wait(client, 0));
}

#define N_THREADS 4

struct busy {
    struct relock_lock *lock;
    atomic_bool stops;
};

static int use_all_the_time(void *arg)
{
    struct busy *busy = arg;
    int r = RELOCK_OK;

    while (r == RELOCK_OK && !atomic_load(&busy->stops)) {
        r = relock_lock(busy->lock);
        if (r == RELOCK_OK)
            r = relock_unlock(busy->lock);
    }
    return r;
}

/* Its threads never leave the lock alone by themselves. */
static void a_busy_process_lets_a_waiter_elsewhere_in(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct busy busy = {.lock = kind_lock(f, client, "orders")};
    struct relock_lock *theirs = kind_lock(f, fixture_client(f, NULL), "orders");
    struct actor *actors[N_THREADS];

    actors_begin(actors, N_THREADS, use_all_the_time, &busy);
    for (int i = 0; i < 5; i++) {
        let_pass(50);
        assert_result(relock_timedlock(theirs, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
        assert_result(relock_unlock(theirs), RELOCK_OK);
    }
    atomic_store(&busy.stops, true);
    assert_results(actors, N_THREADS, RELOCK_OK);
}

/* A waiter outside of the line recalls, too: this user has no right to its keys. */
static void a_waiter_without_the_line_gets_a_kept_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *theirs;

    probe_text(f->probe, "ACL SETUSER outsider on >secret ~orders &* +@all");
    theirs = fixture_lock(f,
                          fixture_client(f, &(struct relock_options){.user = "outsider",
                                                                     .password = "secret",
                                                                     .recheck_ms = NEVER_MS}),
                          "orders");
    keeping_fill(client, lock);
    assert_result(relock_timedlock(theirs, NEVER_MS), RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_OK);
    assert_int_equal(stats_of(client).recalled, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST_OF(a_waiter_elsewhere_gets_a_kept_lock, reentrant),
        KINDS_TEST_OF(a_waiter_elsewhere_gets_a_kept_lock, spin),
        SERVER_TEST(a_call_without_a_thread_elsewhere_gets_a_kept_lock),
        KINDS_TEST_OF(a_held_lock_is_not_kept_after_a_recall, reentrant),
        KINDS_TEST_OF(a_held_lock_is_not_kept_after_a_recall, spin),
        SERVER_TEST(a_held_lock_with_local_waiters_is_passed_on_after_a_recall),
        SERVER_TEST(a_client_in_the_line_is_not_kept_waiting),
        KINDS_TEST_OF(a_try_elsewhere_fails_once, reentrant),
        KINDS_TEST_OF(a_try_elsewhere_fails_once, spin),
        KINDS_TEST_OF(a_recalled_lock_is_not_kept_for_a_second, reentrant),
        KINDS_TEST_OF(a_recalled_lock_is_not_kept_for_a_second, spin),
        SERVER_TEST(only_a_hold_that_may_be_kept_is_recalled),
        SERVER_TEST(a_recall_names_the_hold),
        SERVER_TEST(a_recall_with_a_prefix_finds_the_lock),
        KINDS_TEST_OF(a_busy_process_lets_a_waiter_elsewhere_in, reentrant),
        KINDS_TEST_OF(a_busy_process_lets_a_waiter_elsewhere_in, spin),
        SERVER_TEST(a_waiter_without_the_line_gets_a_kept_lock),
    };

    return SERVER_TESTS_RUN(tests);
}
