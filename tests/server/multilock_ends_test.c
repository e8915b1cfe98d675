/* Multi locks: servers, clients, threads and processes that end while one is taken or held. */
#include "support/actor.h"
#include "support/child.h"
#include "support/multi.h"
#include "support/peer.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Both outlive a second in which a machine stands still. */
#define LEASE_MS 2000
#define COMMAND_MS 1300

static const char *const names[] = {"a", "b", "c"};

/* One member on each of three servers. */
struct spread {
    struct relock_client *clients[3];
    struct relock_lock *locks[3];
    struct relock_lock *all;
};

static struct spread spread_of(struct fixture *f, const struct relock_options *options)
{
    struct spread s;

    for (size_t i = 0; i < 3; i++) {
        s.clients[i] = i == 0 ? fixture_client(f, options) : beside_client(f, i - 1, options);
        s.locks[i] = fixture_lock(f, s.clients[i], names[i]);
    }
    s.all = fixture_multi(f, s.locks[0], s.locks[1], s.locks[2], NULL);
    return s;
}

static struct server *server_of(struct fixture *f, size_t nth)
{
    return nth == 0 ? f->server : beside_server(nth - 1);
}

static struct probe *probe_of(struct fixture *f, size_t nth)
{
    return nth == 0 ? f->probe : beside_probe(nth - 1);
}

/* ---- servers ------------------------------------------------------------------------------- */

/*
 * A failure of other libraries: one of the servers is down, the call throws, and what it had set on
 * those before it stays for the whole lease.
 */
static void a_server_that_is_down_leaves_nothing_on_the_others(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.command_timeout_ms = slow_ms(COMMAND_MS)};

    for (size_t down = 0; down < 3; down++) {
        struct spread s = spread_of(f, &options);
        struct relock_grant grant;

        server_kill(server_of(f, down));
        log_clear(f->log);
        assert_result(relock_acquire(s.all, NULL, &grant), RELOCK_E_CONN);
        assert_string_equal(grant.failed_member, names[down]);
        assert_int_equal(grant.hold_count, 0);
        /* of the member and of the whole */
        assert_true(log_wait_n(f->log, "not acquired", 2, SOON_MS));
        for (size_t i = 0; i < 3; i++)
            if (i != down)
                assert_int_equal(probe_n_keys(probe_of(f, i)), 0);
        assert_result(relock_check(s.all, 0, NULL), RELOCK_NOT_OWNER);

        server_restart(server_of(f, down));
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
 * A failure of other libraries: the unlock throws at the first server that is down, and those
 * behind it keep the lock. Each of them is told here, and servers that hang do not add up.
 */
static void all_are_told_of_the_release_though_some_are_gone(void **state)
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
                server_pause(server_of(f, i));
        began_ms = now_ms();
        assert_result(relock_unlock(s.all), RELOCK_E_CONN);
        assert_true(now_ms() - began_ms < slow_ms(2 * COMMAND_MS));
        assert_result(relock_unlock(s.all), RELOCK_NOT_OWNER);
        assert_true(probe_wait_no_key(probe_of(f, up), names[up], SOON_MS));
        for (size_t i = 0; i < 3; i++)
            server_resume(server_of(f, i));
    }
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

/* ---- callbacks ------------------------------------------------------------------------------ */

/* A callback that is still running when the last level of its hold is given up. */
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

/* The owner had the member for itself first, so its loss is told to that callback. */
static void a_server_that_is_away_lets_no_callback_outlive_the_release(void **state)
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

/* ---- clients ------------------------------------------------------------------------------- */

static void freeing_its_client_releases_the_members_everywhere(void **state)
{
    struct fixture *f = *state;
    struct spread s = spread_of(f, NULL);
    struct relock_how named = {.owner = relock_owner_new()};
    struct relock_lock *two =
        fixture_multi(f, fixture_lock(f, s.clients[0], "x"), s.locks[1], NULL);
    struct actor *other = actor_start();

    assert_result(relock_acquire(s.all, &named, NULL), RELOCK_OK);
    assert_result(relock_acquire(s.all, &named, NULL), RELOCK_OK);
    assert_result(relock_acquire(two, &named, NULL), RELOCK_OK);
    assert_result(relock_acquire(s.locks[2], &named, NULL), RELOCK_OK);
    fixture_free_client(f, s.clients[0]);

    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_true(probe_wait_no_key(beside_probe(0), "b", SOON_MS));
    assert_result(relock_check(s.all, named.owner, NULL), RELOCK_E_CLOSED);
    assert_result(relock_release(s.all, named.owner), RELOCK_E_CLOSED);
    assert_int_equal(losses_count(f->losses), 0);

    /* What the owner had for itself is its own. */
    assert_result(relock_check(s.locks[2], named.owner, NULL), RELOCK_OK);
    assert_result(actor_trylock(other, s.locks[2]), RELOCK_BUSY);
    assert_result(relock_release(s.locks[2], named.owner), RELOCK_OK);
    assert_int_equal(probe_n_keys(beside_probe(1)), 0);
}

static void freeing_its_client_ends_a_lost_one_too(void **state)
{
    struct fixture *f = *state;
    struct spread s =
        spread_of(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)});

    assert_result(relock_lock(s.all), RELOCK_OK);
    assert_int_equal(probe_int(beside_probe(0), "DEL b"), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    fixture_free_client(f, s.clients[0]);
    assert_true(probe_wait_no_key(beside_probe(1), "c", SOON_MS));
    assert_result(relock_check(s.locks[2], 0, NULL), RELOCK_NOT_OWNER);
    assert_int_equal(losses_count(f->losses), 1);
}

/* Takes and gives up until its clients are gone. */
static int go_on_to_the_end(void *arg)
{
    struct relock_lock *lock = arg;
    int r;

    do {
        r = relock_timedlock(lock, SOON_MS);
        if (r == RELOCK_OK)
            (void)relock_check(lock, 0, NULL);
        if (r == RELOCK_OK || r == RELOCK_LOST)
            r = relock_unlock(lock);
    } while (r == RELOCK_OK || r == RELOCK_LOST);
    return r;
}

static int free_client(void *arg)
{
    relock_client_free(arg);
    return RELOCK_OK;
}

/* Both at once, while their locks are taken, waited for, looked at and given up. */
static void clients_are_freed_at_any_moment(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = fixture_options(f, NULL);
    struct actor *busy[3], *freeing[2];

    for (int i = 0; i < 3; i++)
        busy[i] = actor_start();
    for (int i = 0; i < 2; i++)
        freeing[i] = actor_start();
    for (unsigned round = 0; round < 20; round++) {
        struct relock_client *clients[2];
        struct relock_lock *locks[2];
        struct relock_lock *both;

        for (size_t i = 0; i < 2; i++) {
            assert_result(relock_client_new(&options, &clients[i]), RELOCK_OK);
            assert_result(relock_lock_new(clients[i], names[i], &locks[i]), RELOCK_OK);
        }
        assert_result(relock_multilock_new(locks, 2, &both), RELOCK_OK);
        for (int i = 0; i < 3; i++)
            actor_begin(busy[i], go_on_to_the_end, both);
        let_pass(round % 5);
        for (size_t i = 0; i < 2; i++)
            actor_begin(freeing[i], free_client, clients[(i + round) % 2]);
        for (int i = 0; i < 2; i++)
            assert_result(actor_result(freeing[i]), RELOCK_OK);
        for (int i = 0; i < 3; i++)
            assert_result(actor_result(busy[i]), RELOCK_E_CLOSED);
        assert_int_equal(probe_n_keys(f->probe), 0);
        for (size_t i = 0; i < 2; i++)
            relock_lock_free(locks[i]);
        relock_lock_free(both);
    }
}

/* ---- handles ------------------------------------------------------------------------------- */

static void handles_are_freed_in_any_order_also_while_it_is_held(void **state)
{
    struct fixture *f = *state;

    for (int order = 0; order < 4; order++) {
        struct spread s = spread_of(f, NULL);
        struct relock_lock *again = NULL;

        assert_result(relock_lock(s.all), RELOCK_OK);
        for (int i = 0; i < 3 && order != 1; i++)
            fixture_free_lock(f, s.locks[i]);
        if (order == 0 || order == 2) {
            assert_result(relock_unlock(s.all), RELOCK_OK);
            fixture_free_lock(f, s.all);
        }
        if (order == 1) {
            /* Whoever makes it again can give it up. */
            fixture_free_lock(f, s.all);
            assert_true(log_wait_n(f->log, "last handle", 1, SOON_MS));
            again = fixture_multi(f, s.locks[1], s.locks[0], s.locks[2], NULL);
            assert_result(relock_check(again, 0, NULL), RELOCK_NOT_OWNER);
            fixture_free_lock(f, again);
            again = fixture_multi(f, s.locks[0], s.locks[2], s.locks[1], NULL);
            assert_result(relock_unlock(again), RELOCK_OK);
        }
        for (int i = 0; i < 3; i++)
            fixture_free_client(f, s.clients[order == 2 ? 2 - i : i]);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(probe_n_keys(probe_of(f, i)), 0);
    }
}

/* ---- threads and processes ----------------------------------------------------------------- */

static void a_thread_that_ends_gives_it_up(void **state)
{
    struct fixture *f = *state;
    struct spread s = spread_of(f, NULL);
    struct actor *careless = actor_start();

    assert_result(actor_lock(careless, s.all), RELOCK_OK);
    assert_result(actor_lock(careless, s.all), RELOCK_OK);
    actor_end(careless);
    for (size_t i = 0; i < 3; i++)
        assert_true(probe_wait_no_key(probe_of(f, i), names[i], SOON_MS));
    assert_true(log_wait(f->log, "thread that ended", SOON_MS));
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_timedlock(s.all, SOON_MS), RELOCK_OK);
    assert_result(relock_unlock(s.all), RELOCK_OK);
}

static int use_in_child(struct child *parent, void *arg)
{
    struct spread *s = arg;
    struct relock_grant grant = {.hold_count = 7};
    struct relock_lock *lock;

    (void)parent;
    child_must(relock_lock(s->all) == RELOCK_E_FORKED);
    child_must(relock_acquire(s->all, NULL, &grant) == RELOCK_E_FORKED);
    child_must(grant.hold_count == 0 && grant.failed_member);
    child_must(relock_check(s->all, 0, &grant) == RELOCK_E_FORKED);
    child_must(relock_extend(s->all, 0, 1000) == RELOCK_E_FORKED);
    child_must(relock_unlock(s->all) == RELOCK_E_FORKED);
    child_must(relock_multilock_new(s->locks, 3, &lock) == RELOCK_E_FORKED);
    child_must(relock_lock_free(s->all) == NULL);
    for (int i = 0; i < 3; i++) {
        child_must(relock_lock_free(s->locks[i]) == NULL);
        child_must(relock_client_free(s->clients[i]) == NULL);
    }
    return EXIT_SUCCESS;
}

static void a_forked_child_leaves_it_alone(void **state)
{
    struct fixture *f = *state;
    struct spread s = spread_of(f, NULL);

    assert_result(relock_lock(s.all), RELOCK_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(child_wait(child_start(use_in_child, &s), SOON_MS), EXIT_SUCCESS);
    assert_true(relock_is_mine(s.all));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(probe_only_value(probe_of(f, i), names[i]), 1);
    assert_result(relock_unlock(s.all), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MULTI_TEST(a_server_that_is_down_leaves_nothing_on_the_others),
        MULTI_TEST(all_are_told_of_the_release_though_some_are_gone),
        MULTI_TEST(a_server_that_hangs_delays_no_renewal_elsewhere),
        MULTI_TEST(a_member_without_its_replicas_is_not_held_nor_are_the_others),
        MULTI_TEST(a_server_that_is_away_lets_no_callback_outlive_the_release),
        MULTI_TEST(freeing_its_client_releases_the_members_everywhere),
        MULTI_TEST(freeing_its_client_ends_a_lost_one_too),
        MULTI_TEST(clients_are_freed_at_any_moment),
        MULTI_TEST(handles_are_freed_in_any_order_also_while_it_is_held),
        MULTI_TEST(a_thread_that_ends_gives_it_up),
        MULTI_TEST(a_forked_child_leaves_it_alone),
    };
    return MULTI_TESTS_RUN(tests);
}
