#include "redis/io/io.h"

#include "redis/connect/explain.h"
#include "redis/io/private.h"
#include "redis/lane/sentinels.h"
#include "redis/server/loop.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNEL "+switch-master"

/* Longer ones, which no sentinel sends, are cut off. */
#define MESSAGE_MAX 1024

struct subscription {
    struct relock_async_conn conn;
    struct relock_switches *switches;
    unsigned n_replies;          /* since the connection is up */
    struct relock_master master; /* as the first replies say */
};

struct relock_switches {
    const struct relock_server *server;
    relock_switch_fn *fn;
    void *arg;
    char last[MESSAGE_MAX]; /* the last message: each sentinel sends it */
    unsigned n;
    struct subscription at[];
};

/* ---- a failover without a message ---------------------------------------------------------- */

static void report(struct subscription *subscription, const struct relock_master *old)
{
    struct relock_switches *switches = subscription->switches;
    char port[8];

    relock_log_write(switches->server->log, RELOCK_LOG_INFO,
                     "%s: there was a failover from %s:%u to %s:%u, says the sentinel %s",
                     switches->server->label, old->host, old->port, subscription->master.host,
                     subscription->master.port, subscription->conn.server->label);
    (void)snprintf(port, sizeof(port), "%u", old->port);
    switches->last[0] = '\0'; /* the next failover may be the same as the last report */
    switches->fn(switches->arg, &(struct relock_peer){old->host, port});
}

/* The address alone does not tell which of two is newer: a sentinel that was down may lag. */
static void check(struct subscription *subscription)
{
    struct relock_sentinels *sentinels = subscription->switches->server->sentinels;
    struct relock_master old;

    while (relock_succession_replaces(relock_sentinels_succession(sentinels), &subscription->master,
                                      &old))
        report(subscription, &old);
}

static void on_refusal(const struct subscription *subscription, const char *why)
{
    const struct relock_server *sentinel = subscription->conn.server;

    relock_log_write(
        sentinel->log, RELOCK_LOG_WARNING,
        "sentinel %s: the master is unknown: %s; a failover is noticed when a sentinel "
        "reports it",
        sentinel->label, why);
}

/* The first reply has the address, the second the number of the configuration. */
static void take_answer(struct subscription *subscription, const struct redisReply *reply)
{
    char why[RELOCK_WHY_MAX];

    if (++subscription->n_replies == 1) {
        if (relock_master_take(&subscription->master, reply, why) != RELOCK_OK)
            on_refusal(subscription, why);
        return;
    }
    relock_master_take_epoch(&subscription->master, reply);
    if (subscription->master.port > 0)
        check(subscription);
}

/* ---- messages ------------------------------------------------------------------------------ */

/* Cuts the next word off. Returns "" at the end. */
static const char *next_word(char **rest)
{
    char *word = strsep(rest, " ");

    return word ? word : "";
}

/* "<master> <old host> <old port> <new host> <new port>" */
static void on_switch(struct relock_switches *switches, const char *sentinel, const char *text)
{
    const struct relock_server *server = switches->server;
    char words[MESSAGE_MAX];
    char *rest = words;
    const char *host, *port;
    struct relock_peer old;

    if (strcmp(text, switches->last) == 0)
        return;
    (void)snprintf(words, sizeof(words), "%s", text);
    if (strcmp(next_word(&rest), server->url.master) != 0)
        return;
    (void)snprintf(switches->last, sizeof(switches->last), "%s", text);
    old.host = next_word(&rest);
    old.port = next_word(&rest);
    host = next_word(&rest);
    port = next_word(&rest);
    relock_log_write(server->log, RELOCK_LOG_INFO,
                     "%s: the sentinel %s reports a failover from %.100s:%.8s to %.100s:%.8s",
                     server->label, sentinel, old.host, old.port, host, port);
    switches->fn(switches->arg, &old);
}

/* ---- connections --------------------------------------------------------------------------- */

static void on_up(void *arg)
{
    struct subscription *subscription = arg;
    struct relock_buffer *out = relock_async_conn_out(&subscription->conn);

    /* In one piece: the sentinel has no time for a failover between the answer and the
     * subscription. */
    subscription->n_replies = 0;
    relock_master_ask(subscription->switches->server->url.master, out);
    relock_command_words(out, "SUBSCRIBE", CHANNEL);
    if (out->failed)
        relock_async_conn_fail(&subscription->conn, "out of memory for a command");
    else
        relock_async_conn_send(&subscription->conn, RELOCK_MASTER_REPLIES + 1);
}

static void on_error(const struct subscription *subscription, const char *error)
{
    const struct relock_server *sentinel = subscription->conn.server;
    char why[RELOCK_WHY_MAX];

    relock_explain(why, NULL, error);
    relock_log_write(sentinel->log, RELOCK_LOG_WARNING,
                     "sentinel %s: not subscribed to " CHANNEL
                     ": %s; a failover is noticed when the old master does not answer",
                     sentinel->label, why);
}

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct subscription *subscription = arg;
    bool is_asking = subscription->n_replies < RELOCK_MASTER_REPLIES;
    const char *error = relock_reply_error(reply);
    const struct redisReply *kind = relock_reply_at(reply, 0);
    const char *text;
    size_t len;

    if (!is_asking && kind && relock_reply_is(kind, "message")) {
        if (relock_reply_text(relock_reply_at(reply, 2), &text, &len))
            on_switch(subscription->switches, subscription->conn.server->label, text);
        return;
    }
    /* The replies to the questions, then those to SUBSCRIBE and PING. */
    if (!relock_async_wait_is_owed(&subscription->conn)) {
        relock_async_conn_fail(&subscription->conn, RELOCK_REPLY_UNASKED);
        return;
    }
    if (!relock_reply_fits(reply, RELOCK_REPLY_ARRAY |
                                      (is_asking ? RELOCK_REPLY_NIL : RELOCK_REPLY_STATUS))) {
        relock_async_conn_fail(&subscription->conn, RELOCK_REPLY_MISFIT);
        return;
    }
    relock_async_conn_answered(&subscription->conn, true);
    if (is_asking)
        take_answer(subscription, reply);
    else if (error)
        on_error(subscription, error);
}

static const struct relock_async_conn_ops conn_ops = {
    .up = on_up,
    .reply = on_reply,
};

/* ---- life ---------------------------------------------------------------------------------- */

int relock_switches_new(struct relock_loop *loop, const struct relock_server *server,
                        uint64_t ping_ms, relock_switch_fn *fn, void *arg,
                        struct relock_switches **switches)
{
    unsigned n = server->sentinels ? server->url.n_hosts : 0;
    struct relock_switches *new = calloc(1, sizeof(*new) + (n * sizeof(new->at[0])));

    if (!new)
        return RELOCK_E_NOMEM;
    new->server = server;
    new->fn = fn;
    new->arg = arg;
    new->n = n;
    for (unsigned i = 0; i < n; i++) {
        struct subscription *at = &new->at[i];

        at->switches = new;
        relock_async_conn_init(&at->conn, relock_loop_ev(loop),
                               relock_sentinels_at(server->sentinels, i), &conn_ops, at);
        at->conn.ping_ms = ping_ms;
        at->conn.pong_ms = ping_ms;
    }
    *switches = new;
    return RELOCK_OK;
}

struct relock_switches *relock_switches_free(struct relock_switches *switches)
{
    if (!switches)
        return NULL;
    for (unsigned i = 0; i < switches->n; i++)
        relock_async_conn_deinit(&switches->at[i].conn);
    free(switches);
    return NULL;
}

void relock_switches_open(struct relock_switches *switches)
{
    for (unsigned i = 0; i < switches->n; i++)
        relock_async_conn_open(&switches->at[i].conn);
}
