#include "redis/succession.h"

#include "redis/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool relock_succession_use(struct relock_succession *succession, const struct relock_master *answer)
{
    bool is_new;

    relock_mutex_lock(&succession->mutex);
    is_new = !is_same(answer, &succession->guarded.now);
    succession->guarded.now = *answer;
    if (answer->epoch > 0)
        succession->guarded.epoch = answer->epoch;
    relock_mutex_unlock(&succession->mutex);
    return is_new;
}

bool relock_succession_replaces(struct relock_succession *succession,
                                const struct relock_master *answer, struct relock_master *old)
{
    bool replaces;

    relock_mutex_lock(&succession->mutex);
    *old = succession->guarded.now;
    replaces = answer->epoch > succession->guarded.epoch;
    if (replaces)
        succession->guarded.epoch = answer->epoch;
    relock_mutex_unlock(&succession->mutex);
    return replaces && old->host[0] != '\0' && !is_same(answer, old);
}

void relock_succession_leave(struct relock_succession *succession, const struct relock_peer *old)
{
    relock_mutex_lock(&succession->mutex);
    (void)snprintf(succession->guarded.old.host, sizeof(succession->guarded.old.host), "%s",
                   old->host);
    succession->guarded.old.port = (uint16_t)strtoul(old->port, NULL, 10);
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
