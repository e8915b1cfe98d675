/*
 * Red locks with a server that answers late or never: its commands stay in order and few, and no
 * caller waits for it.
 */
#include "io_thread.h"

#include "support/actor.h"
#include "support/busy.h"
#include "support/multi.h"
#include "support/red.h"

#define LEASE_MS 20000  /* so a server has 400 ms to answer */
#define DELAY_MS 1000   /* in each direction */
#define HANGING_MS 1000 /* after this time, a silent server is skipped */
#define LONG_MS 3600000 /* a lease too long for a renewal */
#define LATE 2
#define QUICK_MS \
    300 /* so no call waited for a late server; a stalled machine may spoil single tries */
#define MAX_TRIES 5

#define CERTAIN(lease_ms) ((lease_ms) - ((lease_ms) / 100) - 2)

static struct red red_of(struct servers *s)
{
    return red_new_by_proxy(s, &(struct relock_options){.watchdog_timeout_ms = LEASE_MS});
}

static bool is_locked_quickly(struct servers *s, struct red *red)
{
    uint64_t began_ms = now_ms();
    struct relock_grant grant;
    uint64_t took_ms;

    assert_result(relock_acquire(red->lock, NULL, &grant), RELOCK_OK);
    took_ms = now_ms() - began_ms;
    assert_in_range(grant.valid_ms, CERTAIN(LEASE_MS) - took_ms - 1, CERTAIN(LEASE_MS));
    assert_true(red_wait_keys(s, s->n));
    assert_true(relock_valid_ms(red->lock) > 0);
    return took_ms < QUICK_MS;
}

static bool is_unlocked_quickly(struct servers *s, struct red *red)
{
    uint64_t began_ms = now_ms();
    uint64_t took_ms;

    red_unlock(red);
    took_ms = now_ms() - began_ms;
    assert_true(red_wait_keys(s, 0));
    return took_ms < QUICK_MS;
}

static void a_late_server_costs_neither_time_nor_certainty(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);
    bool locked = false, unlocked = false;

    for (int i = 0; i < MAX_TRIES && !(locked && unlocked); i++) {
        red_settle(s, &red, s->n);
        proxy_delay(s->proxy[LATE], slow_ms(DELAY_MS));
        locked = is_locked_quickly(s, &red) || locked;
        unlocked = is_unlocked_quickly(s, &red) || unlocked;
        proxy_delay(s->proxy[LATE], 0);
    }
    assert_true(locked);
    assert_true(unlocked);
}

static void a_vote_that_a_busy_server_did_not_take_back_is_given_back_later(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);
    struct proxy_rule *release;
    struct actor *looping;

    red_lock_on_all(s, &red);
    release = proxy_next(s->proxy[LATE], PROXY_HOLD, "EVALSHA");
    red_unlock(&red);
    assert_true(proxy_met(release, 1));
    looping = busy_begin(s->server[LATE], s->probe[LATE]);
    proxy_let_go(release);
    assert_true(proxy_counts(s->proxy[LATE], "-BUSY", 1));
    busy_end(s->probe[LATE], looping);
    assert_true(red_wait_keys(s, 0));
}

/* Waits until the late server has run so many scripts. It gets none if they are no longer wanted
 * when the thread sends them. */
static bool late_runs(struct servers *s, long long n)
{
    return probe_wait_script_calls(s->probe[LATE], n, 4 * DELAY_MS);
}

static bool late_has_no_key(void *s)
{
    return !red_has_key(s, LATE);
}

static void a_late_acquire_is_followed_by_its_release(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);
    int n_late = 0;

    red_settle(s, &red, s->n);
    for (int i = 0; i < MAX_TRIES && n_late < 3; i++) {
        long long calls = probe_script_calls(s->probe[LATE]);
        bool is_late;

        proxy_delay(s->proxy[LATE], slow_ms(DELAY_MS));
        assert_result(relock_lock(red.lock), RELOCK_OK);
        red_unlock(&red);
        is_late = probe_script_calls(s->probe[LATE]) == calls; /* neither reply has arrived yet */
        n_late += late_runs(s, calls + 2) && is_late;
        assert_true(wait_until(late_has_no_key, s, SOON_MS));
        proxy_delay(s->proxy[LATE], 0);
        red_settle(s, &red, s->n);
    }
    assert_true(n_late > 0);
}

static void a_late_grant_to_a_refused_caller_is_released(void **state)
{
    struct servers *s = *state;
    struct red a = red_new_by_proxy(s, &(struct relock_options){.watchdog_timeout_ms = LONG_MS});
    struct red b = red_of(s);
    bool has_come = false;

    red_settle(s, &a, s->n);
    red_settle(s, &b, s->n);
    red_lock_on_all(s, &a);
    assert_int_equal(probe_int(s->probe[LATE], "DEL " RED_NAME), 1);
    proxy_delay(s->proxy[LATE], slow_ms(DELAY_MS));
    for (int i = 0; i < MAX_TRIES && !has_come; i++) {
        long long calls = probe_script_calls(s->probe[LATE]);

        assert_result(relock_trylock(b.lock), RELOCK_BUSY);
        has_come = late_runs(s, calls + 2);
    }
    assert_true(has_come);
    assert_true(wait_until(late_has_no_key, s, SOON_MS));
    assert_true(relock_is_mine(a.lock));
    red_unlock(&a);
}

/* All replies are late, which shortens the certain time by as much. */
static void a_late_answer_makes_no_hold_certain_for_longer(void **state)
{
    enum { EACH_WAY_MS = 100 };
    struct servers *s = *state;
    struct red red = red_of(s);
    struct relock_grant grant;

    red_settle(s, &red, s->n);
    for (size_t i = 0; i < s->n; i++)
        proxy_delay(s->proxy[i], EACH_WAY_MS);
    assert_result(relock_acquire(red.lock, &(struct relock_how){.wait_ms = SOON_MS}, &grant),
                  RELOCK_OK);
    assert_true(grant.valid_ms <= CERTAIN(LEASE_MS) - 2 * EACH_WAY_MS);
    assert_true(red_wait_keys(s, s->n));
    assert_true(relock_valid_ms(red.lock) <= CERTAIN(LEASE_MS) - 2 * EACH_WAY_MS);
    for (size_t i = 0; i < s->n; i++)
        proxy_delay(s->proxy[i], 0);
    red_unlock(&red);
}

/* On a connection that was given up it could still run, after its release. */
static void an_acquire_given_up_is_killed(void **state)
{
    struct servers *s = *state;
    struct relock_options options = {.watchdog_timeout_ms = LEASE_MS,
                                     .command_timeout_ms = slow_ms(DELAY_MS)};
    struct red red = red_new_by_proxy(s, &options);
    struct proxy_rule *rule;

    red_settle(s, &red, s->n);
    rule = proxy_next(s->proxy[LATE], PROXY_HOLD, "EVALSHA");
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_true(proxy_met(rule, 1));
    assert_result(relock_unlock(red.lock), RELOCK_OK);
    assert_int_equal(proxy_fate(rule), PROXY_ENDED);
    proxy_let_go(rule);
    assert_true(red_wait_keys(s, 0));
}

/* The I/O thread, which sends it, is stopped until it has been released. */
static void an_acquire_given_up_before_it_was_sent_is_not_sent(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);

    red_settle(s, &red, s->n);
    assert_true(io_thread_stop(proxy_url(s->proxy[LATE])));
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_result(relock_unlock(red.lock), RELOCK_OK);
    assert_true(io_thread_go_on());
    let_pass(200);
    assert_true(red_wait_keys(s, 0));
}

/* Its acquire and its release are in flight to all servers when the lock is acquired again. */
static void every_server_may_answer_late(void **state)
{
    struct servers *s = *state;
    struct relock_options options = {.watchdog_timeout_ms = LEASE_MS,
                                     .command_timeout_ms = slow_ms(DELAY_MS * 3 / 2)};
    struct red red = red_new_by_proxy(s, &options);
    long long calls[SERVERS_MAX];

    red_settle(s, &red, s->n);
    for (size_t i = 0; i < s->n; i++) {
        calls[i] = probe_script_calls(s->probe[i]);
        proxy_delay(s->proxy[i], slow_ms(DELAY_MS));
    }
    assert_result(relock_trylock(red.lock), RELOCK_E_CONN);
    for (size_t i = 0; i < s->n; i++)
        assert_true(probe_wait_script_calls(s->probe[i], calls[i] + 2, SOON_MS));
    assert_true(red_wait_keys(s, 0));
}

static void take_turns(struct red *red, int n)
{
    for (int i = 0; i < n; i++) {
        assert_result(relock_lock(red->lock), RELOCK_OK);
        red_unlock(red);
    }
}

static void commands_to_a_hanging_server_do_not_pile_up(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);
    size_t n;

    red_settle(s, &red, s->n);
    server_pause(s->server[LATE]);
    take_turns(&red, 1);
    let_pass(HANGING_MS);
    n = proxy_count(s->proxy[LATE], "");
    take_turns(&red, 200);
    /* A slow machine may reconnect repeatedly meanwhile. */
    assert_true(proxy_count(s->proxy[LATE], "") - n < 100);
    server_resume(s->server[LATE]);
    red_settle(s, &red, s->n);
    take_turns(&red, 10);
    assert_true(red_wait_keys(s, 0));
}

/* Once its replies have arrived, the server may be asked again. Returns whether the time
 * sufficed to see that. */
static bool is_asked_little(struct servers *s, struct red *red)
{
    size_t n = proxy_count(s->proxy[LATE], "");
    uint64_t until_ms;
    int n_turns = 0;

    assert_result(relock_lock(red->lock), RELOCK_OK);
    assert_true(proxy_counts(s->proxy[LATE], "", n + 1));
    until_ms = now_ms() + slow_ms(DELAY_MS); /* its reply is on the way */
    red_unlock(red);
    for (; n_turns < 100 && now_ms() < until_ms - DELAY_MS / 2; n_turns++)
        take_turns(red, 1);
    if (n_turns < 10 || now_ms() >= until_ms)
        return false;
    let_pass(slow_ms(DELAY_MS)); /* a command is counted when it arrives */
    assert_true(proxy_count(s->proxy[LATE], "") - n <= 4);
    return true;
}

static void a_late_server_gets_one_command_at_a_time(void **state)
{
    struct servers *s = *state;
    struct red red = red_of(s);
    bool seen = false;

    for (int i = 0; i < MAX_TRIES && !seen; i++) {
        red_settle(s, &red, s->n);
        proxy_delay(s->proxy[LATE], slow_ms(DELAY_MS));
        seen = is_asked_little(s, &red);
        proxy_delay(s->proxy[LATE], 0);
    }
    assert_true(seen);
    red_settle(s, &red, s->n);
}

/* ---- a release that has no time to wait ------------------------------------------------------ */

struct extension {
    struct relock_lock *lock;
    uint64_t owner;
};

static int extend(void *arg)
{
    const struct extension *extension = arg;

    return relock_extend(extension->lock, extension->owner, LONG_MS);
}

/* Servers 2 to 4 hang, so an extension of the red lock waits. Returns whether the multi lock was
 * released before the extension ended. */
static bool is_released_during_extension(struct servers *s, struct relock_lock *red,
                                         struct relock_lock *multi)
{
    struct actor *actor = actor_start();
    struct extension extension = {.lock = red};
    struct relock_grant grant;
    bool is_first;
    size_t n;

    assert_result(relock_acquire(multi, NULL, &grant), RELOCK_OK);
    assert_true(red_wait_keys(s, s->n));
    extension.owner = grant.owner;
    for (size_t i = LATE; i < s->n; i++)
        server_pause(s->server[i]);
    n = proxy_count(s->proxy[0], "");
    actor_begin(actor, extend, &extension);
    assert_true(proxy_counts(s->proxy[0], "", n + 1));
    assert_result(relock_unlock(multi), RELOCK_E_CONN);
    is_first = actor_is_busy(actor);
    (void)actor_result(actor);
    servers_up(s);
    actor_end(actor);
    return is_first;
}

/* The member on a server that hangs is released first, and leaves no time for the red lock. */
static void a_release_without_time_waits_for_no_extension(void **state)
{
    struct servers *s = *state;
    struct relock_options options = {.watchdog_timeout_ms = LEASE_MS, .release_timeout_ms = 100};
    struct red red = red_new_by_proxy(s, &options);
    struct relock_lock *last = fixture_lock(s->f, red.clients[LATE], RED_NAME "-last");
    struct relock_lock *multi = fixture_multi(s->f, red.lock, last, NULL);
    bool seen = false;

    for (int i = 0; i < MAX_TRIES && !seen; i++) {
        red_settle(s, &red, s->n);
        seen = is_released_during_extension(s, red.lock, multi);
        assert_true(red_wait_keys(s, 0));
        assert_true(probe_wait_no_key(s->probe[LATE], RED_NAME "-last", SOON_MS));
    }
    assert_true(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_late_server_costs_neither_time_nor_certainty),
        SERVERS_TEST(a_vote_that_a_busy_server_did_not_take_back_is_given_back_later),
        SERVERS_TEST(a_late_acquire_is_followed_by_its_release),
        SERVERS_TEST(a_late_grant_to_a_refused_caller_is_released),
        SERVERS_TEST(a_late_answer_makes_no_hold_certain_for_longer),
        SERVERS_TEST(an_acquire_given_up_is_killed),
        SERVERS_TEST(an_acquire_given_up_before_it_was_sent_is_not_sent),
        SERVERS_TEST(every_server_may_answer_late),
        SERVERS_TEST(commands_to_a_hanging_server_do_not_pile_up),
        SERVERS_TEST(a_late_server_gets_one_command_at_a_time),
        SERVERS_TEST(a_release_without_time_waits_for_no_extension),
    };
    return SERVERS_TESTS_RUN(tests);
}
