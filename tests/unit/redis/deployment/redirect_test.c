/* Two nodes of a cluster, one of which sends commands on to the other. */
#include "redis/lane/call.h"

#include "base/clock.h"
#include "base/thread.h"
#include "redis/connect/conn_id.h"
#include "redis/deployment/run.h"
#include "redis/io/io.h"
#include "redis/server/loop.h"
#include "redis/server/reply.h"
#include "unit/common/two_nodes.h"

#include <stdio.h>
#include <string.h>

#define MOVED "-MOVED 105 b:1\r\n"
#define MOVED_TO_ITSELF "-MOVED 105 a:1\r\n"
#define ASK "-ASK 105 b:1\r\n"
#define MISSING "-NOSCRIPT No matching script.\r\n"

static struct relock_call call;

static int begin(void **state)
{
    call = (struct relock_call){
        .script = &relock_script_renew,
        .key = {"orders", 6},
        .args = {{"60000", 5}, {"id:7", 4}},
        .n_args = 2,
    };
    return two_nodes_begin(state);
}

static int end(void **state)
{
    relock_call_end(&call);
    return two_nodes_end(state);
}

/* The node expects the call and answers it. */
static void answers(unsigned i, const char *bytes)
{
    char words[256];

    (void)snprintf(words, sizeof(words), "EVALSHA %s 1 orders 60000 id:7", call.script->sha1);
    script_expect(cluster.script[i], words);
    script_answer(cluster.script[i], bytes);
}

static void is_asked(unsigned i)
{
    script_expect(cluster.script[i], "ASKING");
    script_answer(cluster.script[i], "+OK\r\n");
}

static void both_connect(void)
{
    connects(0);
    connects(1);
}

/* The slot of the key has moved. */
static void one_refers_to_the_other(void)
{
    both_connect();
    answers(0, MOVED);
    answers(1, ":1\r\n");
}

static void they_refer_to_each_other(unsigned times)
{
    both_connect();
    for (unsigned i = 0; i < times; i++) {
        answers(0, MOVED);
        answers(1, "-MOVED 105 a:1\r\n");
    }
}

/* Another server is behind its address now. */
static void one_names_itself(void)
{
    answers(0, MOVED_TO_ITSELF);
    script_expect_end(cluster.script[0]);
    connects(0);
}

/* The slot of the key moves. */
static void the_other_is_asked(void)
{
    both_connect();
    answers(0, ASK);
    is_asked(1);
    answers(1, ":1\r\n");
}

/* Meanwhile, and the second node does not know the script. */
static void a_script_is_brought_behind_asking(void)
{
    both_connect();
    answers(0, ASK);
    is_asked(1);
    answers(1, MISSING);
    is_asked(1);
    script_expect(cluster.script[1], "EVAL * 1 orders 60000 id:7");
    script_answer(cluster.script[1], ":1\r\n");
}

/* ---- calls --------------------------------------------------------------------------------- */

static void succeeds(void)
{
    int64_t integer = 0;

    assert_int_equal(relock_call_run(&call, &cluster.topology, soon()), RELOCK_OK);
    assert_true(relock_reply_integer(call.reply, &integer));
    assert_int_equal(integer, 1);
    assert_false(call.unanswered);
    relock_call_end(&call);
}

static void a_call_goes_where_its_key_was_moved(void **state)
{
    (void)state;
    one_refers_to_the_other();
    answers(1, ":1\r\n");
    succeeds();
    succeeds();
    assert_int_equal(cluster.n_redirects, 1);
}

static void a_call_connects_again_to_a_node_that_names_itself(void **state)
{
    (void)state;
    connects(0);
    for (unsigned i = 0; i < 2; i++)
        one_names_itself();
    answers(0, ":1\r\n");
    succeeds();
    assert_non_null(strstr(call.why, "the server behind this address was replaced"));
}

/* The address may lead to the old server for a while. */
static void a_node_that_always_names_itself_is_asked_with_pauses(void **state)
{
    const uint64_t began_ms = relock_clock_now_ms();

    (void)state;
    connects(0);
    for (unsigned i = 0; i < 8; i++)
        one_names_itself();
    answers(0, ":1\r\n");
    succeeds();
    assert_true(relock_clock_now_ms() - began_ms >= 50);
}

static void a_call_asks_only_once(void **state)
{
    (void)state;
    the_other_is_asked();
    answers(0, ":1\r\n");
    succeeds();
    succeeds();
}

static void a_script_that_is_missing_behind_asking_is_sent_whole(void **state)
{
    (void)state;
    a_script_is_brought_behind_asking();
    succeeds();
}

/* Its other keys may not be there yet. */
static void a_script_of_several_keys_waits_until_its_slot_has_moved(void **state)
{
    (void)state;
    call.script = &relock_script_read_renew;
    connects(0);
    answers(0, ASK);
    answers(0, ASK);
    answers(0, ":1\r\n");
    succeeds();
}

/* Redis says so only if a command names them, which those of the library do not. */
static void a_call_waits_while_its_keys_are_at_two_nodes(void **state)
{
    (void)state;
    connects(0);
    for (int i = 0; i < 3; i++)
        answers(0, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
    answers(0, ":1\r\n");
    succeeds();
}

static void nodes_that_refer_to_each_other_are_asked_with_pauses(void **state)
{
    (void)state;
    they_refer_to_each_other(10);
    answers(0, ":1\r\n");
    succeeds();
}

static void a_lost_connection_is_a_reason_to_look_for_the_key(void **state)
{
    (void)state;
    connects(0);
    script_expect(cluster.script[0], "EVALSHA * 1 orders 60000 id:7");
    script_close(cluster.script[0]);
    connects(0);
    answers(0, ":1\r\n");
    assert_int_equal(relock_call_run(&call, &cluster.topology, soon()), RELOCK_OK);
    assert_int_equal(cluster.n_distrusts, 1);
}

/* Of such calls, none may last until its connection counts as failed. */
static void a_call_that_ends_without_an_answer_is_a_reason_too(void **state)
{
    (void)state;
    assert_int_equal(relock_call_run(&call, &cluster.topology, relock_clock_in(50)), RELOCK_E_CONN);
    assert_int_equal(cluster.n_rechecks, 1);
    assert_int_equal(cluster.n_distrusts, 0); /* it may only be slow */
    script_accept(cluster.script[0]);
}

static void a_script_that_met_a_key_of_another_node_is_repeated_as_if_it_had_run(void **state)
{
    (void)state;
    connects(0);
    answers(0, "-ERR Script attempted to access a non local key in a cluster node\r\n");
    answers(0, ":1\r\n");
    assert_int_equal(relock_call_run(&call, &cluster.topology, soon()), RELOCK_OK);
    assert_true(call.unanswered);
}

static void an_unanswered_command_is_killed_at_the_node_that_has_it(void **state)
{
    struct relock_conn_id *fence =
        relock_conn_id_new(&cluster.server[0], SCRIPT_FIRST_RUN, 9, "/script:9", 9);

    (void)state;
    atomic_store(&cluster.owner, &cluster.node[1]);
    call.fence = &fence;
    connects(0);
    script_expect(cluster.script[0], "CLIENT KILL ID 9 ADDR /script:9");
    script_answer(cluster.script[0], ":1\r\n");
    connects(1);
    answers(1, ":1\r\n");
    succeeds();
    assert_null(fence);
}

/* ---- the I/O thread ------------------------------------------------------------------------ */

static struct relock_loop *loop;
static struct relock_gate answered;
static int result;
static unsigned n_calls; /* those that are sent once both are connected */

static void on_answer(void *arg, int r, const struct redisReply *reply)
{
    int64_t integer = 0;

    (void)arg;
    if (r == RELOCK_E_CONN)
        return; /* it is sent again when there is a connection */
    result = r;
    if (r == RELOCK_OK && (!relock_reply_integer(reply, &integer) || integer != 1))
        result = RELOCK_E_SERVER;
    relock_gate_open(&answered);
}

static void on_up(void *arg)
{
    (void)arg;
    if (++n_calls < 2)
        return;
    n_calls = 2;
    result = relock_pipeline_call(cluster.node[0].pipeline, &call, on_answer, NULL);
    if (result < 0)
        relock_gate_open(&answered);
}

static uint64_t never(void *arg)
{
    (void)arg;
    return RELOCK_NEVER;
}

/* The call is sent to the first node, when both are connected. */
static int sends(void)
{
    struct relock_topology_io io = {
        .answer_ms = slow_ms(SOON_MS), .ping_ms = slow_ms(SOON_MS), .up = on_up};

    n_calls = 0;
    relock_gate_init(&answered);
    assert_int_equal(relock_loop_new(never, NULL, &loop), RELOCK_OK);
    io.loop = loop;
    assert_int_equal(relock_node_io_start(&cluster.topology, &io), RELOCK_OK);
    assert_int_equal(cluster.topology.io.open(&cluster.topology, &cluster.node[1]), RELOCK_OK);
    assert_int_equal(relock_loop_start(loop), RELOCK_OK);
    assert_true(relock_gate_wait(&answered, soon()));
    relock_loop_stop(loop);
    relock_node_io_stop(&cluster.topology);
    loop = relock_loop_free(loop);
    return result;
}

static void a_renewal_goes_where_its_key_was_moved(void **state)
{
    (void)state;
    one_refers_to_the_other();
    assert_int_equal(sends(), RELOCK_OK);
}

static void a_renewal_goes_over_a_new_connection_if_a_node_names_itself(void **state)
{
    (void)state;
    both_connect();
    one_names_itself();
    answers(0, ":1\r\n");
    assert_int_equal(sends(), RELOCK_OK);
}

static void a_renewal_asks_where_its_slot_goes(void **state)
{
    (void)state;
    the_other_is_asked();
    assert_int_equal(sends(), RELOCK_OK);
}

/* A plain command follows ASKING as a script does. */
static void a_look_asks_where_its_slot_goes(void **state)
{
    (void)state;
    call = (struct relock_call){
        .script = &relock_script_hexists,
        .key = {"orders", 6},
        .args = {{"id:7", 4}},
        .n_args = 1,
    };
    both_connect();
    script_expect(cluster.script[0], "HEXISTS orders id:7");
    script_answer(cluster.script[0], ASK);
    is_asked(1);
    script_expect(cluster.script[1], "HEXISTS orders id:7");
    script_answer(cluster.script[1], ":1\r\n");
    assert_int_equal(sends(), RELOCK_OK);
}

static void a_renewal_brings_its_script_behind_asking(void **state)
{
    (void)state;
    a_script_is_brought_behind_asking();
    assert_int_equal(sends(), RELOCK_OK);
}

static void a_renewal_of_several_keys_is_refused_while_its_slot_moves(void **state)
{
    (void)state;
    call.script = &relock_script_read_renew;
    both_connect();
    answers(0, ASK);
    assert_int_equal(sends(), RELOCK_E_SERVER);
}

static void a_renewal_is_not_sent_on_for_ever(void **state)
{
    (void)state;
    they_refer_to_each_other(3);
    assert_int_equal(sends(), RELOCK_E_SERVER);
}

/* The answers of the two nodes come in any order. */
static void a_release_is_sent_when_the_node_that_has_an_older_command_kills_it(void **state)
{
    struct relock_conn_id *fence =
        relock_conn_id_new(&cluster.server[1], SCRIPT_FIRST_RUN, 9, "/script:9", 9);

    (void)state;
    call.fence = &fence;
    both_connect();
    script_expect(cluster.script[1], "CLIENT KILL ID 9 ADDR /script:9");
    script_answer(cluster.script[1], ":1\r\n");
    answers(0, ":1\r\n");
    assert_int_equal(sends(), RELOCK_OK);
    call.fence = NULL;
    (void)relock_conn_id_unref(fence);
}

#define REDIRECT_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REDIRECT_TEST(a_call_goes_where_its_key_was_moved),
        REDIRECT_TEST(a_call_connects_again_to_a_node_that_names_itself),
        REDIRECT_TEST(a_node_that_always_names_itself_is_asked_with_pauses),
        REDIRECT_TEST(a_call_asks_only_once),
        REDIRECT_TEST(a_script_that_is_missing_behind_asking_is_sent_whole),
        REDIRECT_TEST(a_script_of_several_keys_waits_until_its_slot_has_moved),
        REDIRECT_TEST(a_call_waits_while_its_keys_are_at_two_nodes),
        REDIRECT_TEST(nodes_that_refer_to_each_other_are_asked_with_pauses),
        REDIRECT_TEST(a_lost_connection_is_a_reason_to_look_for_the_key),
        REDIRECT_TEST(a_call_that_ends_without_an_answer_is_a_reason_too),
        REDIRECT_TEST(a_script_that_met_a_key_of_another_node_is_repeated_as_if_it_had_run),
        REDIRECT_TEST(an_unanswered_command_is_killed_at_the_node_that_has_it),
        REDIRECT_TEST(a_release_is_sent_when_the_node_that_has_an_older_command_kills_it),
        REDIRECT_TEST(a_renewal_goes_where_its_key_was_moved),
        REDIRECT_TEST(a_renewal_goes_over_a_new_connection_if_a_node_names_itself),
        REDIRECT_TEST(a_renewal_asks_where_its_slot_goes),
        REDIRECT_TEST(a_look_asks_where_its_slot_goes),
        REDIRECT_TEST(a_renewal_brings_its_script_behind_asking),
        REDIRECT_TEST(a_renewal_of_several_keys_is_refused_while_its_slot_moves),
        REDIRECT_TEST(a_renewal_is_not_sent_on_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
