/* A client that is shut down drains: present holds go on, and only owners with a hold acquire. */
#include "support/actor.h"
#include "support/keeping.h"
#include "support/kinds.h"
#include "support/multi.h"
#include "support/peer.h"
#include "support/reactor.h"

#define LEASE_MS 2000 /* outlives a second in which a machine stands still */

static void nesting_extending_and_releasing_go_on_after_shutdown(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    relock_client_shutdown(client);
    relock_client_shutdown(client); /* does nothing */

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 3);
    assert_result(relock_extend(lock, 0, 60000), RELOCK_OK);
    assert_true(relock_is_mine(lock));
    for (int level = 0; level < 3; level++)
        assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
}

static void an_owner_without_a_hold_is_refused_though_the_lock_is_free(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *free_one = fixture_lock(f, client, "free");
    struct relock_lock *held = fixture_lock(f, client, "held");
    struct relock_lock *taken = fixture_lock(f, client, "taken");
    struct actor *holder = actor_start();

    assert_result(actor_lock(holder, held), RELOCK_OK);
    assert_true(peer_lock(f->probe, "taken", PEER, PEER_LEASE_MS));
    relock_client_shutdown(client);

    assert_result(relock_lock(free_one), RELOCK_E_CLOSED);
    assert_result(relock_trylock(free_one), RELOCK_E_CLOSED);
    assert_result(relock_timedlock(free_one, 100), RELOCK_E_CLOSED);
    assert_result(relock_acquire(free_one, NULL, NULL), RELOCK_E_CLOSED);
    assert_result(relock_lock(taken), RELOCK_E_CLOSED);
    assert_result(relock_lock(held), RELOCK_E_CLOSED);
    assert_result(relock_trylock(held), RELOCK_E_CLOSED);
    assert_int_equal(probe_int(f->probe, "EXISTS free"), 0);

    assert_result(actor_unlock(holder, held), RELOCK_OK);
    assert_result(actor_lock(holder, held), RELOCK_E_CLOSED);
    assert_true(peer_unlock(f->probe, "taken", PEER));
}

static void a_shutdown_ends_all_waits(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting[3];

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    actors_begin_lock(waiting, 3, lock);
    assert_true(wait_for_waiters(client, 3));

    relock_client_shutdown(client);
    assert_results(waiting, 3, RELOCK_E_CLOSED);
    assert_int_equal(stats_of(client).waiters, 0);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void renewals_go_on_after_shutdown(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t until_ms = deadline_in(LEASE_MS * 5 / 4);

    assert_result(relock_lock(lock), RELOCK_OK);
    relock_client_shutdown(client);
    while (now_ms() < until_ms) {
        assert_true(probe_pttl(f->probe, "orders") > 0);
        let_pass(10);
    }
    assert_true(relock_is_mine(lock));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void queries_work_after_a_shutdown(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *late;
    struct relock_holder holder;
    bool locked;

    relock_client_shutdown(client);
    assert_result(relock_is_locked(lock, &locked), RELOCK_OK);
    assert_false(locked);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_result(relock_lock_new(client, "late", &late), RELOCK_OK);
    assert_result(relock_lock(late), RELOCK_E_CLOSED);
    relock_lock_free(late);
}

/* The lock stays held while its client drains, and its release wakes waiters as ever. */
static void another_client_gets_the_lock_when_the_holder_is_done(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *next = woken_client(f);
    struct relock_lock *ours = fixture_lock(f, client, "orders");
    struct relock_lock *theirs = fixture_lock(f, next, "orders");
    struct actor *other = actor_start();

    assert_result(relock_lock(ours), RELOCK_OK);
    actor_begin_lock(other, theirs);
    assert_true(wait_for_waiters(next, 1));
    relock_client_shutdown(client);
    assert_true(actor_is_busy(other));
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_gets_in(other, theirs);
}

/* ---- owners with a hold -------------------------------------------------------------------- */

static void an_owner_with_a_hold_acquires_until_it_has_none(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *from = kind_lock(f, client, "from");
    struct relock_lock *to = kind_lock(f, client, "to");
    struct relock_lock *last = kind_lock(f, client, "last");
    struct actor *other = actor_start();

    assert_result(relock_lock(from), RELOCK_OK);
    relock_client_shutdown(client);
    assert_result(relock_lock(to), RELOCK_OK);
    assert_result(actor_trylock(other, last), RELOCK_E_CLOSED); /* has no hold */
    assert_result(relock_unlock(from), RELOCK_OK);
    assert_result(relock_trylock(last), RELOCK_OK);
    assert_result(relock_unlock(last), RELOCK_OK);
    assert_result(relock_unlock(to), RELOCK_OK);
    assert_result(relock_lock(from), RELOCK_E_CLOSED);
    assert_result(relock_trylock(from), RELOCK_E_CLOSED);
}

static void a_wait_of_an_owner_with_a_hold_outlives_the_shutdown(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *from = kind_lock(f, client, "from");
    struct relock_lock *to = kind_lock(f, client, "to");
    struct actor *transfer = actor_start(), *late = actor_start(), *bare = actor_start();

    assert_true(kind_peer_lock(f, "to"));
    assert_result(actor_lock(transfer, from), RELOCK_OK);
    actor_begin_lock(transfer, to);
    actor_begin_lock(bare, to);
    assert_true(wait_for_waiters(client, 2));
    relock_client_shutdown(client);
    assert_result(actor_result(bare), RELOCK_E_CLOSED);
    assert_result(actor_lock(late, to), RELOCK_E_CLOSED);
    assert_true(actor_is_busy(transfer));
    assert_true(kind_peer_unlock(f, "to"));
    assert_gets_in(transfer, to);
    assert_result(actor_unlock(transfer, from), RELOCK_OK);
}

/* No hold is handed off any more: the release wakes the waiter. */
static void the_holder_of_another_lock_gets_what_a_thread_releases(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *from = fixture_lock(f, client, "from");
    struct relock_lock *to = fixture_lock(f, client, "to");
    struct actor *transfer = actor_start(), *bare = actor_start();

    assert_result(relock_lock(to), RELOCK_OK);
    actor_begin_lock(bare, to); /* before the other */
    assert_true(wait_for_waiters(client, 1));
    assert_result(actor_lock(transfer, from), RELOCK_OK);
    actor_begin_lock(transfer, to);
    assert_true(wait_for_waiters(client, 2));
    relock_client_shutdown(client);
    assert_result(actor_result(bare), RELOCK_E_CLOSED);
    assert_result(relock_unlock(to), RELOCK_OK);
    assert_gets_in(transfer, to);
    assert_result(actor_unlock(transfer, from), RELOCK_OK);
}

/* An owner whose hold `from` ends while another thread of it waits. */
static void a_wait_ends_with_the_last_hold(struct fixture *f, bool is_lost)
{
    struct relock_client *client = woken_client(f);
    struct relock_lock *from = fixture_lock(f, client, "from");
    struct relock_lock *to = fixture_lock(f, client, "to");
    struct relock_how how = {
        .owner = relock_owner_new(), .wait_ms = RELOCK_FOREVER, .permits = kind_now()->permits};
    struct actor *waiting = actor_start();

    assert_true(peer_lock(f->probe, "to", PEER, PEER_LEASE_MS));
    assert_result(relock_acquire(from, &how, NULL), RELOCK_OK);
    actor_begin_acquire(waiting, to, &how);
    assert_true(wait_for_waiters(client, 1));
    relock_client_shutdown(client);
    assert_true(actor_is_busy(waiting));
    if (is_lost)
        assert_result(relock_force_unlock(from), RELOCK_OK);
    else
        assert_result(relock_release(from, how.owner), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_E_CLOSED);
    assert_result(relock_acquire(to, &how, NULL), RELOCK_E_CLOSED);
    if (is_lost)
        assert_result(relock_release(from, how.owner), RELOCK_LOST);
    assert_true(peer_unlock(f->probe, "to", PEER));
}

static void a_wait_ends_when_its_owner_releases_its_last_hold(void **state)
{
    a_wait_ends_with_the_last_hold(*state, false);
}

static void a_wait_ends_when_its_owner_loses_its_last_hold(void **state)
{
    a_wait_ends_with_the_last_hold(*state, true);
}

static void asynchronous_calls_of_an_owner_with_a_hold_go_on(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *from = kind_lock(f, client, "from");
    struct relock_lock *to = kind_lock(f, client, "to");
    struct relock_lock *last = kind_lock(f, client, "last");
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {
        .owner = relock_owner_new(), .wait_ms = RELOCK_FOREVER, .permits = kind_now()->permits};
    struct relock_how bare = {.wait_ms = RELOCK_FOREVER, .permits = kind_now()->permits};
    struct outcome waits, refused;
    uint64_t owner;

    assert_true(kind_peer_lock(f, "to"));
    assert_result(reactor_acquire(from, &how, events, &owner), RELOCK_OK);
    assert_result(outcome_acquire(to, &how, events, &waits), RELOCK_OK);
    assert_result(outcome_acquire(to, &bare, events, &refused), RELOCK_OK);
    assert_true(wait_for_waiters(client, 2));
    relock_client_shutdown(client);
    assert_result(reactor_await(events, &refused), RELOCK_E_CLOSED);
    assert_result(reactor_acquire(last, &how, events, &owner), RELOCK_OK);
    assert_result(reactor_acquire(last, &bare, events, &owner), RELOCK_E_CLOSED);
    assert_result(waits.result, REACTOR_NOTHING);
    assert_true(kind_peer_unlock(f, "to"));
    assert_result(reactor_await(events, &waits), RELOCK_OK);
    assert_result(reactor_release(last, how.owner, events), RELOCK_OK);
    assert_result(reactor_release(to, how.owner, events), RELOCK_OK);
    assert_result(reactor_release(from, how.owner, events), RELOCK_OK);
    assert_result(reactor_acquire(from, &how, events, &owner), RELOCK_E_CLOSED);
    assert_null(relock_events_free(events));
}

static void a_kept_lock_is_no_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *kept = fixture_lock(f, client, "kept");
    struct relock_lock *to = fixture_lock(f, client, "to");

    keeping_fill(client, kept);
    relock_client_shutdown(client);
    assert_result(relock_trylock(to), RELOCK_E_CLOSED);
    assert_result(relock_trylock(kept), RELOCK_E_CLOSED);
}

/* Nothing stays with a process that drains. */
static void a_lock_acquired_after_the_shutdown_is_not_kept(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *from = fixture_lock(f, client, "from");
    struct relock_lock *to = fixture_lock(f, client, "to");

    assert_result(relock_lock(from), RELOCK_OK);
    relock_client_shutdown(client);
    assert_result(relock_lock(to), RELOCK_OK);
    assert_result(relock_unlock(to), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS to"), 0);
    assert_result(relock_unlock(from), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* Also one that has acquired a first member, and waits for the second. */
static void a_multi_lock_is_acquired_by_an_owner_with_a_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *second = fixture_client(f, NULL);
    struct relock_lock *from = fixture_lock(f, client, "from");
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, second, "b");
    struct relock_lock *both = fixture_multi(f, a, b, NULL);
    struct actor *transfer = actor_start();

    assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
    assert_result(actor_lock(transfer, from), RELOCK_OK);
    actor_begin_lock(transfer, both);
    assert_true(wait_for_waiters(second, 1));
    relock_client_shutdown(second);
    relock_client_shutdown(client);
    assert_result(relock_lock(both), RELOCK_E_CLOSED);
    assert_true(actor_is_busy(transfer));
    assert_true(peer_unlock(f->probe, "b", PEER));
    assert_gets_in(transfer, both);
    assert_result(actor_lock(transfer, both), RELOCK_OK);
    assert_result(actor_unlock(transfer, from), RELOCK_OK);
    assert_result(actor_lock(transfer, from), RELOCK_OK); /* it has the multi lock */
    assert_result(actor_unlock(transfer, both), RELOCK_OK);
    assert_result(actor_unlock(transfer, from), RELOCK_OK);
    assert_result(actor_lock(transfer, both), RELOCK_E_CLOSED);
}

static void a_member_with_a_level_of_its_own_is_a_hold_without_the_multi_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, client, "b");
    struct relock_lock *both = fixture_multi(f, a, b, NULL);

    assert_result(relock_lock(both), RELOCK_OK);
    assert_result(relock_lock(a), RELOCK_OK);
    relock_client_shutdown(client);
    assert_result(relock_unlock(both), RELOCK_OK);
    assert_result(relock_lock(b), RELOCK_OK);
    assert_result(relock_unlock(b), RELOCK_OK);
    assert_result(relock_unlock(a), RELOCK_OK);
    assert_result(relock_lock(b), RELOCK_E_CLOSED);
}

static void an_owner_holds_locks_of_one_client(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *second = fixture_client(f, NULL);
    struct relock_lock *from = fixture_lock(f, client, "from");
    struct relock_lock *to = fixture_lock(f, second, "to");

    assert_result(relock_lock(from), RELOCK_OK);
    relock_client_shutdown(client);
    relock_client_shutdown(second);
    assert_result(relock_lock(to), RELOCK_E_CLOSED);
    assert_result(relock_unlock(from), RELOCK_OK);
}

static void freeing_a_client_ends_the_wait_of_an_owner_with_a_hold(void **state)
{
    struct fixture *f = *state;

    for (int is_shut_down = 0; is_shut_down < 2; is_shut_down++) {
        struct relock_client *client = fixture_client(f, NULL);
        struct relock_lock *from = kind_lock(f, client, "from");
        struct relock_lock *to = kind_lock(f, client, "to");
        struct actor *transfer = actor_start();

        assert_true(kind_peer_lock(f, "to"));
        assert_result(actor_lock(transfer, from), RELOCK_OK);
        actor_begin_lock(transfer, to);
        assert_true(wait_for_waiters(client, 1));
        if (is_shut_down)
            relock_client_shutdown(client);
        fixture_free_client(f, client);
        assert_result(actor_result(transfer), RELOCK_E_CLOSED);
        assert_true(kind_peer_unlock(f, "to"));
        fixture_free_lock(f, from);
        fixture_free_lock(f, to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(nesting_extending_and_releasing_go_on_after_shutdown),
        SERVER_TEST(an_owner_without_a_hold_is_refused_though_the_lock_is_free),
        SERVER_TEST(a_shutdown_ends_all_waits),
        SERVER_TEST(renewals_go_on_after_shutdown),
        SERVER_TEST(queries_work_after_a_shutdown),
        SERVER_TEST(another_client_gets_the_lock_when_the_holder_is_done),
        KINDS_TEST(an_owner_with_a_hold_acquires_until_it_has_none),
        SEMAPHORE_TEST(an_owner_with_a_hold_acquires_until_it_has_none),
        KINDS_TEST(a_wait_of_an_owner_with_a_hold_outlives_the_shutdown),
        SERVER_TEST(the_holder_of_another_lock_gets_what_a_thread_releases),
        SERVER_TEST(a_wait_ends_when_its_owner_releases_its_last_hold),
        SERVER_TEST(a_wait_ends_when_its_owner_loses_its_last_hold),
        KINDS_TEST(asynchronous_calls_of_an_owner_with_a_hold_go_on),
        SERVER_TEST(a_kept_lock_is_no_hold),
        SERVER_TEST(a_lock_acquired_after_the_shutdown_is_not_kept),
        SERVER_TEST(a_multi_lock_is_acquired_by_an_owner_with_a_hold),
        SERVER_TEST(a_member_with_a_level_of_its_own_is_a_hold_without_the_multi_lock),
        SERVER_TEST(an_owner_holds_locks_of_one_client),
        KINDS_TEST(freeing_a_client_ends_the_wait_of_an_owner_with_a_hold),
    };

    return SERVER_TESTS_RUN(tests);
}
