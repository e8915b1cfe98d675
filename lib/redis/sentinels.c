#include "redis/sentinels.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "redis/explain.h"
#include "redis/peer.h"
#include "redis/reply.h"
#include "redis/resolve.h"
#include "redis/sync_conn.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The longest wait that does not notice that the thread is to end. */
#define SLICE_MS 50

/* Room for host:port. */
#define ADDRESS_MAX 300

struct sentinel {
    struct relock_server server;
    struct relock_sync_conn conn; /* closed when nothing is asked */
};

struct relock_sentinels {
    /* constant */
    const struct relock_server *master;
    unsigned n;

    atomic_bool stopping;
    struct relock_mutex mutex;
    struct {
        char old[ADDRESS_MAX]; /* the address of the master that was replaced last; or "" */
    } guarded;                 /* by mutex */

    /* of the thread of the resolver */
    unsigned first;         /* the one to ask first */
    char told[ADDRESS_MAX]; /* the address of the master that was logged last */
    struct sentinel at[];
};

/* One question to one sentinel. */
struct question {
    struct relock_sentinels *sentinels;
    const struct relock_server *server; /* the sentinel */
    struct relock_sync_conn *conn;      /* to it */
    uint64_t until_ms;
    struct relock_found *answer;
    bool lags; /* it has answered with the old master */
};

/* `why` names the sentinel. */
static int fail_as(struct question *question, int result, const char *why)
{
    (void)snprintf(question->answer->why, sizeof(question->answer->why), "sentinel %.140s", why);
    return result;
}

static int fail(struct question *question, int result, const char *why)
{
    char text[RELOCK_WHY_MAX];

    (void)snprintf(text, sizeof(text), "%.100s: %.140s", question->server->label, why);
    return fail_as(question, result, text);
}

/* ---- waiting ------------------------------------------------------------------------------- */

static bool is_over(const struct question *question)
{
    return atomic_load(&question->sentinels->stopping) ||
           relock_clock_now_ms() >= question->until_ms;
}

static uint64_t slice_ms(const struct question *question)
{
    uint64_t slice_ms = relock_clock_in(SLICE_MS);

    return slice_ms < question->until_ms ? slice_ms : question->until_ms;
}

static int reach(struct question *question)
{
    int r;

    do {
        r = relock_sync_conn_connect(question->conn, slice_ms(question));
    } while (r == RELOCK_AGAIN && !is_over(question));
    return r == RELOCK_OK ? r : fail_as(question, r, question->conn->wire.why);
}

static int send_question(struct question *question)
{
    struct relock_buffer *out = &question->conn->wire.out;
    int r;

    relock_command_words(out, "SENTINEL", "GET-MASTER-ADDR-BY-NAME",
                         question->sentinels->master->url.master);
    if (out->failed)
        return fail(question, RELOCK_E_NOMEM, "out of memory for a command");
    r = relock_sync_conn_send(question->conn, question->until_ms);
    return r == RELOCK_OK ? r : fail_as(question, r, question->conn->wire.why);
}

static int receive(struct question *question, struct redisReply **reply)
{
    int r;

    do {
        r = relock_sync_conn_receive(question->conn, slice_ms(question), reply);
    } while (r == RELOCK_AGAIN && !is_over(question));
    return r == RELOCK_OK ? r : fail_as(question, r, question->conn->wire.why);
}

/* ---- the address --------------------------------------------------------------------------- */

/* Sentinels may be set up to tell host names. */
static int resolve(struct question *question, struct relock_resolver *resolver)
{
    struct relock_lookup *lookup;
    const char *why;
    int r = relock_lookup_new(resolver, &lookup, &why);

    if (r < 0)
        return fail(question, r, why);
    while ((r = relock_lookup_take(lookup, &question->answer->addresses, &why)) == RELOCK_AGAIN &&
           !is_over(question)) {
        struct pollfd pollfd = {.fd = relock_lookup_fd(lookup), .events = POLLIN};

        (void)poll(&pollfd, 1, relock_clock_poll_ms(relock_clock_now_ms(), slice_ms(question)));
    }
    if (r != RELOCK_OK)
        (void)fail(question, r, r < 0 ? why : "no answer from the resolver");
    relock_lookup_free(lookup);
    return r;
}

static void log_change(const struct question *question, const char *address)
{
    struct relock_sentinels *sentinels = question->sentinels;

    if (strcmp(address, sentinels->told) == 0)
        return;
    (void)snprintf(sentinels->told, sizeof(sentinels->told), "%s", address);
    relock_log_write(sentinels->master->log, RELOCK_LOG_INFO,
                     "%s: the master is %s, says the sentinel %s", sentinels->master->label,
                     address, question->server->label);
}

static bool is_old(struct relock_sentinels *sentinels, const char *address)
{
    bool is_same;

    relock_mutex_lock(&sentinels->mutex);
    is_same = strcmp(address, sentinels->guarded.old) == 0;
    relock_mutex_unlock(&sentinels->mutex);
    return is_same;
}

static int take_address(struct question *question, const char *host, const char *port)
{
    unsigned long number = strtoul(port, NULL, 10);
    struct relock_resolver *resolver;
    char address[ADDRESS_MAX];
    int r;

    if (number == 0 || number > UINT16_MAX)
        return fail(question, RELOCK_E_SERVER, "the port of the master is invalid");
    resolver = relock_resolver_new(host, (uint16_t)number);
    if (!resolver)
        return fail(question, RELOCK_E_NOMEM, "out of memory");
    r = resolve(question, resolver);
    relock_resolver_free(resolver);
    (void)snprintf(address, sizeof(address), "%s:%lu", host, number);
    question->lags = is_old(question->sentinels, address);
    if (r == RELOCK_OK && !question->lags)
        log_change(question, address);
    return r;
}

static int take_error(struct question *question, const char *error)
{
    char text[RELOCK_WHY_MAX];

    relock_explain(text, NULL, error);
    return fail(question, relock_refusal_result(relock_refusal_of(error)), text);
}

static int take_reply(struct question *question, const struct redisReply *reply)
{
    const char *error = relock_reply_error(reply);
    const char *host, *port;
    size_t len;

    if (error)
        return take_error(question, error);
    if (relock_reply_is_nil(reply))
        return fail(question, RELOCK_E_SERVER, "it knows no master of this name");
    if (!relock_reply_text(relock_reply_at(reply, 0), &host, &len) ||
        !relock_reply_text(relock_reply_at(reply, 1), &port, &len))
        return fail(question, RELOCK_E_SERVER, "it does not answer with an address");
    return take_address(question, host, port);
}

/* ---- asking -------------------------------------------------------------------------------- */

static int ask(struct question *question)
{
    struct redisReply *reply = NULL;
    int r = reach(question);

    if (r == RELOCK_OK)
        r = send_question(question);
    if (r == RELOCK_OK)
        r = receive(question, &reply);
    if (r == RELOCK_OK) {
        r = take_reply(question, reply);
        relock_reply_free(reply);
    }
    relock_sync_conn_close(question->conn);
    return r > 0 ? RELOCK_E_CONN : r;
}

/* The i-th. The remaining time is divided among the remaining sentinels and the master. Returns
 * RELOCK_AGAIN with an answer that is the old master. */
static int ask_nth(struct relock_sentinels *sentinels, unsigned i, uint64_t limit_ms,
                   struct relock_found *answer)
{
    unsigned at = (sentinels->first + i) % sentinels->n;
    uint64_t now_ms = relock_clock_now_ms();
    struct question question = {
        .sentinels = sentinels,
        .server = &sentinels->at[at].server,
        .conn = &sentinels->at[at].conn,
        .until_ms = now_ms + (relock_clock_left(now_ms, limit_ms) / (sentinels->n - i + 1)),
        .answer = answer,
    };

    answer->result = ask(&question);
    if (answer->result != RELOCK_OK)
        return answer->result;
    if (question.lags)
        return RELOCK_AGAIN;
    sentinels->first = at;
    return RELOCK_OK;
}

/* A sentinel that was not reached may know the master, so another attempt can help. But a refusal
 * explains more. */
static void keep(struct relock_found *kept, const struct relock_found *answer)
{
    bool is_refusal = answer->result != RELOCK_E_CONN;

    if (kept->result == RELOCK_AGAIN || (kept->result == RELOCK_E_CONN && is_refusal))
        memcpy(kept->why, answer->why, sizeof(kept->why));
    if (kept->result == RELOCK_AGAIN || !is_refusal)
        kept->result = answer->result;
}

static void ask_all(struct relock_sentinels *sentinels, bool distrusts, struct relock_found *answer)
{
    uint64_t limit_ms = relock_clock_in(sentinels->master->connect_timeout_ms);
    struct relock_found refused = {.result = RELOCK_AGAIN};
    struct relock_found old = {.result = RELOCK_AGAIN};

    if (distrusts)
        sentinels->first = (sentinels->first + 1) % sentinels->n;
    for (unsigned i = 0; i < sentinels->n; i++) {
        int r = ask_nth(sentinels, i, limit_ms, answer);

        if (r == RELOCK_OK || r == RELOCK_E_NOMEM)
            return;
        if (r == RELOCK_AGAIN)
            old = *answer;
        else
            keep(&refused, answer);
    }
    *answer = old.result == RELOCK_OK ? old : refused;
}

static void look_up(void *arg, bool distrusts, struct relock_found *answer)
{
    struct relock_sentinels *sentinels = arg;
    unsigned n_switches = atomic_load(&sentinels->master->counts->switches);

    ask_all(sentinels, distrusts, answer);
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
    relock_mutex_deinit(&sentinels->mutex);
    free(sentinels);
}

static void abandon(void *arg)
{
    struct relock_sentinels *sentinels = arg;

    for (unsigned i = 0; i < sentinels->n; i++)
        relock_sync_conn_abandon(&sentinels->at[i].conn);
}

static const struct relock_source_ops ops = {
    .look_up = look_up,
    .stop = stop,
    .free = destroy,
    .abandon = abandon,
};

static int add(struct relock_sentinels *sentinels, const struct relock_options *options,
               const char *id)
{
    const struct relock_url *url = &sentinels->master->url;
    const struct relock_url_host *host = &url->sentinels[sentinels->n];
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
    new->server.name_is_ours = true; /* a sentinel may refuse any name */
    relock_sync_conn_init(&new->conn, &new->server);
    sentinels->n++;
    return RELOCK_OK;
}

int relock_sentinels_attach(struct relock_server *server, const struct relock_options *options,
                            const char *id)
{
    unsigned n = server->url.n_sentinels;
    struct relock_sentinels *sentinels;
    int r = RELOCK_OK;

    if (n == 0)
        return RELOCK_OK;
    sentinels = calloc(1, sizeof(*sentinels) + (n * sizeof(sentinels->at[0])));
    if (!sentinels)
        return RELOCK_E_NOMEM;
    sentinels->master = server;
    atomic_init(&sentinels->stopping, false);
    relock_mutex_init(&sentinels->mutex);
    while (r == RELOCK_OK && sentinels->n < n)
        r = add(sentinels, options, id);
    if (r == RELOCK_OK) {
        server->resolver = relock_resolver_new_for(&ops, sentinels);
        r = server->resolver ? RELOCK_OK : RELOCK_E_NOMEM;
    }
    if (r < 0)
        destroy(sentinels);
    else
        server->sentinels = sentinels;
    return r;
}

void relock_sentinels_leave(struct relock_sentinels *sentinels, const struct relock_peer *old)
{
    relock_mutex_lock(&sentinels->mutex);
    (void)snprintf(sentinels->guarded.old, sizeof(sentinels->guarded.old), "%s:%s", old->host,
                   old->port);
    relock_mutex_unlock(&sentinels->mutex);
    atomic_fetch_add(&sentinels->master->counts->switches, 1);
}

unsigned relock_sentinels_n(const struct relock_sentinels *sentinels)
{
    return sentinels->n;
}

const struct relock_server *relock_sentinels_at(const struct relock_sentinels *sentinels,
                                                unsigned i)
{
    return &sentinels->at[i].server;
}
