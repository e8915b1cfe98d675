/*
 * Owners of several clients that wait for each other: when all their waits have lasted for
 * `deadlock_ms`, the youngest is refused, and the others go on.
 */
#include "support/kinds.h"
#include "support/reactor.h"
#include "support/ring.h"

#include <stdio.h>

static struct ring ring_of_clients(struct fixture *f, int n)
{
    struct relock_client *clients[RING_MOST];

    for (int i = 0; i < n; i++)
        clients[i] = ring_client(f, i, DEADLOCK_MS);
    return ring_of(f, clients, n);
}

static void play_ring(struct fixture *f, int n)
{
    struct ring ring = ring_of_clients(f, n);

    ring_close(&ring);
    (void)ring_assert_one_is_refused(&ring);
    assert_true(log_wait_n(f->log, "this call would deadlock: this owner holds ring:", 1, SOON_MS));
    forget_counters(f->probe);
    assert_true(wait_for_no_keys(f->probe));
}

static void one_of_two_clients_is_refused(void **state)
{
    play_ring(*state, 2);
}

static void one_of_three_clients_is_refused(void **state)
{
    play_ring(*state, 3);
}

static void one_of_four_clients_is_refused(void **state)
{
    play_ring(*state, 4);
}

static void the_log_names_the_locks_and_clients_of_the_cycle(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_of_clients(f, 2);
    const char *cycle;

    ring_close(&ring);
    cycle = ring_assert_one_is_refused(&ring) == 0
                ? "this owner holds ring:0, for which client shop-1 waits, who holds ring:1; "
                  "release this owner's locks"
                : "this owner holds ring:1, for which client shop-0 waits, who holds ring:0; "
                  "release this owner's locks";
    assert_true(log_wait(f->log, cycle, SOON_MS));
    assert_int_equal(log_count(f->log, cycle), 1);
    assert_int_equal(log_count(f->log, "deadlock"), 1);
}

/* ---- owners that take part
 * ------------------------------------------------------------------------ */

/* Two owners of one client and one of another: the chain goes through the memory of the first. */
static void owners_of_one_client_are_followed_in_its_memory(void **state)
{
    struct relock_client *one = ring_client(*state, 0, DEADLOCK_MS);
    struct relock_client *other = ring_client(*state, 1, DEADLOCK_MS);
    struct ring ring = ring_of(*state, (struct relock_client *[]){one, one, other}, 3);

    ring_close(&ring);
    (void)ring_assert_one_is_refused(&ring);
}

static void calls_without_a_thread_take_part(void **state)
{
    struct fixture *f = *state;
    struct relock_client *clients[] = {ring_client(f, 0, DEADLOCK_MS),
                                       ring_client(f, 1, DEADLOCK_MS)};
    static const char *const names[] = {"a", "b"};
    struct relock_lock *has[2], *wants[2];
    struct relock_events *events[2];
    struct outcome outcomes[2];
    uint64_t owners[2];
    int victim, other;

    for (int i = 0; i < 2; i++) {
        has[i] = fixture_lock(f, clients[i], names[i]);
        wants[i] = fixture_lock(f, clients[i], names[1 - i]);
        events[i] = reactor_events(clients[i]);
        owners[i] = relock_owner_new();
        assert_result(relock_acquire(has[i], &(struct relock_how){.owner = owners[i]}, NULL),
                      RELOCK_OK);
    }
    for (int i = 0; i < 2; i++) {
        struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = owners[i]};

        assert_result(outcome_acquire(wants[i], &how, events[i], &outcomes[i]), RELOCK_OK);
    }
    for (uint64_t end_ms = now_ms() + SOON_MS; now_ms() < end_ms; let_pass(1)) {
        assert_true(relock_events_dispatch(events[0]) >= 0);
        assert_true(relock_events_dispatch(events[1]) >= 0);
        if (outcomes[0].n_times + outcomes[1].n_times > 0)
            break;
    }
    victim = outcomes[0].n_times > 0 ? 0 : 1;
    other = 1 - victim;
    assert_result(outcomes[victim].result, RELOCK_E_DEADLOCK);
    assert_int_equal(outcomes[other].n_times, 0);
    assert_result(relock_release(has[victim], owners[victim]), RELOCK_OK);
    assert_result(reactor_await(events[other], &outcomes[other]), RELOCK_OK);
    assert_result(relock_release(wants[other], owners[other]), RELOCK_OK);
    assert_result(relock_release(has[other], owners[other]), RELOCK_OK);
    assert_null(relock_events_free(events[0]));
    assert_null(relock_events_free(events[1]));
}

static void a_writer_waits_for_each_of_the_readers(void **state)
{
    struct relock_client *clients[3];

    for (int i = 0; i < 3; i++)
        clients[i] = ring_client(*state, i, DEADLOCK_MS);
    ring_play_readers(*state, clients, true);
}

/* ---- locks that come later ------------------------------------------------------------------- */

static bool one_has_ended(void *arg)
{
    struct actor *const *actors = arg;

    return !actor_is_busy(actors[0]) || !actor_is_busy(actors[1]);
}

/* Of two clients, the owner of the first waits for what the second one holds. Another thread then
 * acquires for it what the second one wants; before that, it may release what the owner had. */
static void play_late_lock(struct fixture *f, fixture_constructor_fn *make, bool releases)
{
    struct relock_client *clients[] = {ring_client(f, 0, DEADLOCK_MS),
                                       ring_client(f, 1, DEADLOCK_MS)};
    struct relock_lock *first = fixture_lock(f, clients[0], "first"), *held[2], *late[2];
    struct actor *actors[] = {actor_start(), actor_start()};
    uint64_t owner = relock_owner_new();
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = owner};
    char hash[64];

    snprintf(hash, sizeof(hash), "relock_waits:{%s}", relock_client_id(clients[0]));
    for (int i = 0; i < 2; i++) {
        held[i] = fixture_lock(f, clients[i], "held");
        late[i] = fixture_lock_of(f, clients[i], "late", make);
    }
    assert_result(actor_lock(actors[1], held[1]), RELOCK_OK);
    assert_result(relock_acquire(first, &how, NULL), RELOCK_OK);
    actor_begin_acquire(actors[0], held[0], &how);
    assert_true(probe_wait_key(f->probe, hash));
    if (releases) {
        assert_result(relock_release(first, owner), RELOCK_OK);
        assert_true(probe_wait_no_key(f->probe, hash, SOON_MS));
    }
    assert_result(relock_acquire(late[0], &how, NULL), RELOCK_OK);
    actor_begin_lock(actors[1], late[1]);
    assert_true(wait_until(one_has_ended, (void *)actors, SOON_MS));
    if (actor_is_busy(actors[0])) {
        assert_result(actor_result(actors[1]), RELOCK_E_DEADLOCK);
        assert_result(actor_unlock(actors[1], held[1]), RELOCK_OK);
        assert_result(actor_result(actors[0]), RELOCK_OK);
        assert_result(relock_release(held[0], owner), RELOCK_OK);
        assert_result(relock_release(late[0], owner), RELOCK_OK);
    } else {
        assert_result(actor_result(actors[0]), RELOCK_E_DEADLOCK);
        assert_result(relock_release(late[0], owner), RELOCK_OK);
        assert_result(actor_result(actors[1]), RELOCK_OK);
        assert_result(actor_unlock(actors[1], late[1]), RELOCK_OK);
        assert_result(actor_unlock(actors[1], held[1]), RELOCK_OK);
    }
    if (!releases)
        assert_result(relock_release(first, owner), RELOCK_OK);
}

static void an_owner_takes_part_again_with_a_later_lock(void **state)
{
    play_late_lock(*state, relock_lock_new, true);
}

static void a_plain_lock_that_comes_later_takes_part(void **state)
{
    play_late_lock(*state, relock_plainlock_new, false);
}

/* ---- waits without a cycle ------------------------------------------------------------------- */

/* Of two clients, each holds a lock; both wait, but the second one for a time. */
static void play_two(struct fixture *f, const struct relock_how *first_holds, uint64_t deadlock_ms,
                     int result_of_first)
{
    struct relock_client *clients[] = {ring_client(f, 0, DEADLOCK_MS),
                                       ring_client(f, 1, deadlock_ms)};
    struct relock_lock *a[2], *b[2];
    struct actor *one = actor_start(), *two = actor_start();

    for (int i = 0; i < 2; i++) {
        a[i] = fixture_lock(f, clients[i], "a");
        b[i] = fixture_lock(f, clients[i], "b");
    }
    assert_result(actor_acquire(one, a[0], first_holds), RELOCK_OK);
    assert_result(actor_lock(two, b[1]), RELOCK_OK);
    actor_begin_lock(one, b[0]);
    assert_result(actor_wait_out(two, a[1], slow_ms(5 * DEADLOCK_MS)), RELOCK_TIMEOUT);
    assert_true(actor_is_busy(one));
    assert_result(actor_unlock(two, b[1]), RELOCK_OK);
    assert_result(actor_result(one), RELOCK_OK);
    assert_result(actor_unlock(one, b[0]), RELOCK_OK);
    assert_result(actor_unlock(one, a[0]), result_of_first);
    assert_int_equal(stats_of(clients[0]).deadlocks + stats_of(clients[1]).deadlocks, 0);
}

static void a_fixed_lease_ends_the_chain(void **state)
{
    play_two(*state, &(struct relock_how){.lease_ms = 60000}, DEADLOCK_MS, RELOCK_OK);
}

static void a_client_may_stay_out_of_it(void **state)
{
    play_two(*state, &(struct relock_how){0}, RELOCK_FOREVER, RELOCK_OK);
}

/* The key of the hash is that of a client that does not exist. */
static void a_hold_of_another_library_ends_the_chain(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = ring_client(f, 0, DEADLOCK_MS);
    struct relock_lock *mine = fixture_lock(f, client, "mine");
    struct relock_lock *foreign = kind_lock(f, client, "foreign");

    assert_result(relock_lock(mine), RELOCK_OK);
    assert_true(kind_peer_lock(f, "foreign"));
    assert_result(fixture_timedlock(foreign, (int64_t)slow_ms(4 * DEADLOCK_MS)), RELOCK_TIMEOUT);
    assert_true(kind_peer_unlock(f, "foreign"));
    assert_result(relock_unlock(mine), RELOCK_OK);
    assert_int_equal(stats_of(client).deadlocks, 0);
    forget_counters(f->probe);
    assert_true(wait_for_no_keys(f->probe));
}

/* It ends by itself before a look could prove it: nobody is refused. */
static void a_cycle_that_dissolves_is_none(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_of_clients(f, 2);

    actor_begin_lock(ring.actors[0], ring.wants[0]);
    assert_result(actor_wait_out(ring.actors[1], ring.wants[1], DEADLOCK_MS / 2), RELOCK_TIMEOUT);
    let_pass(2 * DEADLOCK_MS);
    assert_true(actor_is_busy(ring.actors[0]));
    ring_unwind(&ring, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(stats_of(ring.clients[i]).deadlocks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(one_of_two_clients_is_refused),
        SERVER_TEST(one_of_three_clients_is_refused),
        SERVER_TEST(one_of_four_clients_is_refused),
        SERVER_TEST(the_log_names_the_locks_and_clients_of_the_cycle),
        SERVER_TEST(owners_of_one_client_are_followed_in_its_memory),
        SERVER_TEST(calls_without_a_thread_take_part),
        SERVER_TEST(a_writer_waits_for_each_of_the_readers),
        SERVER_TEST(an_owner_takes_part_again_with_a_later_lock),
        SERVER_TEST(a_plain_lock_that_comes_later_takes_part),
        SERVER_TEST(a_fixed_lease_ends_the_chain),
        SERVER_TEST(a_client_may_stay_out_of_it),
        KINDS_TEST(a_hold_of_another_library_ends_the_chain),
        SERVER_TEST(a_cycle_that_dissolves_is_none),
    };

    return SERVER_TESTS_RUN(tests);
}
