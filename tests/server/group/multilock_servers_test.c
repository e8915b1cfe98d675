/* Multi locks: servers that are down, hang or refuse while one is taken or held. */
#include "support/actor.h"
#include "support/multi.h"

#include <stdatomic.h>

/* Both outlive a second in which a machine stands still. */
#define LEASE_MS 2000
#define COMMAND_MS 1300

/*
 * A failure of other libraries: one server is down, the call throws, and the locks on the servers
 * before it stay until their leases end.
 */
static void a_server_that_is_down_leaves_nothing_on_the_others(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.command_timeout_ms = slow_ms(COMMAND_MS)};

    for (size_t down = 0; down < 3; down++) {
        struct spread s = spread_of(f, &options);
        struct relock_grant grant;

        server_kill(spread_server(f, down));
        log_clear(f->log);
        assert_result(relock_acquire(s.all, NULL, &grant), RELOCK_E_CONN);
        assert_string_equal(grant.failed_member, spread_names[down]);
        assert_int_equal(grant.hold_count, 0);
        /* of the member and of the whole */
        assert_true(log_wait_n(f->log, "not acquired", 2, SOON_MS));
        for (size_t i = 0; i < 3; i++)
            if (i != down)
                assert_true(wait_for_no_keys(spread_probe(f, i)));
        assert_result(relock_check(s.all, 0, NULL), RELOCK_NOT_OWNER);

        server_restart(spread_server(f, down));
        assert_result(relock_timedlock(s.all, SOON_MS), RELOCK_OK);
        assert_result(relock_unlock(s.all), RELOCK_OK);
        fixture_free_lock(f, s.all);
        for (size_t i = 0; i < 3; i++) {
            fixture_free_lock(f, s.locks[i]);
            fixture_free_client(f, s.clients[i]);
        }
    }
}

/*
 * A failure of other libraries: the unlock throws at the first server that is down, and the servers
 * behind it keep the lock. Here each server gets its release, and the delays of hanging servers do
 * not add up.
 */
static void every_reachable_server_gets_the_release_though_some_are_unreachable(void **state)
{
    struct fixture *f = *state;
    struct spread s =
        spread_of(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(30000),
                                              .command_timeout_ms = slow_ms(COMMAND_MS)});
    uint64_t began_ms;

    for (size_t up = 0; up < 3; up++) {
        assert_result(relock_timedlock(s.all, SOON_MS), RELOCK_OK);
        for (size_t i = 0; i < 3; i++)
            if (i != up)
                server_pause(spread_server(f, i));
        began_ms = now_ms();
        assert_result(relock_unlock(s.all), RELOCK_E_CONN);
        assert_no_later(now_ms() - began_ms, slow_ms(2 * COMMAND_MS));
        assert_result(relock_unlock(s.all), RELOCK_NOT_OWNER);
        assert_true(probe_wait_no_key(spread_probe(f, up), spread_names[up], SOON_MS));
        for (size_t i = 0; i < 3; i++)
            server_resume(spread_server(f, i));
    }
}

/* The first server hangs, too, once it has granted its member. */
static void a_try_ends_in_time_though_the_release_of_a_member_hangs(void **state)
{
    struct fixture *f = *state;
    struct spread s = spread_of(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(30000),
                                                            .command_timeout_ms = COMMAND_MS,
                                                            .release_timeout_ms = slow_ms(30000)});
    struct actor *actor = actor_start();
    uint64_t began_ms;

    server_pause(spread_server(f, 2));
    began_ms = now_ms();
    actor_begin_acquire(actor, s.all, &(struct relock_how){0});
    while (probe_n_keys(spread_probe(f, 0)) == 0 && actor_is_busy(actor))
        let_pass(1);
    server_pause(spread_server(f, 0));
    assert_result(actor_result(actor), RELOCK_E_CONN);
    assert_no_later(now_ms() - began_ms, slow_ms(10 * COMMAND_MS));
    server_resume(spread_server(f, 0));
    server_resume(spread_server(f, 2));
    for (size_t i = 0; i < 3; i++)
        assert_true(probe_wait_no_key(spread_probe(f, i), spread_names[i], SOON_MS));
}

/*
 * A failure of other libraries: one thread renews all locks, one server after the other, and waits
 * for each. A server that hangs ends the whole, in time, and nothing else.
 */
static void a_server_that_hangs_delays_no_renewal_elsewhere(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.watchdog_timeout_ms = slow_ms(LEASE_MS),
                                     .command_timeout_ms = slow_ms(3 * LEASE_MS)};
    struct spread s = spread_of(f, &options);
    struct relock_lock *other = fixture_multi(f, fixture_lock(f, s.clients[0], "x"),
                                              fixture_lock(f, s.clients[2], "y"), NULL);
    uint64_t until_ms;

    assert_result(relock_lock(s.all), RELOCK_OK);
    assert_result(relock_lock(other), RELOCK_OK);
    server_pause(beside_server(0));
    until_ms = deadline_in(LEASE_MS * 5 / 4);
    while (now_ms() < until_ms) {
        assert_true(relock_valid_ms(other) > 0);
        assert_true(relock_valid_ms(s.locks[0]) > 0);
        let_pass(10);
    }
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_int_equal(losses_count(f->losses), 1);
    assert_string_equal(losses_get(f->losses, 0).name, "b");
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_EXPIRED);
    assert_result(relock_unlock(s.all), RELOCK_LOST);
    assert_int_equal(probe_int(f->probe, "EXISTS a"), 0);
    assert_int_equal(probe_int(beside_probe(1), "EXISTS c"), 0);
    assert_result(relock_unlock(other), RELOCK_OK);
    server_resume(beside_server(0));
}

static void a_member_without_its_replicas_is_not_held_nor_are_the_others(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *careful =
        fixture_client(f, &(struct relock_options){.min_replicas = 1, .replica_timeout_ms = 20});
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, careful, "b");
    struct relock_lock *both = fixture_multi(f, a, b, NULL);
    struct relock_grant grant;

    assert_result(relock_acquire(both, NULL, &grant), RELOCK_E_REPLICAS);
    assert_string_equal(grant.failed_member, "b");
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_true(log_wait_n(f->log, "a: owner", 1, SOON_MS)); /* the whole has that name */
    assert_true(log_wait_n(f->log, "b: this member", 1, SOON_MS));
}

/* A callback that is still running when the last level of its hold is released. */
struct last_words {
    struct relock_lock *lock;
    atomic_bool has_begun, is_over;
};

static void outlive_the_level(const struct relock_lost *what, void *arg)
{
    struct last_words *words = arg;
    uint64_t until_ms = deadline_in(SOON_MS);

    atomic_store(&words->has_begun, true);
    while (relock_check(words->lock, what->owner, NULL) == RELOCK_LOST && now_ms() < until_ms)
        let_pass(1);
    let_pass(100);
    atomic_store(&words->is_over, true);
}

static bool has_begun(void *arg)
{
    struct last_words *words = arg;

    return atomic_load(&words->has_begun);
}

/* The owner acquired the member alone first, so that callback reports the loss. */
static void no_callback_outlives_the_release_while_a_server_is_unreachable(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.watchdog_timeout_ms = slow_ms(LEASE_MS),
                                     .command_timeout_ms = slow_ms(COMMAND_MS)};
    struct spread s = spread_of(f, &options);
    struct last_words words = {.lock = s.locks[0]};
    struct relock_how how = {.on_lost = outlive_the_level, .arg = &words};

    assert_result(relock_acquire(s.locks[0], &how, NULL), RELOCK_OK);
    assert_result(relock_lock(s.all), RELOCK_OK);
    assert_result(relock_unlock(s.locks[0]), RELOCK_OK);
    server_pause(beside_server(1));
    assert_int_equal(probe_int(f->probe, "DEL a"), 1);
    assert_true(wait_until(has_begun, &words, SOON_MS));

    assert_result(relock_unlock(s.all), RELOCK_LOST);
    assert_true(atomic_load(&words.is_over));
    server_resume(beside_server(1));
    assert_true(probe_wait_no_key(beside_probe(1), "c", SOON_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MULTI_TEST(a_server_that_is_down_leaves_nothing_on_the_others),
        MULTI_TEST(every_reachable_server_gets_the_release_though_some_are_unreachable),
        MULTI_TEST(a_try_ends_in_time_though_the_release_of_a_member_hangs),
        MULTI_TEST(a_server_that_hangs_delays_no_renewal_elsewhere),
        MULTI_TEST(a_member_without_its_replicas_is_not_held_nor_are_the_others),
        MULTI_TEST(no_callback_outlives_the_release_while_a_server_is_unreachable),
    };

    return MULTI_TESTS_RUN(tests);
}
