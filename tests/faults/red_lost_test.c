/* Red locks that are held for long: renewed on all servers, acquired again on servers that lost
 * their data, and lost with the quorum. */
#include "io_thread.h"

#include "support/actor.h"
#include "support/red.h"

#define LEASE_MS 2500
#define LONG_MS 30000
#define MAX_HOLD_MS 2000     /* renewed before it ends */
#define FORGET_LEASE_MS 4000 /* servers restart, and are connected, before it ends */

static struct red red_with_lease(struct servers *s, uint64_t lease_ms)
{
    struct red red = red_new_by_proxy(s, &(struct relock_options){.watchdog_timeout_ms = lease_ms});

    red_settle(s, &red, s->n);
    return red;
}

static struct red red_of(struct servers *s)
{
    return red_with_lease(s, outlast_ms(LEASE_MS));
}

static struct red red_to_be_forgotten(struct servers *s)
{
    return red_with_lease(s, outlast_ms(FORGET_LEASE_MS));
}

static void forget(struct servers *s, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++)
        server_kill(s->server[i]);
    servers_up(s);
}

/* The owner was called back once, and gets RELOCK_LOST until it has released the lock. */
static void assert_lost(struct servers *s, struct red *red, int reason)
{
    struct relock_grant grant;
    struct loss loss;

    assert_true(losses_wait(s->f->losses, 1, SOON_MS));
    loss = losses_get(s->f->losses, 0);
    assert_string_equal(loss.name, RED_NAME);
    assert_int_equal(loss.reason, reason);
    assert_int_equal(loss.hold_count, 1);
    assert_result(relock_check(red->lock, loss.owner, &grant), RELOCK_LOST);
    assert_int_equal(grant.hold_count, 1);
    assert_int_equal(relock_valid_ms(red->lock), 0);
    assert_result(relock_trylock(red->lock), RELOCK_LOST);
    assert_result(relock_extend(red->lock, 0, LONG_MS), RELOCK_LOST);
    assert_result(relock_unlock(red->lock), RELOCK_LOST);
    assert_result(relock_unlock(red->lock), RELOCK_NOT_OWNER);
    assert_int_equal(losses_count(s->f->losses), 1);
    assert_int_equal(stats_of(red->clients[0]).holds, 0);
}

/* Only a command of the owner finds its losses. */
static struct red red_unwatched(struct servers *s)
{
    struct relock_options options = {.watchdog_timeout_ms = LONG_MS, .flags = RELOCK_NO_TRACKING};
    struct red red = red_new(s, &options);

    red_settle(s, &red, s->n);
    return red;
}

/* ---- kept ---------------------------------------------------------------------------------- */

static void a_red_lock_is_renewed_on_every_server(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);

    red_lock_on_all(s, &red);
    for (int i = 0; i < 8; i++) {
        let_pass(outlast_ms(LEASE_MS) / 5);
        assert_true(relock_valid_ms(red.lock) > 0);
        assert_int_equal(red_n_keys(s), s->n);
    }
    assert_int_equal(losses_count(s->f->losses), 0);
    red_unlock(&red);
}

static void a_red_lock_with_a_lease_is_renewed_once_a_level_asks_for_it(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);
    struct relock_how how = {.lease_ms = outlast_ms(LEASE_MS)};

    assert_result(relock_acquire(red.lock, &how, NULL), RELOCK_OK);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    let_pass(outlast_ms(LEASE_MS) * 3 / 2);
    assert_true(relock_is_mine(red.lock));
    red_unlock(&red);
    red_unlock(&red);
    assert_true(red_wait_keys(s, 0));

    assert_result(relock_acquire(red.lock, &how, NULL), RELOCK_OK);
    assert_lost(s, &red, RELOCK_LOST_EXPIRED);
}

static void servers_that_forgot_get_the_lock_again_while_the_quorum_holds(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);

    red_lock_on_all(s, &red);
    for (int i = 0; i < 3; i++) {
        red_wait_votes(&red); /* a vote that is not counted yet does not replace one that is lost */
        forget(s, (size_t)i, 2);
        assert_true(red_n_keys(s) >= 3);
        assert_true(red_wait_keys(s, s->n));
        assert_true(relock_is_mine(red.lock));
    }
    let_pass(outlast_ms(LEASE_MS) * 3 / 2); /* it is renewed there, too */
    assert_int_equal(red_n_keys(s), s->n);
    assert_int_equal(losses_count(s->f->losses), 0);
    red_unlock(&red);
}

static void servers_unreachable_at_the_acquire_get_the_lock_when_they_are_back(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);

    server_kill(s->server[1]);
    server_pause(s->server[2]);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_int_equal(red_n_keys(s), 3);
    servers_up(s);
    assert_true(red_wait_keys(s, s->n));
    red_wait_votes(&red);
    forget(s, 3, 2); /* of the first three servers that granted it, one is left */
    assert_true(red_wait_keys(s, s->n));
    assert_result(relock_check(red.lock, 0, NULL), RELOCK_OK);
    red_unlock(&red);
}

/* ---- lost ---------------------------------------------------------------------------------- */

static void three_servers_that_forget_at_once_lose_the_lock(void **state)
{
    struct servers *s = *state;
    struct red red = red_to_be_forgotten(s);

    red_lock_on_all(s, &red);
    forget(s, 1, 3);
    assert_lost(s, &red, RELOCK_LOST_GONE);
    assert_int_equal(stats_of(red.clients[0]).lost, 1);
    assert_true(red_wait_keys(s, 0));
}

/* When the first loss is found, the two other servers still count as granted: their answers are
 * held back. The I/O thread checks the votes then. */
static void no_server_gets_the_lock_again_before_the_others_have_answered(void **state)
{
    struct servers *s = *state;
    struct red red = red_to_be_forgotten(s);
    struct proxy_rule *found, *later[2];
    uint64_t due_ms;

    red_lock_on_all(s, &red);
    found = proxy_next(s->proxy[1], PROXY_PASS, "SCRIPT LOAD");
    assert_true(io_thread_stop(proxy_url(s->proxy[0])));
    due_ms = now_ms() + outlast_ms(FORGET_LEASE_MS) * 3 / 10; /* so is the next renewal */
    for (size_t i = 1; i < 4; i++)
        server_kill(s->server[i]);
    for (size_t i = 0; i < 2; i++)
        later[i] = proxy_next(s->proxy[i + 2], PROXY_HOLD, "EVALSHA");
    servers_up(s);
    assert_true(proxy_met(found, 1));
    assert_true(proxy_next_place(s->proxy[1], proxy_place(found), "EVALSHA") > 0);
    for (size_t i = 0; i < 2; i++)
        assert_true(proxy_met(later[i], 1));
    if (now_ms() < due_ms)
        let_pass(due_ms - now_ms());
    assert_true(io_thread_go_on());
    let_pass(50);
    for (size_t i = 0; i < 2; i++)
        proxy_let_go(later[i]);
    assert_lost(s, &red, RELOCK_LOST_GONE);
    assert_true(red_wait_keys(s, 0));
}

/* Three servers have granted this renewal when three lose their data. One of these has still to
 * answer, and reports it: the earlier grants prove nothing. */
static void no_server_gets_the_lock_again_for_answers_older_than_the_loss(void **state)
{
    struct servers *s = *state;
    uint64_t lease_ms = slow_ms(3 * LEASE_MS);
    struct red red = red_new_by_proxy(
        s, &(struct relock_options){.watchdog_timeout_ms = lease_ms, .flags = RELOCK_NO_TRACKING});
    struct proxy_rule *rule;

    red_settle(s, &red, s->n);
    red_lock_on_all(s, &red);
    rule = proxy_next(s->proxy[1], PROXY_HOLD, "EVALSHA");
    assert_true(io_thread_stop(proxy_url(s->proxy[0])));
    for (size_t i = 2; i < 5; i++)
        assert_true(wait_for_renewals(red.clients[i], 0, 1));
    assert_true(proxy_met(rule, 1));
    red_delete_keys(s, 0, 3);
    proxy_let_go(rule);
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    let_pass(50);
    assert_true(io_thread_go_on());
    assert_true(losses_wait(s->f->losses, 1, SOON_MS));
    assert_result(relock_unlock(red.lock), RELOCK_LOST);
    assert_true(red_wait_keys(s, 0));
}

static void a_third_server_that_another_owner_takes_loses_the_lock(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);

    red_lock_on_all(s, &red);
    for (size_t i = 0; i < 2; i++)
        server_kill(s->server[i]);
    let_pass(outlast_ms(LEASE_MS) * 3 / 2);
    assert_true(relock_is_mine(red.lock));
    assert_int_equal(
        probe_int(s->probe[4], "EVAL %s 0",
                  "redis.call('del', 'orders') return redis.call('hset', 'orders', 'other:1', 1)"),
        1);
    assert_lost(s, &red, RELOCK_LOST_TAKEN);
    assert_int_equal(probe_int(s->probe[4], "DEL " RED_NAME), 1);
    servers_up(s);
    assert_true(red_wait_keys(s, 0));
}

static void three_servers_that_hang_beyond_the_lease_lose_the_lock(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);

    red_lock_on_all(s, &red);
    for (size_t i = 2; i < 5; i++)
        server_pause(s->server[i]);
    while (losses_count(s->f->losses) == 0 && relock_valid_ms(red.lock) > 0)
        let_pass(1);
    assert_lost(s, &red, RELOCK_LOST_EXPIRED);
    servers_up(s);
    assert_true(red_wait_keys(s, 0));
}

static void a_lost_red_lock_is_released_on_the_servers_before_its_owner_releases_it(void **state)
{
    struct servers *s = *state;
    struct red red = red_to_be_forgotten(s);
    struct red other = red_of(s);

    red_lock_on_all(s, &red);
    forget(s, 0, 3);
    assert_true(losses_wait(s->f->losses, 1, SOON_MS));
    assert_true(red_wait_keys(s, 0));
    red_lock_on_all(s, &other);
    let_pass(outlast_ms(LEASE_MS) / 2); /* contains a renewal */
    assert_true(relock_is_mine(other.lock));
    assert_lost(s, &red, RELOCK_LOST_GONE);
    assert_int_equal(red_n_keys(s), s->n);
    red_unlock(&other);
}

static void a_loss_found_by_the_release_is_reported_by_its_result_alone(void **state)
{
    struct servers *s = *state;
    struct red red = red_unwatched(s);
    int r;

    red_lock_on_all(s, &red);
    red_delete_keys(s, 0, 3);
    r = relock_unlock(red.lock);
    if (r != RELOCK_E_CONN) /* as in red_unlock() */
        assert_result(r, RELOCK_LOST);
    assert_result(relock_unlock(red.lock), RELOCK_NOT_OWNER);
    assert_int_equal(losses_count(s->f->losses), 0);
    assert_true(red_wait_keys(s, 0));
}

static void an_extension_finds_a_loss(void **state)
{
    struct servers *s = *state;
    struct red red = red_unwatched(s);
    uint64_t deadline_ms;
    int r;

    red_lock_on_all(s, &red);
    red_delete_keys(s, 0, 3);
    deadline_ms = deadline_in(SOON_MS);
    do { /* until all three have answered in time */
        r = relock_extend(red.lock, 0, LONG_MS);
    } while (r == RELOCK_E_CONN && now_ms() < deadline_ms);
    assert_result(r, RELOCK_LOST);
    assert_lost(s, &red, RELOCK_LOST_GONE);
}

static void the_watchdog_stops_at_max_hold_ms(void **state)
{
    struct servers *s = *state;
    struct relock_options options = {.watchdog_timeout_ms = outlast_ms(LEASE_MS),
                                     .max_hold_ms = MAX_HOLD_MS};
    struct red red = red_new(s, &options);
    uint64_t began_ms;

    red_settle(s, &red, s->n);
    began_ms = now_ms();
    red_lock_on_all(s, &red);
    assert_true(losses_wait(s->f->losses, 1, SOON_MS));
    assert_true(now_ms() - began_ms >= outlast_ms(LEASE_MS));
    assert_lost(s, &red, RELOCK_LOST_CAPPED);
    assert_true(red_wait_keys(s, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_red_lock_is_renewed_on_every_server),
        SERVERS_TEST(a_red_lock_with_a_lease_is_renewed_once_a_level_asks_for_it),
        SERVERS_TEST(servers_that_forgot_get_the_lock_again_while_the_quorum_holds),
        SERVERS_TEST(servers_unreachable_at_the_acquire_get_the_lock_when_they_are_back),
        SERVERS_TEST(three_servers_that_forget_at_once_lose_the_lock),
        SERVERS_TEST(no_server_gets_the_lock_again_before_the_others_have_answered),
        SERVERS_TEST(no_server_gets_the_lock_again_for_answers_older_than_the_loss),
        SERVERS_TEST(a_third_server_that_another_owner_takes_loses_the_lock),
        SERVERS_TEST(three_servers_that_hang_beyond_the_lease_lose_the_lock),
        SERVERS_TEST(a_lost_red_lock_is_released_on_the_servers_before_its_owner_releases_it),
        SERVERS_TEST(a_loss_found_by_the_release_is_reported_by_its_result_alone),
        SERVERS_TEST(an_extension_finds_a_loss),
        SERVERS_TEST(the_watchdog_stops_at_max_hold_ms),
    };
    return SERVERS_TESTS_RUN(tests);
}
