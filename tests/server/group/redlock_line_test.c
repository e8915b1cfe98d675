/*
 * Red locks: clients that wait stand in the line of one server, the sequencer. A release wakes one
 * of them, and they acquire the lock in the order in which they came. Without the sequencer they
 * wait as if there was no line.
 */
#include "support/line.h"
#include "support/red_line.h"

#define MANY 4
#define CROWD 5
#define N_ROUNDS 10
#define LOCK_CHANNEL "redisson_lock__channel:{" RED_NAME "}"

static struct red holding_red(struct servers *s)
{
    struct red red = red_line_new(s);

    red_settle(s, &red, s->n);
    red_lock_on_all(s, &red);
    return red;
}

/* An actor that waits, as the `n`th in the line. */
static struct actor *begin_waiting(struct servers *s, struct red *red, long long n)
{
    struct actor *actor = actor_start();

    actor_begin_lock(actor, red->lock);
    assert_true(red_line_wait(s, n));
    return actor;
}

static void stranger_has(struct servers *s, size_t server)
{
    red_strangers_take(s, server, server + 1);
}

/* A stranger, instead of the owner, has the lock on the sequencer: no release tells the line. */
static void lose_sequencer(struct servers *s)
{
    size_t sequencer = red_line_sequencer(s);

    red_delete_keys(s, sequencer, sequencer + 1);
    stranger_has(s, sequencer);
}

/* ---- turns --------------------------------------------------------------------------------- */

static void only_the_first_in_line_listens(void **state)
{
    struct servers *s = *state;
    struct red holder = holding_red(s), reds[MANY];
    struct actor *waiting[MANY];
    struct red_line_turn turns[MANY];

    for (int i = 0; i < MANY; i++) {
        reds[i] = red_line_new(s);
        waiting[i] = red_line_begin(&turns[i], &reds[i]);
        assert_true(red_line_wait(s, i + 1));
    }
    for (size_t i = 0; i < s->n; i++)
        assert_true(probe_wait_subscribers(s->probe[i], LOCK_CHANNEL, 1));
    red_unlock(&holder);
    assert_results(waiting, MANY, RELOCK_OK); /* in any order, on a slow machine */
}

/* A client that does not ask in time, on a slow machine, is overtaken. */
static void waiters_acquire_it_in_the_order_in_which_they_came(void **state)
{
    struct servers *s = *state;
    struct red holder = holding_red(s), reds[MANY];
    struct actor *waiting[MANY];
    struct red_line_turn turns[MANY];
    uint64_t began_ms;
    int n_wrong = 0;

    for (int i = 0; i < MANY; i++) {
        reds[i] = red_line_new(s);
        waiting[i] = red_line_begin(&turns[i], &reds[i]);
        assert_true(red_line_wait(s, i + 1));
    }
    began_ms = now_ms();
    red_unlock(&holder);
    assert_results(waiting, MANY, RELOCK_OK);
    for (int i = 0; i < MANY; i++)
        n_wrong += turns[i].place != turns[0].place + i;
    assert_true(n_wrong == 0 || now_ms() - began_ms >= LINE_RESERVED_MS);
}

/* The attempt that joins the line asks the sequencer alone; a grant and a release cost a script for
 * each server. A third of these is spare. On a machine that stood still, clients also ask for each
 * reservation that ended. */
static void an_acquisition_costs_a_few_scripts_however_many_wait(void **state)
{
    struct servers *s = *state;
    struct red holder = holding_red(s), reds[CROWD];
    struct actor *waiting[CROWD];
    long long before, n, n_late;
    uint64_t began_ms;

    for (int i = 0; i < CROWD; i++) {
        reds[i] = red_line_new(s);
        waiting[i] = actor_start();
        actor_begin_turns(waiting[i], reds[i].lock, N_ROUNDS);
        assert_true(red_line_wait(s, i + 1));
    }
    before = red_script_calls(s);
    began_ms = now_ms();
    red_unlock(&holder);
    for (int i = 0; i < CROWD; i++)
        assert_result(actor_result_within(waiting[i], 6 * (uint64_t)SOON_MS), RELOCK_OK);
    n = red_script_calls(s) - before;
    print_message("%d acquisitions: %lld scripts\n", CROWD * N_ROUNDS, n);
    n_late = (long long)((now_ms() - began_ms) / LINE_RESERVED_MS);
    assert_true(n <= (long long)s->n * (3 * CROWD * N_ROUNDS + 2 * n_late));
}

static void a_wait_that_ends_leaves_the_line(void **state)
{
    struct servers *s = *state;
    struct red a = holding_red(s), b = red_line_new(s), c = red_line_new(s);
    struct relock_cancel *cancel;
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *leaving = actor_start(), *waiting;

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    how.cancel = cancel;
    waiting = begin_waiting(s, &b, 1);
    actor_begin_acquire(leaving, c.lock, &how);
    assert_true(red_line_wait(s, 2));
    relock_cancel_fire(cancel);
    assert_result(actor_result(leaving), RELOCK_CANCELLED);
    assert_true(red_line_wait(s, 1)); /* though nobody tells it anything */
    red_unlock(&a);
    red_assert_gets_in(waiting, &b);
    cancel = relock_cancel_free(cancel);
}

/* ---- without the sequencer ----------------------------------------------------------------- */

static void releases_on_the_other_servers_wake_one_after_the_other(void **state)
{
    struct servers *s = *state;
    size_t sequencer = red_line_sequencer(s);
    struct red a = holding_red(s), b = red_line_new(s), c = red_line_new(s);
    struct actor *first, *second;

    lose_sequencer(s);
    first = begin_waiting(s, &b, 1);
    second = begin_waiting(s, &c, 2);
    (void)relock_unlock(a.lock);
    assert_result(actor_result(first), RELOCK_OK);
    assert_true(red_line_wait(s, 1));
    red_unlock_by(first, &b);
    red_assert_gets_in(second, &c);
    red_delete_keys(s, sequencer, sequencer + 1);
}

static void two_stand_in_line(struct servers *s, struct red *first, struct red *second,
                              struct red_line_turn turns[2], struct actor *waiting[2])
{
    waiting[0] = red_line_begin(&turns[0], first);
    assert_true(red_line_wait(s, 1));
    waiting[1] = red_line_begin(&turns[1], second);
    assert_true(red_line_wait(s, 2));
}

static void its_death_wakes_those_that_stand_in_its_line(void **state)
{
    struct servers *s = *state;
    struct red a = holding_red(s), b = red_line_new(s), c = red_line_new(s);
    struct red_line_turn turns[2];
    struct actor *waiting[2];

    two_stand_in_line(s, &b, &c, turns, waiting);
    server_kill(s->server[red_line_sequencer(s)]);
    red_unlock(&a);
    assert_results(waiting, 2, RELOCK_OK);
}

/* Its waiters also retry by themselves. */
static struct red rechecking_red(struct servers *s)
{
    return red_new(s, &(struct relock_options){.recheck_ms = 200, .watchdog_timeout_ms = NEVER_MS});
}

static void those_in_its_line_notice_that_it_hangs(void **state)
{
    struct servers *s = *state;
    struct red a = holding_red(s), b = rechecking_red(s), c = rechecking_red(s);
    struct red_line_turn turns[2];
    struct actor *waiting[2];

    two_stand_in_line(s, &b, &c, turns, waiting);
    server_pause(s->server[red_line_sequencer(s)]);
    red_unlock(&a);
    assert_results(waiting, 2, RELOCK_OK);
}

/* Its client is stopped: only the first hears releases on the other servers. */
static void a_silent_first_client_delays_the_others_only(void **state)
{
    struct servers *s = *state;
    size_t sequencer = red_line_sequencer(s);
    struct red a = holding_red(s), b = rechecking_red(s), c = rechecking_red(s);
    struct listener *silent = listener_open(s->server[sequencer]->socket, LINE_INBOX(SILENT));
    struct actor *waiting[2];
    struct red_line_turn turns[2];

    lose_sequencer(s);
    probe_int(s->probe[sequencer], "HSET " LINE_TURN " until 0 first " SILENT);
    assert_int_equal(probe_int(s->probe[sequencer], "RPUSH " LINE " " SILENT), 1);
    waiting[0] = red_line_begin(&turns[0], &b);
    assert_true(red_line_wait(s, 2));
    waiting[1] = red_line_begin(&turns[1], &c);
    assert_true(red_line_wait(s, 3));
    (void)relock_unlock(a.lock);
    assert_results(waiting, 2, RELOCK_OK);
    assert_true(red_line_wait(s, 1));
    assert_int_equal(probe_int(s->probe[sequencer], "DEL " LINE " " LINE_TURN), 2);
    red_delete_keys(s, sequencer, sequencer + 1);
    listener_close(silent);
}

/* A dead owner has its vote, say. The first attempt asks the others, so no release is awaited. */
static void its_vote_is_not_awaited_if_nobody_else_waits(void **state)
{
    struct servers *s = *state;
    size_t sequencer = red_line_sequencer(s);
    struct probe *other = s->probe[(sequencer + 1) % s->n];
    struct red a = holding_red(s), b = red_line_new(s);
    struct actor *waiting = begin_waiting(s, &b, 1);

    red_unlock(&a);
    red_assert_gets_in(waiting, &b);
    assert_true(red_wait_keys(s, 0));
    assert_true(probe_wait_subscribers(other, LOCK_CHANNEL, 0)); /* if it had listened */
    stranger_has(s, sequencer);
    assert_result(relock_lock(b.lock), RELOCK_OK);
    assert_int_equal(probe_subscribers(other, LOCK_CHANNEL), 0);
    red_unlock(&b);
    red_delete_keys(s, sequencer, sequencer + 1);
}

/* It waits by another client of its own. From then on it is in no line, and may be faster. */
static void the_end_of_its_client_makes_a_waiter_listen_to_the_others(void **state)
{
    struct servers *s = *state;
    size_t sequencer = red_line_sequencer(s), other = (sequencer + 1) % s->n;
    struct red a = holding_red(s), b = red_line_new(s), c = red_line_new(s);
    struct relock_lock *members[SERVERS_MAX];
    struct actor *waiting[2];
    struct red_line_turn turns[2];

    for (size_t i = 0; i < s->n; i++)
        members[i] = c.members[(other + i) % s->n];
    c.lock = red_lock_of(s->f, members, s->n);
    two_stand_in_line(s, &b, &c, turns, waiting);
    assert_true(probe_wait_subscribers(s->probe[other], LOCK_CHANNEL, 1));
    fixture_free_client(s->f, c.clients[sequencer]);
    assert_true(probe_wait_subscribers(s->probe[other], LOCK_CHANNEL, 2));
    red_unlock(&a);
    assert_results(waiting, 2, RELOCK_OK);
}

/* They wait outside, and hear each release. */
static void users_without_a_right_to_its_line_wake_each_other(void **state)
{
    enum { N = 2 };
    static const char *const without[] = {"resetkeys", "resetchannels"};
    static const char *const with[] = {"~" RED_NAME, "&redisson_lock__channel:*"};
    struct servers *s = *state;
    struct probe *probe = s->probe[red_line_sequencer(s)];

    for (int i = 0; i < 2; i++) {
        struct actor *waiting[N];
        struct red_line_turn turns[N];
        struct red holder, reds[N];

        assert_int_equal(probe_int(probe, "ACL SETUSER default allkeys allchannels"), 0);
        assert_int_equal(probe_int(probe, "ACL SETUSER default %s %s", without[i], with[i]), 0);
        holder = holding_red(s);
        for (int k = 0; k < N; k++) {
            reds[k] = red_line_new(s);
            waiting[k] = red_line_begin(&turns[k], &reds[k]);
        }
        for (size_t k = 0; k < s->n; k++)
            assert_true(probe_wait_subscribers(s->probe[k], LOCK_CHANNEL, N));
        assert_int_equal(probe_n_keys(probe), 1); /* the lock, and no line */
        red_unlock(&holder);
        assert_results(waiting, N, RELOCK_OK);
        assert_true(red_wait_keys(s, 0));
        for (size_t k = 0; k < s->n; k++)
            assert_true(probe_wait_subscribers(s->probe[k], LOCK_CHANNEL, 0));
    }
    assert_int_equal(probe_int(probe, "ACL SETUSER default allkeys allchannels"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(only_the_first_in_line_listens),
        SERVERS_TEST(waiters_acquire_it_in_the_order_in_which_they_came),
        SERVERS_TEST(an_acquisition_costs_a_few_scripts_however_many_wait),
        SERVERS_TEST(a_wait_that_ends_leaves_the_line),
        SERVERS_TEST(releases_on_the_other_servers_wake_one_after_the_other),
        SERVERS_TEST(its_death_wakes_those_that_stand_in_its_line),
        SERVERS_TEST(those_in_its_line_notice_that_it_hangs),
        SERVERS_TEST(a_silent_first_client_delays_the_others_only),
        SERVERS_TEST(its_vote_is_not_awaited_if_nobody_else_waits),
        SERVERS_TEST(the_end_of_its_client_makes_a_waiter_listen_to_the_others),
        SERVERS_TEST(users_without_a_right_to_its_line_wake_each_other),
    };
    return SERVERS_TESTS_RUN(tests);
}
