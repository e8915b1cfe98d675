/* Red locks while some of their servers are down, hang or are cut off. */
#include "support/actor.h"
#include "support/red.h"

#include <stdatomic.h>

#define COMMAND_MS 700
#define ROUNDS 100

/* ---- ways to be away ----------------------------------------------------------------------- */

typedef void deed_fn(struct servers *s, size_t i);

static void kill_it(struct servers *s, size_t i)
{
    server_kill(s->server[i]);
}

static void pause_it(struct servers *s, size_t i)
{
    server_pause(s->server[i]);
}

static void stall_it(struct servers *s, size_t i)
{
    proxy_refuse(s->proxy[i], true);
    proxy_stall(s->proxy[i], "");
}

static void cut_it(struct servers *s, size_t i)
{
    proxy_refuse(s->proxy[i], true);
    proxy_cut(s->proxy[i], "");
}

static deed_fn *const deeds[] = {kill_it, pause_it, stall_it, cut_it};

#define N_DEEDS (sizeof(deeds) / sizeof(*deeds))

static void mend(struct servers *s)
{
    servers_up(s);
    for (size_t i = 0; i < s->n; i++) {
        proxy_reset(s->proxy[i]);
        proxy_refuse(s->proxy[i], false);
    }
}

/* The servers that fail, and how. The first member's client is also the red lock's. */
static const size_t minorities[][2] = {{3, 4}, {0, 4}, {0, 1}};

/* Retried if a server is late, because a machine may stop: the remaining servers are a bare
 * quorum. */
static void extend(const struct red *red)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    int r;

    do {
        r = relock_extend(red->lock, 0, 40000);
    } while (r == RELOCK_E_CONN && now_ms() < deadline_ms);
    assert_result(r, RELOCK_OK);
}

static void take_a_level(const struct red *red)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    int r;

    do {
        r = relock_lock(red->lock);
    } while (r == RELOCK_E_CONN && now_ms() < deadline_ms);
    assert_result(r, RELOCK_OK);
}

/* ---- a minority ---------------------------------------------------------------------------- */

static void a_minority_may_be_down_from_the_start(void **state)
{
    struct servers *s = *state;
    struct red red;

    server_kill(s->server[0]);
    server_pause(s->server[4]);
    red = red_new(s, NULL);
    red_settle(s, &red, 3);
    for (int i = 0; i < 10; i++) {
        assert_result(relock_lock(red.lock), RELOCK_OK);
        assert_true(relock_valid_ms(red.lock) > 0);
        assert_int_equal(red_n_keys(s), 3);
        red_unlock(&red);
    }
}

static void a_minority_may_fail_while_the_lock_is_free(void **state)
{
    struct servers *s = *state;
    struct red red = red_new_by_proxy(s, NULL);

    for (size_t deed = 0; deed < N_DEEDS; deed++) {
        const size_t *who = minorities[deed % 3];

        red_settle(s, &red, s->n);
        for (size_t i = 0; i < 2; i++)
            deeds[deed](s, who[i]);
        assert_result(relock_lock(red.lock), RELOCK_OK);
        take_a_level(&red);
        extend(&red);
        assert_result(relock_unlock(red.lock), RELOCK_OK);
        red_unlock(&red);
        mend(s);
        assert_true(red_wait_keys(s, 0));
    }
}

static void a_minority_may_fail_while_the_lock_is_held(void **state)
{
    struct servers *s = *state;
    struct red red = red_new_by_proxy(s, NULL);

    for (size_t deed = 0; deed < N_DEEDS; deed++) {
        const size_t *who = minorities[deed % 3];

        red_settle(s, &red, s->n);
        red_lock_on_all(s, &red);
        for (size_t i = 0; i < 2; i++)
            deeds[deed](s, who[i]);
        assert_true(relock_valid_ms(red.lock) > 0);
        extend(&red);
        assert_result(relock_check(red.lock, 0, NULL), RELOCK_OK);
        red_unlock(&red);
        mend(s);
        assert_true(red_wait_keys(s, 0));
    }
}

static void others_are_excluded_while_a_minority_is_unreachable(void **state)
{
    struct servers *s = *state;
    struct red a = red_new(s, NULL), b = red_new(s, NULL);

    red_settle(s, &a, s->n);
    red_settle(s, &b, s->n);
    red_lock_on_all(s, &a);
    server_pause(s->server[0]);
    server_kill(s->server[1]);
    for (int i = 0; i < 5; i++)
        assert_result(relock_trylock(b.lock), RELOCK_BUSY);
    assert_result(fixture_timedlock(b.lock, 50), RELOCK_TIMEOUT);
    red_unlock(&a);
    assert_result(relock_lock(b.lock), RELOCK_OK);
    red_unlock(&b);
}

/* ---- a majority ---------------------------------------------------------------------------- */

static void an_unreachable_majority_fails_a_wait_after_the_command_timeout(void **state)
{
    struct servers *s = *state;
    struct relock_options options = {.command_timeout_ms = slow_ms(COMMAND_MS)};
    struct red red = red_new_by_proxy(s, &options);

    for (size_t deed = 0; deed < N_DEEDS; deed++) {
        uint64_t began_ms, took_ms;

        red_settle(s, &red, s->n);
        for (size_t i = 0; i < 3; i++)
            deeds[deed](s, (deed + i) % s->n);
        began_ms = now_ms();
        assert_result(relock_trylock(red.lock), RELOCK_E_CONN);
        took_ms = now_ms() - began_ms;
        assert_true(took_ms >= slow_ms(COMMAND_MS) - 1);
        assert_no_later(took_ms, slow_ms(10 * COMMAND_MS));
        assert_result(relock_timedlock(red.lock, 10), RELOCK_E_CONN);
        assert_result(relock_unlock(red.lock), RELOCK_NOT_OWNER);
        mend(s);
        assert_true(red_wait_keys(s, 0));
    }
    assert_true(log_wait(s->f->log, "of 5 servers answered in time", SOON_MS));
}

static void a_release_that_a_majority_does_not_answer_fails_and_is_completed_later(void **state)
{
    struct servers *s = *state;
    struct red red = red_new_by_proxy(s, NULL);

    for (size_t deed = 1; deed < N_DEEDS; deed++) {
        red_settle(s, &red, s->n);
        red_lock_on_all(s, &red);
        for (size_t i = 0; i < 3; i++)
            deeds[deed](s, (deed + i) % s->n);
        assert_result(relock_unlock(red.lock), RELOCK_E_CONN);
        assert_result(relock_unlock(red.lock), RELOCK_NOT_OWNER);
        mend(s);
        assert_true(red_wait_keys(s, 0));
    }
}

static void a_waiter_gets_the_lock_when_the_majority_comes_back_in_time(void **state)
{
    struct servers *s = *state;
    struct red red;
    struct actor *actor = actor_start();

    for (size_t i = 0; i < 3; i++)
        server_kill(s->server[i]);
    red = red_new(s, &(struct relock_options){.command_timeout_ms = slow_ms(SOON_MS)});
    actor_begin_lock(actor, red.lock);
    let_pass(100);
    assert_true(actor_is_busy(actor));
    servers_up(s);
    assert_gets_in(actor, red.lock);
}

/* ---- votes --------------------------------------------------------------------------------- */

static void votes_of_a_minority_are_released(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);

    red_settle(s, &red, s->n);
    red_strangers_take(s, 1, 4);
    assert_result(relock_trylock(red.lock), RELOCK_BUSY);
    assert_true(red_wait_keys(s, 3));
    assert_result(fixture_timedlock(red.lock, 100), RELOCK_TIMEOUT);
    assert_true(red_wait_keys(s, 3));
    for (size_t i = 1; i < 4; i++)
        assert_string_equal(probe_only_field(s->probe[i], RED_NAME), "other:1");
    red_delete_keys(s, 1, 4);
}

struct racer {
    struct relock_lock *lock;
    atomic_int *n_inside;
    int64_t wait_ms;
};

static int race(void *arg)
{
    struct racer *racer = arg;

    for (int i = 0; i < ROUNDS; i++) {
        int r = relock_timedlock(racer->lock, racer->wait_ms);

        if (r == RELOCK_TIMEOUT && racer->wait_ms == 0)
            continue;
        if (r < 0)
            return r;
        if (atomic_fetch_add(racer->n_inside, 1) != 0)
            return 1; /* two threads at a time */
        atomic_fetch_sub(racer->n_inside, 1);
        r = relock_unlock(racer->lock);
        if (r < 0 && r != RELOCK_E_CONN) /* as in red_unlock() */
            return r;
    }
    return RELOCK_OK;
}

static void two_waiters_that_split_the_votes_both_get_the_lock(void **state)
{
    enum { N = 4 };
    struct servers *s = *state;
    struct actor *actors[N];
    struct racer racers[N];
    struct red reds[N];
    atomic_int n_inside = 0;

    for (int i = 0; i < N; i++) {
        struct relock_options options = {.command_timeout_ms = slow_ms(SOON_MS)};

        reds[i] = red_new(s, &options);
        red_settle(s, &reds[i], s->n);
        actors[i] = actor_start();
        racers[i] = (struct racer){reds[i].lock, &n_inside, i == 0 ? 0 : slow_ms(SOON_MS)};
    }
    for (int i = 0; i < N; i++)
        actor_begin(actors[i], race, &racers[i]);
    for (int i = 0; i < N; i++)
        assert_result(actor_result_within(actors[i], 60000), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_minority_may_be_down_from_the_start),
        SERVERS_TEST(a_minority_may_fail_while_the_lock_is_free),
        SERVERS_TEST(a_minority_may_fail_while_the_lock_is_held),
        SERVERS_TEST(others_are_excluded_while_a_minority_is_unreachable),
        SERVERS_TEST(an_unreachable_majority_fails_a_wait_after_the_command_timeout),
        SERVERS_TEST(a_release_that_a_majority_does_not_answer_fails_and_is_completed_later),
        SERVERS_TEST(a_waiter_gets_the_lock_when_the_majority_comes_back_in_time),
        SERVERS_TEST(votes_of_a_minority_are_released),
        SERVERS_TEST(two_waiters_that_split_the_votes_both_get_the_lock),
    };
    return SERVERS_TESTS_RUN(tests);
}
