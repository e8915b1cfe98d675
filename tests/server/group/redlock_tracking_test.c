/*
 * Client tracking of red locks: a vote that is gone from its server counts no more at once, and the
 * lock is lost when the quorum is. The next renewal comes minutes later.
 */
#include "support/red.h"
#include "support/tracked.h"

#define AT_ONCE_MS 3000 /* a machine that stands still */

static struct red red_for_long(struct servers *s)
{
    struct red red = red_new(s, &(struct relock_options){.watchdog_timeout_ms = NEVER_MS,
                                                         .command_timeout_ms = slow_ms(SOON_MS)});

    red_settle(s, &red, s->n);
    return red;
}

/* Each vote has been read, so its server reports the next change of the key. */
static void hold(struct servers *s, const struct red *red)
{
    long long before[SERVERS_MAX];

    for (size_t i = 0; i < s->n; i++)
        before[i] = tracked_count(s->probe[i]);
    red_lock_on_all(s, red);
    for (size_t i = 0; i < s->n; i++)
        assert_true(tracked_wait(s->probe[i], before[i] + 1));
}

/* The client asks that server at once. */
static void delete_vote(struct servers *s, size_t i)
{
    long long before = tracked_count(s->probe[i]);

    red_delete_keys(s, i, i + 1);
    assert_true(tracked_wait(s->probe[i], before + 1));
}

static void is_held(struct servers *s, const struct red *red)
{
    assert_true(relock_is_mine(red->lock));
    assert_true(relock_valid_ms(red->lock) > 0);
    assert_result(relock_check(red->lock, 0, NULL), RELOCK_OK);
    assert_int_equal(losses_count(s->f->losses), 0);
}

static void a_red_lock_is_lost_at_once_with_the_last_vote_of_its_quorum(void **state)
{
    struct servers *s = *state;
    struct red red = red_for_long(s);

    hold(s, &red);
    for (size_t i = 0; i < 2; i++) {
        delete_vote(s, i);
        is_held(s, &red);
    }
    red_delete_keys(s, 2, 3);
    assert_true(losses_wait(s->f->losses, 1, slow_ms(AT_ONCE_MS)));
    assert_int_equal(losses_get(s->f->losses, 0).reason, RELOCK_LOST_GONE);
    assert_int_equal(relock_valid_ms(red.lock), 0);
    for (size_t i = 0; i < s->n; i++)
        assert_int_equal(stats_of(red.clients[i]).renewed, 0);
    assert_result(relock_unlock(red.lock), RELOCK_LOST);
    assert_true(red_wait_keys(s, 0));
}

static void a_red_lock_outlives_a_minority_of_its_votes(void **state)
{
    struct servers *s = *state;
    struct red red = red_for_long(s);

    hold(s, &red);
    delete_vote(s, 4);
    delete_vote(s, 1);
    let_pass(100); /* the answers have come */
    is_held(s, &red);
    red_unlock(&red);
    assert_int_equal(losses_count(s->f->losses), 0);
}

/* In place of its vote on the servers from `begin` to before `end`. */
static void replace_votes(struct servers *s, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        assert_int_equal(probe_int(s->probe[i], "SET " RED_NAME " precious"), 0);
}

static void assert_replaced(struct servers *s, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        assert_string_equal(probe_text(s->probe[i], "GET " RED_NAME), "precious");
    assert_true(red_wait_keys(s, end - begin));
    red_delete_keys(s, begin, end);
}

static void a_red_lock_is_lost_at_once_when_its_votes_become_another_type(void **state)
{
    struct servers *s = *state;
    struct red red = red_for_long(s);

    hold(s, &red);
    replace_votes(s, 0, 3);
    assert_true(losses_wait(s->f->losses, 1, slow_ms(AT_ONCE_MS)));
    assert_int_equal(losses_get(s->f->losses, 0).reason, RELOCK_LOST_TAKEN);
    assert_result(relock_unlock(red.lock), RELOCK_LOST);
    assert_replaced(s, 0, 3);
}

/* Without tracking, so the extension is the first command to find out. */
static void an_extension_finds_votes_that_became_another_type(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, &(struct relock_options){.watchdog_timeout_ms = NEVER_MS,
                                                         .command_timeout_ms = slow_ms(SOON_MS),
                                                         .flags = RELOCK_NO_TRACKING});

    red_settle(s, &red, s->n);
    red_lock_on_all(s, &red);
    replace_votes(s, 0, 3);
    assert_result(relock_extend(red.lock, 0, NEVER_MS), RELOCK_LOST);
    assert_int_equal(log_count(s->f->log, "WRONGTYPE"), 0);
    assert_result(relock_unlock(red.lock), RELOCK_LOST);
    assert_replaced(s, 0, 3);
}

/* The votes are sent over the connection for which the server reports no change of its own. */
static void a_plain_waiter_is_woken_when_a_red_lock_of_its_client_is_released(void **state)
{
    struct servers *s = *state;
    struct red red = red_new_of(s,
                                &(struct relock_options){
                                    .recheck_ms = NEVER_MS,
                                    .watchdog_timeout_ms = NEVER_MS,
                                    .command_timeout_ms = slow_ms(SOON_MS),
                                },
                                relock_plainlock_new);
    struct actor *waiting = actor_start();
    long long before;

    red_settle(s, &red, s->n);
    red_lock_on_all(s, &red);
    before = tracked_count(s->probe[1]);
    actor_begin_lock(waiting, red.members[1]);
    assert_true(tracked_wait(s->probe[1], before + 2)); /* of the vote, and of the waiter */
    let_pass(300);
    assert_true(actor_is_busy(waiting));
    red_unlock(&red);
    assert_result(actor_result_within(waiting, slow_ms(AT_ONCE_MS)), RELOCK_OK);
    assert_result(actor_unlock(waiting, red.members[1]), RELOCK_OK);
}

static int start(void **state)
{
    int r = servers_start(state);
    struct servers *s = *state;

    if (r == 0 && probe_int(s->probe[0], "CLIENT ID") > 0 &&
        probe_calls(s->probe[0], "client|id") == 0)
        fixture_skip(); /* before Redis 7, it counts no checks */
    return r;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_red_lock_is_lost_at_once_with_the_last_vote_of_its_quorum),
        SERVERS_TEST(a_red_lock_outlives_a_minority_of_its_votes),
        SERVERS_TEST(a_red_lock_is_lost_at_once_when_its_votes_become_another_type),
        SERVERS_TEST(an_extension_finds_votes_that_became_another_type),
        SERVERS_TEST(a_plain_waiter_is_woken_when_a_red_lock_of_its_client_is_released),
    };

    return cmocka_run_group_tests(tests, start, servers_stop);
}
