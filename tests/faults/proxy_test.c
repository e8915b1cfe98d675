/* The proxy does to a connection what its header says. Plain hiredis is on both sides. */
#include "faults.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define N_RESETS 200

/* Connects through the proxy. NULL if it refuses. */
static redisContext *open_client(struct faults *t)
{
    redisContext *client = redisConnectUnix(proxy_url(t->proxy) + strlen("unix://"));

    if (client && client->err == 0)
        return client;
    redisFree(client);
    return NULL;
}

/* Sends without waiting for the reply. */
static void tell(redisContext *client, const char *command)
{
    int done = 0;

    assert_int_equal(redisAppendCommand(client, command), REDIS_OK);
    while (!done)
        assert_int_equal(redisBufferWrite(client, &done), REDIS_OK);
}

/* Whether the next reply is that text, or that number. */
static bool hears(redisContext *client, const char *text)
{
    redisReply *reply = NULL;
    char number[32] = "";
    bool yes;

    redisSetTimeout(client, (struct timeval){.tv_sec = (time_t)slow_ms(SOON_MS) / 1000});
    if (redisGetReply(client, (void **)&reply) != REDIS_OK)
        return false;
    snprintf(number, sizeof(number), "%lld", reply->integer);
    yes = strcmp(reply->str ? reply->str : number, text) == 0;
    freeReplyObject(reply);
    return yes;
}

static bool hears_the_end(redisContext *client)
{
    void *reply;

    redisSetTimeout(client, (struct timeval){.tv_sec = (time_t)slow_ms(SOON_MS) / 1000});
    return redisGetReply(client, &reply) != REDIS_OK && client->err == REDIS_ERR_EOF;
}

static bool hears_nothing(redisContext *client)
{
    char byte;

    let_pass(50);
    return recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

static const char *value_of(struct faults *t, const char *key)
{
    return probe_text(t->f->probe, "GET %s", key);
}

static bool is_deleted(struct faults *t, const char *key)
{
    return probe_int(t->f->probe, "DEL %s", key) == 1;
}

static void commands_and_replies_pass_and_are_counted(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);

    tell(client, "SET a 1");
    tell(client, "GET a");
    tell(client, "get b");
    assert_true(hears(client, "OK"));
    assert_true(hears(client, "1"));
    assert_int_equal(proxy_count(t->proxy, "GET"), 2);
    assert_int_equal(proxy_count(t->proxy, "* a"), 2);
    assert_int_equal(proxy_count(t->proxy, ""), 3);
    assert_int_equal(proxy_next_place(t->proxy, 0, "GET"), 2);
    assert_int_equal(proxy_next_place(t->proxy, 2, "GET"), 3);
    redisFree(client);
    assert_true(is_deleted(t, "a"));
}

static void a_known_script_goes_by_its_name(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);
    char sha1[64];

    snprintf(sha1, sizeof(sha1), "%s", probe_text(t->f->probe, "SCRIPT LOAD %s", "return 7"));
    proxy_name_script(t->proxy, "seven", sha1);
    freeReplyObject(redisCommand(client, "EVALSHA %s 1 orders x", sha1));
    assert_int_equal(proxy_count(t->proxy, "seven 1 orders x"), 1);
    assert_int_equal(proxy_count(t->proxy, "EVALSHA"), 0);
    redisFree(client);
}

static void an_error_is_seen_by_its_code(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);

    tell(client, "EVALSHA 0123456789012345678901234567890123456789 0");
    assert_true(proxy_counts(t->proxy, "-NOSCRIPT", 1));
    redisFree(client);
}

static void bytes_that_come_one_by_one_are_the_same(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);

    proxy_by_byte(t->proxy, true);
    tell(client, "ECHO 0123456789");
    tell(client, "PING");
    assert_true(hears(client, "0123456789"));
    assert_true(hears(client, "PONG"));
    redisFree(client);
}

static void a_message_answers_no_command(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_SWALLOW, "PING");
    struct redisReply *reply = NULL;

    tell(client, "SUBSCRIBE news");
    assert_int_equal(redisGetReply(client, (void **)&reply), REDIS_OK);
    freeReplyObject(reply);
    probe_int(t->f->probe, "PUBLISH news hello");
    assert_int_equal(redisGetReply(client, (void **)&reply), REDIS_OK);
    assert_string_equal(reply->element[2]->str, "hello");
    freeReplyObject(reply);
    tell(client, "PING");
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    assert_true(hears_nothing(client));
    redisFree(client);
}

static void a_held_command_runs_when_it_is_let_go(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "SET a");

    tell(client, "SET a 1");
    tell(client, "PING");
    assert_true(proxy_met(rule, 1));
    assert_true(hears_nothing(client));
    assert_string_equal(value_of(t, "a"), "");
    proxy_let_go(rule);
    assert_true(hears(client, "OK"));
    assert_true(hears(client, "PONG"));
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    redisFree(client);
    assert_true(is_deleted(t, "a"));
}

static void a_held_command_runs_though_the_client_has_hung_up(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "SET a");

    tell(client, "SET a 1");
    assert_true(proxy_met(rule, 1));
    redisFree(client);
    let_pass(50);
    proxy_let_go(rule);
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    assert_true(is_deleted(t, "a"));
}

static void a_held_command_dies_with_the_connection_to_the_server(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "SET a");
    redisReply *id = redisCommand(client, "CLIENT ID");

    tell(client, "SET a 1");
    assert_true(proxy_met(rule, 1));
    redisFree(client);
    assert_int_equal(probe_int(t->f->probe, "CLIENT KILL ID %lld", id->integer), 1);
    freeReplyObject(id);
    assert_int_equal(proxy_fate(rule), PROXY_ENDED);
    proxy_let_go(rule);
    assert_string_equal(value_of(t, "a"), "");
}

static void a_lost_command_does_not_run(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_LOSE, "SET a");

    tell(client, "SET a 1");
    tell(client, "SET b 1");
    assert_int_equal(proxy_fate(rule), PROXY_ENDED);
    assert_true(hears_nothing(client));
    assert_int_equal(probe_n_keys(t->f->probe), 0);
    redisFree(client);
}

static void a_held_reply_comes_when_it_is_let_go(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD_REPLY, "SET a");

    tell(client, "SET a 1");
    tell(client, "PING");
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    assert_true(is_deleted(t, "a"));
    assert_true(hears_nothing(client));
    proxy_let_go(rule);
    assert_true(hears(client, "OK"));
    assert_true(hears(client, "PONG"));
    redisFree(client);
}

static void a_swallowed_reply_takes_the_later_ones_with_it(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_SWALLOW, "SET a");

    tell(client, "SET a 1");
    tell(client, "SET b 1");
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    assert_true(hears_nothing(client));
    assert_true(is_deleted(t, "a"));
    assert_true(is_deleted(t, "b"));
    redisFree(client);
}

static void a_connection_is_cut_before_behind_or_instead_of_a_reply(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);

    proxy_next(t->proxy, PROXY_CUT, "SET a");
    tell(client, "SET a 1");
    assert_true(hears_the_end(client));
    assert_string_equal(value_of(t, "a"), "");
    redisFree(client);

    client = open_client(t);
    proxy_next(t->proxy, PROXY_CUT_UNANSWERED, "SET b");
    tell(client, "SET b 1");
    assert_true(hears_the_end(client));
    assert_true(is_deleted(t, "b"));
    redisFree(client);

    client = open_client(t);
    proxy_next(t->proxy, PROXY_CUT_ANSWERED, "SET c");
    tell(client, "SET c 1");
    assert_true(hears(client, "OK"));
    assert_true(hears_the_end(client));
    assert_true(is_deleted(t, "c"));
    redisFree(client);
}

static void a_stalled_connection_is_silent_until_it_flows(void **state)
{
    struct faults *t = *state;
    redisContext *stalled = open_client(t);
    redisContext *other = open_client(t);

    tell(stalled, "SELECT 0");
    assert_true(hears(stalled, "OK"));
    proxy_stall(t->proxy, "SELECT");
    tell(stalled, "SET a 1");
    tell(other, "PING");
    assert_true(hears(other, "PONG"));
    assert_true(hears_nothing(stalled));
    assert_string_equal(value_of(t, "a"), "");
    proxy_flow(t->proxy);
    assert_true(hears(stalled, "OK"));
    assert_true(is_deleted(t, "a"));
    redisFree(stalled);
    redisFree(other);
}

static void connections_are_cut_and_refused(void **state)
{
    struct faults *t = *state;
    redisContext *client = open_client(t);

    tell(client, "PING");
    assert_true(hears(client, "PONG"));
    assert_int_equal(proxy_n_connections(t->proxy), 1);
    proxy_refuse(t->proxy, true);
    assert_null(open_client(t));
    proxy_cut(t->proxy, "");
    assert_true(hears_the_end(client));
    assert_int_equal(proxy_n_connections(t->proxy), 0);
    redisFree(client);

    proxy_refuse(t->proxy, false);
    client = open_client(t);
    tell(client, "PING");
    assert_true(hears(client, "PONG"));
    redisFree(client);
}

/* Commands one after the other. */
struct traffic {
    struct faults *t;
    atomic_bool is_over;
    atomic_uint n_replies;
    unsigned before;
};

/* Over a new connection when a reset has ended the one before. */
static int send_commands(void *arg)
{
    struct traffic *traffic = arg;
    redisContext *client = NULL;
    sigset_t sigpipe;

    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe, NULL);
    while (!atomic_load(&traffic->is_over)) {
        redisReply *reply = client ? redisCommand(client, "PING") : NULL;

        if (reply) {
            atomic_fetch_add(&traffic->n_replies, 1);
        } else {
            redisFree(client);
            client = open_client(traffic->t);
        }
        freeReplyObject(reply);
    }
    redisFree(client);
    return 0;
}

static bool goes_on(void *arg)
{
    struct traffic *traffic = arg;

    return atomic_load(&traffic->n_replies) > traffic->before;
}

static void a_command_that_comes_during_a_reset_is_not_kept_back(void **state)
{
    static const enum proxy_deed deeds[] = {PROXY_HOLD, PROXY_HOLD_REPLY};
    struct traffic traffic = {.t = *state};
    struct actor *actor = actor_start();

    actor_begin(actor, send_commands, &traffic);
    for (int i = 0; i < N_RESETS; i++) {
        proxy_each(traffic.t->proxy, deeds[i % 2], "PING");
        proxy_reset(traffic.t->proxy);
        traffic.before = atomic_load(&traffic.n_replies);
        assert_true(wait_until(goes_on, &traffic, SOON_MS / 2));
    }
    atomic_store(&traffic.is_over, true);
    assert_int_equal(actor_result(actor), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(commands_and_replies_pass_and_are_counted),
        FAULT_TEST(a_known_script_goes_by_its_name),
        FAULT_TEST(an_error_is_seen_by_its_code),
        FAULT_TEST(bytes_that_come_one_by_one_are_the_same),
        FAULT_TEST(a_message_answers_no_command),
        FAULT_TEST(a_held_command_runs_when_it_is_let_go),
        FAULT_TEST(a_held_command_runs_though_the_client_has_hung_up),
        FAULT_TEST(a_held_command_dies_with_the_connection_to_the_server),
        FAULT_TEST(a_lost_command_does_not_run),
        FAULT_TEST(a_held_reply_comes_when_it_is_let_go),
        FAULT_TEST(a_swallowed_reply_takes_the_later_ones_with_it),
        FAULT_TEST(a_connection_is_cut_before_behind_or_instead_of_a_reply),
        FAULT_TEST(a_stalled_connection_is_silent_until_it_flows),
        FAULT_TEST(connections_are_cut_and_refused),
        FAULT_TEST(a_command_that_comes_during_a_reset_is_not_kept_back),
    };

    unsetenv("RELOCK_TEST_TLS"); /* the client here is hiredis */
    return FAULT_TESTS_RUN(tests);
}
