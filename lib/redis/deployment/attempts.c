#include "redis/deployment/run.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/server/reply.h"

#include <stdio.h>

#define MAX_PAUSE_MS 200

/* Whether another attempt may succeed. */
static bool may_succeed(struct relock_attempts *attempts, int result, const char *error)
{
    if (result > 0 || !error)
        return result > 0 || result == RELOCK_E_CONN;
    switch (relock_refusal_of(error)) {
    case RELOCK_REFUSED_HALFWAY:
        attempts->unanswered = true; /* what it has done is not undone */
        return true;
    case RELOCK_REFUSED_FOR_NOW:
    case RELOCK_REFUSED_HERE:
        return true;
    case RELOCK_REFUSED_MOVED:
        return attempts->is_cluster;
    default:
        return false;
    }
}

enum relock_attempts_step relock_attempts_step(struct relock_attempts *attempts, int result,
                                               const char *error, const char *why)
{
    bool passes = may_succeed(attempts, result, error);

    if (attempts->is_once && attempts->unanswered) {
        passes = false;
        result = RELOCK_E_CONN;
        error = NULL;
    }
    /* An earlier refusal says more than that there was no time for another attempt. */
    if (result != RELOCK_E_CONN || attempts->result != RELOCK_E_SERVER || attempts->unanswered) {
        attempts->result = error        ? relock_refusal_result(relock_refusal_of(error))
                           : result > 0 ? RELOCK_E_SERVER
                                        : result;
        (void)snprintf(attempts->why, sizeof(attempts->why), "%s", why);
    }
    if (!passes)
        return RELOCK_ATTEMPTS_END;
    if (result == RELOCK_MOVED && relock_clock_now_ms() < attempts->deadline_ms)
        return RELOCK_ATTEMPTS_FOLLOW;
    attempts->n_redirects = 0;
    attempts->until_ms =
        relock_clock_sooner(relock_clock_in(attempts->pause_ms), attempts->deadline_ms);
    attempts->pause_ms =
        relock_backoff_ms(attempts->pause_ms, RELOCK_ATTEMPTS_PAUSE_MS, MAX_PAUSE_MS);
    return RELOCK_ATTEMPTS_PAUSE;
}
