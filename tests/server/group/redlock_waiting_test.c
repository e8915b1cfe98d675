/* Red locks: waiters, the events that wake them, and the ends of waits. */
#include "support/actor.h"
#include "support/child.h"
#include "support/red.h"

#include <stdlib.h>

#define COMMAND_MS 1500 /* outlives a second in which a machine stands still */
#define SHORT_MS 2000   /* the remaining lease: longer than the events at the start of a wait */
#define N_TRIES 5

/* Waiters retry only when they are woken. */
static struct red patient_red(struct servers *s)
{
    struct red red = red_new_by_proxy(s, &(struct relock_options){.recheck_ms = NEVER_MS});

    red_settle(s, &red, s->n);
    return red;
}

/* ---- woken --------------------------------------------------------------------------------- */

static void a_waiter_is_woken_by_the_release_and_sends_little(void **state)
{
    struct servers *s = *state;
    struct red a = patient_red(s), b = patient_red(s);
    struct actor *actor = actor_start();
    long long calls;

    for (int i = 0; i < 5; i++) {
        assert_result(relock_lock(a.lock), RELOCK_OK);
        actor_begin_lock(actor, b.lock);
        red_assert_sleeps(s, &b, actor);
        calls = probe_script_calls(s->probe[1]);
        red_unlock(&a);
        assert_result(actor_result(actor), RELOCK_OK);
        assert_true(probe_script_calls(s->probe[1]) - calls < 30); /* mostly 3 */
        red_unlock_by(actor, &b);
    }
}

/* Whether it slept until it heard that server. A last try for another reason may be late, and find
 * the lock free. */
static bool sleeps_until_it_hears(struct servers *s, struct red *red, struct actor *actor,
                                  size_t heard)
{
    bool slept;

    red_strangers_take(s, 0, s->n);
    actor_begin_lock(actor, red->lock);
    red_assert_sleeps(s, red, actor);
    red_delete_keys(s, 0, s->n);
    let_pass(50);
    slept = actor_is_busy(actor);
    red_publish_release(s, heard);
    red_assert_gets_in(actor, red);
    assert_true(red_wait_quiet(s)); /* late votes have been given back */
    assert_true(red_wait_keys(s, 0));
    return slept;
}

static void a_message_from_any_server_wakes(void **state)
{
    struct servers *s = *state;
    struct red red = patient_red(s);
    struct actor *actor = actor_start();

    for (size_t heard = 0; heard < s->n; heard++) {
        bool slept = false;

        for (int i = 0; i < N_TRIES && !slept; i++)
            slept = sleeps_until_it_hears(s, &red, actor, heard);
        assert_true(slept);
    }
}

static void a_waiter_retries_when_the_blocking_leases_end(void **state)
{
    struct servers *s = *state;
    struct red red = patient_red(s);

    red_strangers_take(s, 0, s->n);
    for (size_t i = 0; i < s->n; i++)
        assert_int_equal(
            probe_int(s->probe[i], "PEXPIRE " RED_NAME " %d", i < 2 ? NEVER_MS : SHORT_MS), 1);
    /* A quorum says no before the others, whose leases are shorter, have said anything. */
    for (size_t i = 3; i < 5; i++)
        proxy_delay(s->proxy[i], 50);
    assert_result(relock_timedlock(red.lock, slow_ms(SOON_MS)), RELOCK_OK);
    red_unlock(&red);
    assert_true(red_wait_keys(s, 2));
    red_delete_keys(s, 0, 2);
}

/* A quorum can refuse though one server is down: the refusal of the slowest counts. */
static void a_lock_that_is_held_is_busy_though_a_server_is_down_and_others_are_slow(void **state)
{
    struct servers *s = *state;
    struct red red = patient_red(s);

    red_strangers_take(s, 0, s->n);
    server_kill(s->server[2]);
    for (size_t i = 3; i < 5; i++)
        proxy_delay(s->proxy[i], 50);
    assert_result(relock_trylock(red.lock), RELOCK_BUSY);
    assert_result(relock_timedlock(red.lock, slow_ms(SHORT_MS)), RELOCK_TIMEOUT);
    servers_up(s); /* the third without its key */
    red_delete_keys(s, 0, 2);
    red_delete_keys(s, 3, s->n);
}

static void local_waiters_are_served_first_come_first_served(void **state)
{
    enum { N = 4 };
    struct servers *s = *state;
    struct red red = patient_red(s);
    struct actor *actors[N];

    assert_result(relock_lock(red.lock), RELOCK_OK);
    for (int i = 0; i < N; i++) {
        actors[i] = actor_start();
        actor_begin_lock(actors[i], red.lock);
        assert_true(wait_for_waiters(red.clients[0], (uint64_t)i + 1));
    }
    assert_result(relock_unlock(red.lock), RELOCK_OK);
    for (int i = 0; i < N; i++) {
        assert_result(actor_result(actors[i]), RELOCK_OK);
        for (int later = i + 1; later < N; later++)
            assert_true(actor_is_busy(actors[later]));
        assert_result(actor_unlock(actors[i], red.lock), RELOCK_OK);
    }
}

/* ---- ended --------------------------------------------------------------------------------- */

static void a_wait_ends_at_its_deadline_and_by_its_cancel(void **state)
{
    struct servers *s = *state;
    struct red a = patient_red(s), b = patient_red(s);
    struct relock_cancel *cancel;
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *actor = actor_start();
    uint64_t began_ms = now_ms();

    assert_result(relock_lock(a.lock), RELOCK_OK);
    assert_result(fixture_timedlock(b.lock, 100), RELOCK_TIMEOUT);
    assert_true(now_ms() - began_ms >= 100 - 1);
    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    how.cancel = cancel;
    actor_begin_acquire(actor, b.lock, &how);
    red_assert_sleeps(s, &b, actor);
    relock_cancel_fire(cancel);
    assert_result(actor_result(actor), RELOCK_CANCELLED);
    assert_result(actor_acquire(actor, b.lock, &how), RELOCK_CANCELLED);
    assert_result(relock_unlock(a.lock), RELOCK_OK);
    assert_true(red_wait_keys(s, 0));
    cancel = relock_cancel_free(cancel);
}

static void a_cancel_ends_a_wait_for_unreachable_servers(void **state)
{
    struct servers *s = *state;
    struct relock_options options = {.command_timeout_ms = NEVER_MS};
    struct red red = red_new(s, &options);
    struct relock_cancel *cancel;
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *actor = actor_start();

    red_settle(s, &red, s->n);
    for (size_t i = 0; i < 3; i++)
        server_pause(s->server[i]);
    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    how.cancel = cancel;
    actor_begin_acquire(actor, red.lock, &how);
    let_pass(100);
    assert_true(actor_is_busy(actor));
    relock_cancel_fire(cancel);
    assert_result(actor_result(actor), RELOCK_CANCELLED);
    servers_up(s);
    assert_true(red_wait_keys(s, 0));
    cancel = relock_cancel_free(cancel);
}

static void the_shutdown_of_the_first_members_client_ends_a_wait(void **state)
{
    struct servers *s = *state;
    struct red a = patient_red(s), b = patient_red(s);
    struct actor *actor = actor_start();

    assert_result(relock_lock(a.lock), RELOCK_OK);
    actor_begin_lock(actor, b.lock);
    red_assert_sleeps(s, &b, actor);
    relock_client_shutdown(b.clients[0]);
    assert_result(actor_result(actor), RELOCK_E_CLOSED);
    assert_result(actor_trylock(actor, b.lock), RELOCK_E_CLOSED);
    assert_result(relock_unlock(a.lock), RELOCK_OK);
}

static void a_wait_without_a_reachable_majority_fails_after_the_command_timeout(void **state)
{
    struct servers *s = *state;
    struct red a = patient_red(s);
    struct relock_options options = {.command_timeout_ms = slow_ms(COMMAND_MS)};
    struct red b = red_new(s, &options);
    struct actor *actor = actor_start();

    red_settle(s, &b, s->n);
    assert_result(relock_lock(a.lock), RELOCK_OK);
    actor_begin_lock(actor, b.lock);
    red_assert_sleeps(s, &b, actor);
    for (size_t i = 0; i < 3; i++)
        server_kill(s->server[i]);
    assert_result(actor_result(actor), RELOCK_E_CONN);
    servers_up(s);
    (void)relock_unlock(a.lock);
    assert_true(red_wait_keys(s, 0));
}

/* ---- another process ----------------------------------------------------------------------- */

struct turns {
    struct servers *s;
    int n;
};

/* As by red_unlock(). */
static bool is_released(int r)
{
    return r == RELOCK_OK || r == RELOCK_E_CONN;
}

static int take_turns(struct child *parent, void *arg)
{
    struct turns *turns = arg;
    struct relock_client *clients[SERVERS_MAX];
    struct relock_lock *members[SERVERS_MAX];
    struct relock_lock *lock;
    size_t n = turns->s->n;

    for (size_t i = 0; i < n; i++) {
        clients[i] =
            child_client(turns->s->f, &(struct relock_options){.url = turns->s->server[i]->unix_url,
                                                               .flags = RELOCK_LAZY});
        child_must(relock_lock_new(clients[i], RED_NAME, &members[i]) == RELOCK_OK);
    }
    child_must(relock_redlock_new(members, n, &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK && is_released(relock_unlock(lock)));
    child_must(child_send(parent, 0) && child_await(parent));
    for (int i = 0; i < turns->n; i++) {
        child_must(relock_lock(lock) == RELOCK_OK);
        let_pass(5);
        child_must(is_released(relock_unlock(lock)));
        child_must(child_send(parent, i));
    }
    lock = relock_lock_free(lock);
    for (size_t i = 0; i < n; i++) {
        relock_lock_free(members[i]);
        relock_client_free(clients[i]);
    }
    return EXIT_SUCCESS;
}

/* Each client gets its turn again and again. */
static void two_processes_take_turns(void **state)
{
    enum { N = 20, MOST = 60 }; /* turns of the other */
    struct servers *s = *state;
    struct turns turns = {s, N};
    struct child *child;
    struct red red;
    int n_taken = 0;
    int64_t n;

    if (!child_can_have_threads())
        skip();
    child = child_start(take_turns, &turns);
    assert_true(child_await(child));
    red = red_new(s, NULL);
    red_settle(s, &red, s->n);
    assert_true(child_send(child, 0));
    do {
        assert_result(relock_lock(red.lock), RELOCK_OK);
        let_pass(5);
        red_unlock(&red);
        assert_true(++n_taken <= MOST * N);
    } while (child_receive_within(child, &n, 0) ? n < N - 1 : true);
    print_message("turns: %d to %d\n", n_taken, N);
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_waiter_is_woken_by_the_release_and_sends_little),
        SERVERS_TEST(a_message_from_any_server_wakes),
        SERVERS_TEST(a_waiter_retries_when_the_blocking_leases_end),
        SERVERS_TEST(a_lock_that_is_held_is_busy_though_a_server_is_down_and_others_are_slow),
        SERVERS_TEST(local_waiters_are_served_first_come_first_served),
        SERVERS_TEST(a_wait_ends_at_its_deadline_and_by_its_cancel),
        SERVERS_TEST(a_cancel_ends_a_wait_for_unreachable_servers),
        SERVERS_TEST(the_shutdown_of_the_first_members_client_ends_a_wait),
        SERVERS_TEST(a_wait_without_a_reachable_majority_fails_after_the_command_timeout),
        SERVERS_TEST(two_processes_take_turns),
    };
    return SERVERS_TESTS_RUN(tests);
}
