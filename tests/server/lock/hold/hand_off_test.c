/* A hold is handed off inside the process without asking Redis, and other processes get their
 * turns.
 */
#include "support/actor.h"
#include "support/kinds.h"
#include "support/listener.h"
#include "support/traffic.h"

#include <stdatomic.h>
#include <stdio.h>

#define CHANNEL "redisson_lock__channel:{orders}"
#define N_THREADS 8
#define N_ROUNDS 300
#define LONG_MS 60000 /* hand-off budget */
#define LEASE_MS 2000 /* outlives a second in which a machine stands still */

struct crowd {
    struct relock_lock *lock;
    uint64_t until_ms;
    atomic_int n; /* acquisitions */
};

/* On a machine so slow that it takes seconds, fewer are enough. */
static int lock_many_times(void *arg)
{
    struct crowd *crowd = arg;
    int r = RELOCK_OK;

    for (int i = 0; i < N_ROUNDS && (i == 0 || now_ms() < crowd->until_ms) && r == RELOCK_OK; i++) {
        r = relock_lock(crowd->lock);
        if (r == RELOCK_OK) {
            atomic_fetch_add(&crowd->n, 1);
            r = relock_unlock(crowd->lock);
        }
    }
    return r;
}

static void redis_sees_far_fewer_commands_than_acquisitions(void **state)
{
    struct fixture *f = *state;
    /* So much that it lasts for some turns, however slowly threads are woken. */
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.handoff_ms = slow_ms(50)});
    struct crowd crowd = {.lock = fixture_lock(f, client, "orders"), .until_ms = deadline_in(5000)};
    struct actor *actors[N_THREADS];
    long long before = probe_script_calls(f->probe), calls;
    struct relock_stats stats;

    actors_begin(actors, N_THREADS, lock_many_times, &crowd);
    for (int i = 0; i < N_THREADS; i++)
        assert_result(actor_result_within(actors[i], 3 * (uint64_t)SOON_MS), RELOCK_OK);

    calls = probe_script_calls(f->probe) - before;
    stats = stats_of(client);
    print_message("%d acquisitions: %lld script calls, %d handed off\n", crowd.n, calls,
                  (int)stats.passed_on);
    assert_int_equal(stats.acquired + stats.passed_on, crowd.n);
    assert_true(stats.passed_on > 0);
    assert_true(calls < crowd.n);
}

/* Three threads wait in turn for a hold, whose entry in Redis stays the same. */
static void a_hold_is_handed_off_as_it_is(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.handoff_ms = LONG_MS});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct listener *listener = listener_open(f->server->socket, CHANNEL);
    const char *setter = kind_now()->is_string ? "set" : "hset"; /* of a level */
    struct actor *waiting[3];
    char holder[128];
    long long n_set;

    assert_result(relock_lock(lock), RELOCK_OK);
    snprintf(holder, sizeof(holder), "%s", kind_holder(f, "orders"));
    for (int i = 0; i < 3; i++) {
        waiting[i] = actor_start();
        actor_begin_acquire(waiting[i], lock, &(struct relock_how){.wait_ms = RELOCK_FOREVER});
        assert_true(wait_for_waiters(client, (uint64_t)i + 1));
    }

    n_set = probe_calls(f->probe, setter);
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (int i = 0; i < 3; i++) {
        assert_result(actor_result(waiting[i]), RELOCK_OK);
        assert_int_equal(probe_calls(f->probe, setter), n_set);
        assert_int_equal(actor_grant(waiting[i]).hold_count, 1);
        assert_true(actor_grant(waiting[i]).valid_ms > 0);
        assert_result(actor_check(waiting[i], lock), RELOCK_OK);
        assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);
        assert_string_equal(kind_holder(f, "orders"), holder);
        assert_true(kind_has_levels(f, "orders", 1));
        assert_true(listener_hears_nothing(listener, 5));
        assert_result(actor_unlock(waiting[i], lock), RELOCK_OK);
    }
    if (kind_now() == &kinds[KIND_REENTRANT])
        assert_true(listener_hears(listener, "0", SOON_MS));
    assert_int_equal(stats_of(client).passed_on, 3);
    assert_int_equal(stats_of(client).acquired, 1);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    listener_close(listener);
}

static void the_next_hold_of_the_giver_has_another_field(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.handoff_ms = LONG_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *other = actor_start();
    char field[128];

    assert_result(relock_lock(lock), RELOCK_OK);
    snprintf(field, sizeof(field), "%s", probe_only_field(f->probe, "orders"));
    actor_begin_lock(other, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(other), RELOCK_OK);
    assert_string_equal(probe_only_field(f->probe, "orders"), field);
    assert_result(actor_unlock(other, lock), RELOCK_OK);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_string_not_equal(probe_only_field(f->probe, "orders"), field);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_handed_off_hold_is_renewed_for_its_new_owner(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.handoff_ms = LONG_MS,
                                                   .watchdog_timeout_ms = slow_ms(LEASE_MS)});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct losses *losses = losses_new();
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .on_lost = losses_write, .arg = losses};
    struct actor *other = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_acquire(other, lock, &how);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(other), RELOCK_OK);
    assert_int_equal(stats_of(client).passed_on, 1);

    let_pass(slow_ms(LEASE_MS * 5 / 4));
    assert_result(actor_check(other, lock), RELOCK_OK);
    probe_int(f->probe, "DEL orders"); /* and the new owner learns of the loss */
    assert_true(losses_wait(losses, 1, SOON_MS));
    assert_true(losses_get(losses, 0).owner == actor_grant(other).owner);
    assert_result(actor_unlock(other, lock), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 0);
    losses_free(losses);
}

/* Otherwise the faster of two processes could win each time. A listener is another process. */
static void a_process_that_had_its_turn_lets_another_go_first(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.handoff_ms = 1, .recheck_ms = NEVER_MS});
    struct listener *another = listener_open(f->server->socket, CHANNEL);

    traffic_assert_pauses(client, fixture_lock(f, client, "orders"),
                          &(struct relock_how){.wait_ms = RELOCK_FOREVER});
    listener_close(another);
}

/* A spin lock has no listeners, so the library cannot know whether another process waits. */
static void a_spin_lock_is_free_for_a_moment_after_its_turn(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &(struct relock_options){.handoff_ms = 1});

    traffic_assert_pauses(client, fixture_lock_of(f, client, "orders", relock_spinlock_new),
                          &(struct relock_how){.wait_ms = RELOCK_FOREVER});
}

static void a_fixed_lease_is_not_handed_off(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.handoff_ms = LONG_MS, .recheck_ms = NEVER_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_how fixed = {.wait_ms = RELOCK_FOREVER, .lease_ms = 25000};
    struct actor *other = actor_start();

    /* It has one, and */
    assert_result(relock_acquire(lock, &fixed, NULL), RELOCK_OK);
    actor_begin_lock(other, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(other, lock);

    /* the waiter asks for one. */
    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_acquire(other, lock, &fixed);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(other, lock);
    assert_int_equal(stats_of(client).passed_on, 0);
}

/* Eight threads of one client never leave the lock free by themselves. */
static void another_client_gets_its_turns(void **state)
{
    struct fixture *f = *state;
    struct relock_client *busy = fixture_client(f, NULL);
    struct relock_lock *theirs = kind_lock(f, fixture_client(f, NULL), "orders");
    struct traffic traffic;

    traffic_begin(&traffic, busy, kind_lock(f, busy, "orders"));
    for (int i = 0; i < 10; i++) {
        let_pass(50); /* the threads are taking turns again */
        assert_result(relock_timedlock(theirs, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
        assert_result(relock_unlock(theirs), RELOCK_OK);
    }
    traffic_end(&traffic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(redis_sees_far_fewer_commands_than_acquisitions),
        KINDS_TEST_OF(a_hold_is_handed_off_as_it_is, reentrant),
        KINDS_TEST_OF(a_hold_is_handed_off_as_it_is, spin),
        KINDS_TEST_OF(a_hold_is_handed_off_as_it_is, plain),
        SERVER_TEST(the_next_hold_of_the_giver_has_another_field),
        SERVER_TEST(a_handed_off_hold_is_renewed_for_its_new_owner),
        SERVER_TEST(a_process_that_had_its_turn_lets_another_go_first),
        SERVER_TEST(a_spin_lock_is_free_for_a_moment_after_its_turn),
        SERVER_TEST(a_fixed_lease_is_not_handed_off),
        KINDS_TEST_OF(another_client_gets_its_turns, reentrant),
        KINDS_TEST_OF(another_client_gets_its_turns, spin),
    };

    return SERVER_TESTS_RUN(tests);
}
