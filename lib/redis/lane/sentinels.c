#include "redis/lane/sentinels.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/lane/private.h"
#include "redis/lane/sync_conn.h"
#include "redis/server/reply.h"
#include "redis/server/resolve.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sentinel {
    struct relock_server server;
    struct relock_sync_conn conn; /* closed when nothing is asked */
};

struct relock_sentinels {
    /* constant */
    const struct relock_server *master;
    unsigned n;

    struct relock_succession succession; /* used by any thread */
    atomic_bool stopping;

    /* of the thread of the resolver */
    unsigned first; /* the one to ask first */
    struct sentinel at[];
};

/* The question to one sentinel. */
struct question {
    struct relock_sentinels *sentinels;
    unsigned i;                         /* of the sentinel */
    const struct relock_server *server; /* the sentinel */
    struct relock_question to_it;
    struct relock_master master; /* as it says */
    struct relock_found answer;  /* the addresses of that, or the failure */
};

static int fail(struct question *question, int result, const char *why)
{
    struct relock_wire *wire = &question->to_it.conn->wire;

    (void)snprintf(wire->why, sizeof(wire->why), "%.100s: %.140s", question->server->label, why);
    return result;
}

/* ---- the address --------------------------------------------------------------------------- */

/* Sentinels may be configured to report host names. */
static int resolve(struct question *question, struct relock_resolver *resolver)
{
    struct relock_lookup *lookup;
    const char *why;
    int r = relock_lookup_new(resolver, question->server->scope, &lookup, &why);

    if (r < 0)
        return fail(question, r, why);
    while ((r = relock_lookup_take(lookup, &question->answer.addresses, &why)) == RELOCK_AGAIN &&
           !relock_question_is_over(&question->to_it)) {
        struct pollfd pollfd = {.fd = relock_lookup_fd(lookup), .events = POLLIN};

        (void)poll(&pollfd, 1,
                   relock_clock_poll_ms(relock_clock_now_ms(),
                                        relock_question_slice_ms(&question->to_it)));
    }
    if (r != RELOCK_OK)
        (void)fail(question, r, r < 0 ? why : "no answer from the resolver");
    relock_lookup_free(lookup);
    return r;
}

static int take_master(struct question *question, const struct relock_master *master)
{
    struct relock_resolver *resolver = relock_resolver_new(master->host, master->port);
    int r;

    if (!resolver)
        return fail(question, RELOCK_E_NOMEM, "out of memory");
    r = resolve(question, resolver);
    relock_resolver_free(resolver);
    return r;
}

/* ---- asking -------------------------------------------------------------------------------- */

/* Both replies. */
static int receive_master(struct question *question)
{
    struct redisReply *reply;
    char why[RELOCK_WHY_MAX];
    int r = relock_question_receive(&question->to_it, &reply);

    if (r != RELOCK_OK)
        return r;
    r = relock_master_take(&question->master, reply, why);
    relock_reply_free(reply);
    if (r != RELOCK_OK)
        return fail(question, r, why);
    r = relock_question_receive(&question->to_it, &reply);
    if (r != RELOCK_OK)
        return r;
    relock_master_take_epoch(&question->master, reply);
    relock_reply_free(reply);
    return RELOCK_OK;
}

static int ask(struct question *question)
{
    struct relock_sync_conn *conn = question->to_it.conn;
    int r = relock_question_reach(&question->to_it);

    if (r == RELOCK_OK) {
        relock_master_ask(question->sentinels->master->url.master, &conn->wire.out);
        r = relock_question_send(&question->to_it);
    }
    if (r == RELOCK_OK)
        r = receive_master(question);
    if (r == RELOCK_OK)
        r = take_master(question, &question->master);
    if (r != RELOCK_OK)
        (void)snprintf(question->answer.why, sizeof(question->answer.why), "sentinel %.140s",
                       conn->wire.why);
    relock_sync_conn_close(conn);
    return r > 0 ? RELOCK_E_CONN : r;
}

/* The i-th. The remaining time is divided among the remaining sentinels and the master. */
static void ask_nth(struct relock_sentinels *sentinels, unsigned i, uint64_t limit_ms,
                    struct question *question)
{
    uint64_t now_ms = relock_clock_now_ms();

    question->i = (sentinels->first + i) % sentinels->n;
    question->server = &sentinels->at[question->i].server;
    question->to_it = (struct relock_question){
        .conn = &sentinels->at[question->i].conn,
        .stops = &sentinels->stopping,
        .deadline_ms = now_ms + (relock_clock_left(now_ms, limit_ms) / (sentinels->n - i + 1)),
    };
    question->answer.result = ask(question);
}

/* A sentinel that was not reached may know the master, so another attempt can help. But a refusal
 * explains more. */
static void keep_failure(struct relock_found *kept, const struct relock_found *answer)
{
    bool is_refusal = answer->result != RELOCK_E_CONN;

    if (kept->result == RELOCK_AGAIN || (kept->result == RELOCK_E_CONN && is_refusal))
        memcpy(kept->why, answer->why, sizeof(kept->why));
    if (kept->result == RELOCK_AGAIN || !is_refusal)
        kept->result = answer->result;
}

/* If all lag, the one with the newest configuration does so least. */
static void keep_outdated(struct question *kept, const struct question *question)
{
    if (kept->answer.result != RELOCK_OK || question->master.epoch > kept->master.epoch)
        *kept = *question;
}

static void use(struct relock_sentinels *sentinels, const struct question *question,
                struct relock_found *answer)
{
    const struct relock_master *master = &question->master;

    if (relock_succession_use(&sentinels->succession, master))
        relock_log_write(sentinels->master->log, RELOCK_LOG_INFO,
                         "%s: the master is %s:%u, says the sentinel %s", sentinels->master->label,
                         master->host, master->port, question->server->label);
    sentinels->first = question->i;
    *answer = question->answer;
}

/* Asks one after the other until one answers that does not lag. Returns it; or NULL, with the best
 * of the others in `outdated` and `failed`. */
static const struct question *ask_all(struct relock_sentinels *sentinels, struct question *question,
                                      struct question *outdated, struct relock_found *failed)
{
    uint64_t limit_ms = relock_clock_in(sentinels->master->connect_timeout_ms);

    for (unsigned i = 0; i < sentinels->n; i++) {
        ask_nth(sentinels, i, limit_ms, question);
        if (question->answer.result != RELOCK_OK)
            keep_failure(failed, &question->answer);
        else if (relock_succession_lags(&sentinels->succession, &question->master))
            keep_outdated(outdated, question);
        else
            return question;
        if (failed->result == RELOCK_E_NOMEM || atomic_load(&sentinels->stopping))
            break;
    }
    return NULL;
}

static void look_up(void *arg, bool distrusts, struct relock_found *answer)
{
    struct relock_sentinels *sentinels = arg;
    unsigned n_switches = atomic_load(&sentinels->master->counts->switches);
    struct question question = {.sentinels = sentinels};
    struct question outdated = {.answer.result = RELOCK_AGAIN};
    struct relock_found failed = {.result = RELOCK_AGAIN};
    unsigned n_reports = relock_succession_reports(&sentinels->succession);
    const struct question *best;

    if (distrusts)
        sentinels->first = (sentinels->first + 1) % sentinels->n;
    best = ask_all(sentinels, &question, &outdated, &failed);
    if (!best && outdated.answer.result == RELOCK_OK) {
        best = &outdated;
        if (failed.result == RELOCK_AGAIN && !atomic_load(&sentinels->stopping))
            relock_succession_agree(&sentinels->succession, &best->master, n_reports);
    }
    if (best)
        use(sentinels, best, answer);
    else
        *answer = failed;
    answer->addresses.n_switches = n_switches;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void stop(void *arg)
{
    struct relock_sentinels *sentinels = arg;

    atomic_store(&sentinels->stopping, true);
}

static void destroy(void *arg)
{
    struct relock_sentinels *sentinels = arg;

    for (unsigned i = 0; i < sentinels->n; i++) {
        relock_sync_conn_deinit(&sentinels->at[i].conn);
        relock_server_deinit(&sentinels->at[i].server);
    }
    relock_succession_deinit(&sentinels->succession);
    free(sentinels);
}

static const struct relock_source_ops ops = {
    .look_up = look_up,
    .stop = stop,
    .free = destroy,
};

static int add(struct relock_sentinels *sentinels, const struct relock_options *options,
               const char *id)
{
    const struct relock_url *url = &sentinels->master->url;
    const struct relock_url_host *host = &url->hosts[sentinels->n];
    struct sentinel *new = &sentinels->at[sentinels->n];
    struct relock_options own = *options;
    char *text;
    int r;

    if (asprintf(&text, strchr(host->name, ':') ? "redis%s://[%s]:%u" : "redis%s://%s:%u",
                 url->tls ? "s" : "", host->name, host->port) < 0)
        return RELOCK_E_NOMEM;
    own.url = text;
    own.user = options->sentinel_user;
    own.password = options->sentinel_password;
    own.sentinel_user = NULL;
    own.sentinel_password = NULL;
    r = relock_server_init(&new->server, &own, id, sentinels->master->log);
    free(text);
    if (r < 0)
        return r;
    new->server.is_sentinel = true;
    new->server.scope = sentinels->master->scope;
    relock_sync_conn_init(&new->conn, &new->server);
    sentinels->n++;
    return RELOCK_OK;
}

int relock_sentinels_attach(struct relock_server *server, const struct relock_options *options,
                            const char *id)
{
    unsigned n = server->url.n_hosts;
    struct relock_sentinels *sentinels;
    int r = RELOCK_OK;

    if (!server->url.master)
        return RELOCK_OK;
    sentinels = calloc(1, sizeof(*sentinels) + (n * sizeof(sentinels->at[0])));
    if (!sentinels)
        return RELOCK_E_NOMEM;
    sentinels->master = server;
    atomic_init(&sentinels->stopping, false);
    relock_succession_init(&sentinels->succession);
    while (r == RELOCK_OK && sentinels->n < n)
        r = add(sentinels, options, id);
    if (r == RELOCK_OK) {
        server->resolver = relock_resolver_new_for(&ops, sentinels);
        r = server->resolver ? RELOCK_OK : RELOCK_E_NOMEM;
        if (r < 0)
            relock_log_write(server->log, RELOCK_LOG_ERROR,
                             "no client was made: %s: " RELOCK_RESOLVER_WHY, server->label);
    }
    if (r < 0)
        destroy(sentinels);
    else
        server->sentinels = sentinels;
    return r;
}

void relock_sentinels_retire(struct relock_sentinels *sentinels, const struct relock_peer *old)
{
    relock_succession_retire(&sentinels->succession, old);
    atomic_fetch_add(&sentinels->master->counts->switches, 1);
}

struct relock_succession *relock_sentinels_succession(struct relock_sentinels *sentinels)
{
    return &sentinels->succession;
}

const struct relock_server *relock_sentinels_at(const struct relock_sentinels *sentinels,
                                                unsigned i)
{
    return &sentinels->at[i].server;
}
