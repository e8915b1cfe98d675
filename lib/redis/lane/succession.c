#include "redis/lane/private.h"
#include "redis/lane/sentinels.h"

#include "base/status.h"
#include "redis/connect/explain.h"
#include "redis/server/peer.h"
#include "redis/server/reply.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a sentinel's answer ------------------------------------------------------------------- */

void relock_master_ask(const char *name, struct relock_buffer *out)
{
    relock_command_words(out, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name);
    relock_command_words(out, "SENTINEL", "MASTER", name);
}

static int fail(const char *what, char why[RELOCK_WHY_MAX])
{
    (void)snprintf(why, RELOCK_WHY_MAX, "%s", what);
    return RELOCK_E_SERVER;
}

static int refuse(const char *error, char why[RELOCK_WHY_MAX])
{
    int r = relock_refusal_result(relock_refusal_of(error));

    relock_explain(why, NULL, error);
    return r < 0 ? r : RELOCK_E_CONN;
}

static bool read_port(const char *text, uint16_t *port)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (!isdigit((unsigned char)*text) || *end != '\0' || number == 0 || number > UINT16_MAX)
        return false;
    *port = (uint16_t)number;
    return true;
}

int relock_master_take(struct relock_master *master, const struct redisReply *reply,
                       char why[RELOCK_WHY_MAX])
{
    const char *error = relock_reply_error(reply);
    const char *host, *port;
    size_t len, port_len;

    *master = (struct relock_master){0};
    if (error)
        return refuse(error, why);
    if (relock_reply_is_nil(reply))
        return fail("it knows no master of this name", why);
    if (!relock_reply_text(relock_reply_at(reply, 0), &host, &len) ||
        !relock_reply_text(relock_reply_at(reply, 1), &port, &port_len))
        return fail("it does not answer with an address", why);
    if (len == 0 || len >= sizeof(master->host) || strlen(host) != len)
        return fail("the host of the master is invalid", why);
    if (strlen(port) != port_len || !read_port(port, &master->port))
        return fail("the port of the master is invalid", why);
    memcpy(master->host, host, len + 1);
    return RELOCK_OK;
}

/* The reply has names and values in turn. */
void relock_master_take_epoch(struct relock_master *master, const struct redisReply *reply)
{
    const struct redisReply *name;
    const char *value;
    size_t len;

    for (size_t i = 0; (name = relock_reply_at(reply, i)); i += 2) {
        if (!relock_reply_is(name, "config-epoch"))
            continue;
        if (relock_reply_text(relock_reply_at(reply, i + 1), &value, &len))
            master->epoch = strtoull(value, NULL, 10);
        return;
    }
}

/* ---- the order of masters ------------------------------------------------------------------ */

void relock_succession_init(struct relock_succession *succession)
{
    *succession = (struct relock_succession){0};
    relock_mutex_init(&succession->mutex);
}

void relock_succession_deinit(struct relock_succession *succession)
{
    relock_mutex_deinit(&succession->mutex);
}

static bool is_same(const struct relock_master *a, const struct relock_master *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

bool relock_succession_lags(struct relock_succession *succession,
                            const struct relock_master *answer)
{
    bool lags;

    relock_mutex_lock(&succession->mutex);
    lags = is_same(answer, &succession->guarded.old) ||
           (answer->epoch > 0 && answer->epoch < succession->guarded.epoch);
    relock_mutex_unlock(&succession->mutex);
    return lags;
}

/* A lookup may find a failover that no subscription has reported. The connections to the old master
 * are cut when the next one asks. */
bool relock_succession_use(struct relock_succession *succession, const struct relock_master *answer)
{
    struct relock_master *now = &succession->guarded.now;
    bool is_new;

    relock_mutex_lock(&succession->mutex);
    is_new = !is_same(answer, now);
    if (is_new && answer->epoch > succession->guarded.epoch &&
        !is_same(now, &succession->guarded.old))
        succession->guarded.unreported = *now;
    *now = *answer;
    if (answer->epoch > 0)
        succession->guarded.epoch = answer->epoch;
    relock_mutex_unlock(&succession->mutex);
    return is_new;
}

bool relock_succession_replaces(struct relock_succession *succession,
                                const struct relock_master *answer, struct relock_master *old)
{
    *old = (struct relock_master){0};
    relock_mutex_lock(&succession->mutex);
    if (answer->epoch > succession->guarded.epoch) {
        *old = succession->guarded.now;
        succession->guarded.epoch = answer->epoch;
    } else if (answer->epoch == succession->guarded.epoch) {
        *old = succession->guarded.unreported;
        succession->guarded.unreported = (struct relock_master){0};
    }
    relock_mutex_unlock(&succession->mutex);
    return old->host[0] != '\0' && !is_same(answer, old);
}

void relock_succession_retire(struct relock_succession *succession, const struct relock_peer *old)
{
    relock_mutex_lock(&succession->mutex);
    (void)snprintf(succession->guarded.old.host, sizeof(succession->guarded.old.host), "%s",
                   old->host);
    succession->guarded.old.port = (uint16_t)strtoul(old->port, NULL, 10);
    if (is_same(&succession->guarded.unreported, &succession->guarded.old))
        succession->guarded.unreported = (struct relock_master){0};
    succession->guarded.n_reports++;
    relock_mutex_unlock(&succession->mutex);
}

unsigned relock_succession_reports(struct relock_succession *succession)
{
    unsigned n;

    relock_mutex_lock(&succession->mutex);
    n = succession->guarded.n_reports;
    relock_mutex_unlock(&succession->mutex);
    return n;
}

/* A sentinel whose report of a failover was right names the new master. */
void relock_succession_agree(struct relock_succession *succession,
                             const struct relock_master *answer, unsigned n_reports)
{
    relock_mutex_lock(&succession->mutex);
    if (succession->guarded.n_reports == n_reports && is_same(answer, &succession->guarded.old))
        succession->guarded.old = (struct relock_master){0};
    relock_mutex_unlock(&succession->mutex);
}
