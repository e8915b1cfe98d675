/*
 *                 break           return              prove
 *
 *     FINE        BROKEN, log     -                   -
 *     BROKEN      log a new why   RETURNED, log       -
 *     RETURNED    REJECTED, log   -                   FINE
 *     REJECTED    log a new why   -                   FINE, log
 */
#include "redis/io/health.h"

#include "base/backoff.h"

#include <stdio.h>
#include <string.h>

#define MIN_PAUSE_MS 10
#define MAX_PAUSE_MS 1000

void relock_health_init(struct relock_health *health, const struct relock_server *server)
{
    *health = (struct relock_health){.server = server};
}

static void log_up(const struct relock_health *health, bool again)
{
    relock_log_write(health->server->log, RELOCK_LOG_INFO, "%s: connected%s", health->server->label,
                     again ? " again" : "");
}

void relock_health_break(struct relock_health *health, const char *why)
{
    bool was_up = health->state == RELOCK_HEALTH_FINE || health->state == RELOCK_HEALTH_RETURNED;
    bool is_new = was_up || strcmp(health->why, why) != 0;

    if (health->state == RELOCK_HEALTH_FINE)
        health->state = RELOCK_HEALTH_BROKEN;
    else if (health->state == RELOCK_HEALTH_RETURNED)
        health->state = RELOCK_HEALTH_REJECTED;
    relock_log_cause(health->server->log, (struct relock_cause){.what = health->meanwhile},
                     is_new ? RELOCK_LOG_WARNING : RELOCK_LOG_DEBUG, "%s; reconnecting%s", why,
                     health->meanwhile ? health->meanwhile : "");
    (void)snprintf(health->why, sizeof(health->why), "%s", why);
    health->pause_ms = relock_backoff_ms(health->pause_ms, MIN_PAUSE_MS, MAX_PAUSE_MS);
}

void relock_health_return(struct relock_health *health, bool again)
{
    if (health->state != RELOCK_HEALTH_BROKEN)
        return;
    health->state = RELOCK_HEALTH_RETURNED;
    log_up(health, again);
}

void relock_health_prove(struct relock_health *health)
{
    if (health->state == RELOCK_HEALTH_REJECTED)
        log_up(health, true);
    health->state = RELOCK_HEALTH_FINE;
    health->pause_ms = 0;
}
