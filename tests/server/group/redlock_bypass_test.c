/*
 * Red locks: an owner has the lock without the vote of the sequencer, whose line is bypassed. The
 * clients that wait follow the messages of the other servers.
 */
#include "support/line.h"
#include "support/red_line.h"

#define MANY 4
#define LOCK_CHANNEL "redisson_lock__channel:{" RED_NAME "}"

/* For longer than any pause of a waiter. */
static bool is_silent(void *arg)
{
    enum { SILENCE_MS = 600 };
    long long n = red_script_calls(arg);

    let_pass(SILENCE_MS);
    return red_script_calls(arg) == n;
}

/* Strangers have the lock on all servers but the sequencer. */
static void strangers_bypass(struct servers *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (i != red_line_sequencer(s))
            red_strangers_take(s, i, i + 1);
}

static void strangers_release(struct servers *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (i != red_line_sequencer(s))
            red_delete_keys(s, i, i + 1);
        red_publish_release(s, i);
    }
}

static void waiters_are_quiet_while_the_owner_lacks_it(void **state)
{
    struct servers *s = *state;
    struct actor *waiting[MANY];
    struct red_line_turn turns[MANY];

    strangers_bypass(s);
    for (int i = 0; i < MANY; i++) {
        struct red red = red_line_new(s);

        waiting[i] = red_line_begin(&turns[i], &red);
        assert_true(wait_for_waiters(red.clients[0], 1));
    }
    assert_true(wait_until(is_silent, s, SOON_MS));
    strangers_release(s);
    assert_results(waiting, MANY, RELOCK_OK);
}

/* Another waiter may have its vote for a moment, while it tries in vain. */
static void it_is_left_alone_while_the_owner_lacks_it(void **state)
{
    struct servers *s = *state;
    size_t sequencer = red_line_sequencer(s);
    struct red red = red_line_new(s);
    struct red_line_turn turn;
    struct actor *waiting;
    long long n;

    strangers_bypass(s);
    waiting = red_line_begin(&turn, &red);
    assert_true(wait_until(is_silent, s, SOON_MS));
    red_strangers_take(s, sequencer, sequencer + 1);
    n = red_script_calls(s);
    assert_true(probe_int(s->probe[(sequencer + 1) % s->n], "CLIENT KILL TYPE pubsub") > 0);
    assert_true(wait_until(is_silent, s, SOON_MS));
    assert_true(red_script_calls(s) > n); /* it has asked again */
    assert_true(red_line_wait(s, 0));
    red_delete_keys(s, sequencer, sequencer + 1);
    n = red_script_calls(s);
    red_publish_release(s, sequencer);
    assert_true(is_silent(s));
    assert_int_equal(red_script_calls(s), n);
    strangers_release(s);
    assert_result(actor_result(waiting), RELOCK_OK);
}

/* After the end of the subscriptions of one server it asks again. */
static void its_line_is_joined_when_only_it_is_in_the_way(void **state)
{
    struct servers *s = *state;
    size_t sequencer = red_line_sequencer(s);
    struct red red = red_line_new(s);
    struct red_line_turn turn;
    struct actor *waiting;
    size_t other[2] = {(sequencer + 1) % s->n, (sequencer + 2) % s->n};

    strangers_bypass(s);
    waiting = red_line_begin(&turn, &red);
    assert_true(wait_until(is_silent, s, SOON_MS));
    red_strangers_take(s, sequencer, sequencer + 1);
    for (int i = 0; i < 2; i++)
        red_delete_keys(s, other[i], other[i] + 1);
    assert_true(probe_int(s->probe[other[0]], "CLIENT KILL TYPE pubsub") > 0);
    assert_true(red_line_wait(s, 1));
    assert_true(probe_wait_subscribers(s->probe[sequencer], LOCK_CHANNEL, 1));
    red_delete_keys(s, sequencer, sequencer + 1);
    red_publish_release(s, sequencer);
    assert_result(actor_result(waiting), RELOCK_OK);
    for (size_t i = 0; i < s->n; i++)
        if (i != sequencer && i != other[0] && i != other[1])
            red_delete_keys(s, i, i + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(waiters_are_quiet_while_the_owner_lacks_it),
        SERVERS_TEST(it_is_left_alone_while_the_owner_lacks_it),
        SERVERS_TEST(its_line_is_joined_when_only_it_is_in_the_way),
    };
    return SERVERS_TESTS_RUN(tests);
}
