#include "redis/lane/succession.h"

#include "redis/server/peer.h"

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

void relock_succession_leave(struct relock_succession *succession, const struct relock_peer *old)
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
