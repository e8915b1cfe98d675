/* CLIENT TRACKING: two connections of one node, what the server says to it, and its reports. */
#include "redis/io/io.h"

#include "base/clock.h"
#include "base/thread.h"
#include "redis/lane/call.h"
#include "redis/server/loop.h"
#include "unit/common/two_nodes.h"

#include <stdio.h>
#include <string.h>

#define NAME "__redis__:invalidate"
#define SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$20\r\n" NAME "\r\n:1\r\n"
#define MESSAGE "*3\r\n$7\r\nmessage\r\n$20\r\n" NAME "\r\n"
#define OK "+OK\r\n"
#define MISSING "-NOSCRIPT No matching script.\r\n"
#define LONG_MS 1100 /* longer than tracking that fails at once */

static struct relock_gate all_heard;
static char heard[64];    /* '+' on, '-' off, the keys, '*' for all, '1' for the reply to a call */
static size_t n_expected; /* letters of it */
static atomic_uint calls; /* to be sent, one after the other */
static uint64_t wait_ms;  /* since it tracks, before a call is sent */
static uint64_t call_ms;  /* when it is sent; 0: as soon as it tracks */
static unsigned n_called, n_answered;
static bool hears_reports_only;

static void hear(char letter)
{
    size_t n = strlen(heard);

    if (n + 1 < sizeof(heard))
        heard[n] = letter;
    if (n + 1 == n_expected)
        relock_gate_open(&all_heard);
}

static void on_tracking(void *arg, const struct relock_node *node, bool is_on)
{
    (void)arg;
    assert_ptr_equal(node, &cluster.node[0]);
    if (!hears_reports_only)
        hear(is_on ? '+' : '-');
    if (is_on && call_ms == 0)
        call_ms = relock_clock_in(wait_ms);
}

static void on_changed(void *arg, const char *key, size_t len)
{
    (void)arg;
    hear(key && len > 0 ? *key : '*');
}

static void on_up(void *arg)
{
    (void)arg;
    relock_tracking_want(&cluster.node[0]);
}

static void on_answer(void *arg, int result, const struct redisReply *reply)
{
    (void)arg;
    (void)reply;
    n_answered++;
    hear(result == RELOCK_OK ? '1' : '0');
}

static const struct relock_node *tracker;

static const struct relock_call call = {
    .script = &relock_script_renew,
    .key = {"orders", 6},
    .args = {{"60000", 5}, {"id:7", 4}},
    .n_args = 2,
    .tracker = &tracker,
};

static uint64_t turn(void *arg)
{
    bool is_to_call;

    (void)arg;
    relock_node_io_track(&cluster.topology);
    is_to_call = n_called < atomic_load(&calls) && n_called == n_answered && call_ms > 0;
    if (is_to_call && relock_clock_now_ms() >= call_ms) {
        n_called++;
        (void)relock_pipeline_call(cluster.node[0].pipeline, &call, on_answer, NULL);
        return RELOCK_NEVER;
    }
    return is_to_call ? call_ms : RELOCK_NEVER;
}

static int begin(void **state)
{
    struct relock_topology_io io = {
        .answer_ms = slow_ms(SOON_MS),
        .ping_ms = slow_ms(SOON_MS),
        .up = on_up,
        .tracking = on_tracking,
        .changed = on_changed,
    };
    int r = two_nodes_begin(state);

    memset(heard, 0, sizeof(heard));
    hears_reports_only = false;
    atomic_store(&calls, 0);
    n_called = n_answered = 0;
    wait_ms = call_ms = 0;
    relock_gate_init(&all_heard);
    assert_int_equal(relock_loop_new(turn, NULL, &cluster.loop), RELOCK_OK);
    io.loop = cluster.loop;
    assert_int_equal(relock_node_io_start(&cluster.topology, &io), RELOCK_OK);
    return r;
}

/* ---- the server ---------------------------------------------------------------------------- */

static void answers(const char *words, const char *bytes)
{
    script_expect(cluster.script[0], words);
    script_answer(cluster.script[0], bytes);
}

/* The connection of the pipeline is number 0, and the server calls it 1; that of the subscriptions
 * is number 1, and the server calls it 2. */
static void both_connect(void)
{
    script_welcome(cluster.script[0], 1);
    script_welcome(cluster.script[0], 2);
    answers("SUBSCRIBE " NAME, SUBSCRIBED);
    script_turn_to(cluster.script[0], 0);
}

static void turns_on(const char *bytes)
{
    answers("CLIENT TRACKING ON REDIRECT 2 OPTIN NOLOOP", bytes);
}

static void begin_to_hear(const char *expected)
{
    n_expected = strlen(expected);
    assert_int_equal(relock_loop_start(cluster.loop), RELOCK_OK);
}

static void assert_heard(const char *expected)
{
    assert_true(n_expected == 0 || relock_gate_wait(&all_heard, soon()));
    assert_true(script_played(cluster.script[0]));
    relock_loop_stop(cluster.loop);
    assert_string_equal(heard, expected);
}

static void assert_hears(const char *expected)
{
    begin_to_hear(expected);
    assert_heard(expected);
}

/* ---- the tests ----------------------------------------------------------------------------- */

static void a_call_is_tracked_once_the_server_has_agreed(void **state)
{
    (void)state;
    both_connect();
    turns_on(OK);
    answers("CLIENT CACHING YES", OK);
    answers("EVALSHA * 1 orders 60000 id:7", ":1\r\n");
    atomic_store(&calls, 1);
    assert_hears("+1");
    assert_true(relock_tracking_is_on(&cluster.node[0]));
}

/* CLIENT CACHING concerns the next command. */
static void a_script_that_is_missing_is_loaded_before(void **state)
{
    (void)state;
    both_connect();
    turns_on(OK);
    answers("CLIENT CACHING YES", OK);
    answers("EVALSHA * 1 orders 60000 id:7", MISSING);
    script_expect(cluster.script[0], "SCRIPT LOAD *");
    script_answer(cluster.script[0], "$1\r\nx\r\n");
    answers("CLIENT CACHING YES", OK);
    answers("EVALSHA * 1 orders 60000 id:7", ":1\r\n");
    atomic_store(&calls, 1);
    assert_hears("+1");
}

/* The reply to the first call comes after the refusal, and the second call is sent after that. */
static void a_server_that_refuses_is_not_asked_again(void **state)
{
    (void)state;
    both_connect();
    turns_on("-NOPERM this user has no permissions to run the 'client|tracking' command\r\n");
    call_ms = relock_clock_now_ms();
    begin_to_hear("11");
    assert_true(script_played(cluster.script[0]));
    answers("EVALSHA * 1 orders 60000 id:7", ":1\r\n");
    answers("EVALSHA * 1 orders 60000 id:7", ":1\r\n");
    atomic_store(&calls, 2);
    relock_loop_wake(cluster.loop);
    assert_heard("11");
    assert_false(relock_tracking_is_on(&cluster.node[0]));
}

static void each_key_is_reported_and_then_all(void **state)
{
    (void)state;
    both_connect();
    turns_on(OK);
    script_turn_to(cluster.script[0], 1);
    script_answer(cluster.script[0], MESSAGE "*2\r\n$1\r\nj\r\n$1\r\nk\r\n");
    script_answer(cluster.script[0], MESSAGE "$-1\r\n");
    hears_reports_only = true; /* nothing orders them and the reply to CLIENT TRACKING */
    assert_hears("jk*");
}

static void it_is_turned_on_again_for_a_new_subscriber(void **state)
{
    (void)state;
    both_connect();
    turns_on(OK);
    answers("CLIENT CACHING YES", OK);
    answers("EVALSHA * 1 orders 60000 id:7", ":1\r\n");
    script_turn_to(cluster.script[0], 1);
    script_close(cluster.script[0]);
    script_welcome(cluster.script[0], 9);
    answers("SUBSCRIBE " NAME, SUBSCRIBED);
    script_turn_to(cluster.script[0], 0);
    answers("CLIENT TRACKING ON REDIRECT 9 OPTIN NOLOOP", OK);
    atomic_store(&calls, 1);
    assert_hears("+1-+");
}

static void it_is_turned_on_again_for_a_new_pipeline(void **state)
{
    (void)state;
    both_connect();
    turns_on(OK);
    answers("CLIENT CACHING YES", OK);
    script_expect(cluster.script[0], "EVALSHA * 1 orders 60000 id:7");
    script_close(cluster.script[0]);
    script_welcome(cluster.script[0], 3);
    turns_on(OK);
    atomic_store(&calls, 1);
    assert_hears("+0-+");
}

/* The id of the subscriber may be that of a stranger's connection there. */
static void a_server_that_was_restarted_waits_for_its_own_subscriber(void **state)
{
    (void)state;
    script_welcome_in_run(cluster.script[0], "second", 1);
    script_welcome(cluster.script[0], 2);
    answers("SUBSCRIBE " NAME, SUBSCRIBED);
    script_close(cluster.script[0]);
    script_welcome_in_run(cluster.script[0], "second", 2);
    answers("SUBSCRIBE " NAME, SUBSCRIBED);
    script_turn_to(cluster.script[0], 0);
    turns_on(OK);
    assert_hears("+");
}

static void turns_on_and_off(void)
{
    both_connect();
    turns_on(OK);
    script_expect(cluster.script[0], "CLIENT CACHING YES");
    answers("EVALSHA * 1 orders 60000 id:7",
            "-ERR CLIENT CACHING can be called only when...\r\n:1\r\n");
}

static void tracking_that_was_turned_off_is_turned_on_again(void **state)
{
    (void)state;
    turns_on_and_off();
    turns_on(OK);
    atomic_store(&calls, 1);
    wait_ms = LONG_MS;
    assert_hears("+1-+");
}

static void a_server_that_turns_it_off_at_once_is_not_asked_again(void **state)
{
    (void)state;
    turns_on_and_off();
    atomic_store(&calls, 1);
    assert_hears("+1-");
    assert_false(relock_tracking_is_on(&cluster.node[0]));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, two_nodes_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_call_is_tracked_once_the_server_has_agreed),
        TEST(a_script_that_is_missing_is_loaded_before),
        TEST(a_server_that_refuses_is_not_asked_again),
        TEST(each_key_is_reported_and_then_all),
        TEST(it_is_turned_on_again_for_a_new_subscriber),
        TEST(it_is_turned_on_again_for_a_new_pipeline),
        TEST(a_server_that_was_restarted_waits_for_its_own_subscriber),
        TEST(tracking_that_was_turned_off_is_turned_on_again),
        TEST(a_server_that_turns_it_off_at_once_is_not_asked_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
