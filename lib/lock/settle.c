#include "lock/settle.h"

#include "base/clock.h"
#include "lock/holds.h"
#include "lock/request.h"
#include "redis/origin.h"
#include "redis/orphan.h"
#include "redis/pipeline.h"

static void finish(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    if (--client->guarded.n_settling == 0)
        relock_cond_broadcast(&client->changed);
    relock_holds_end(client, hold);
}

static void on_released(void *arg, int result, const struct redisReply *reply)
{
    struct relock_hold *hold = arg;
    struct relock_client *client = hold->site->client;
    uint64_t now_ms = relock_clock_now_ms();

    (void)reply; /* released, or gone already */
    relock_mutex_lock(&client->mutex);
    hold->in_flight = false;
    if (result == RELOCK_OK || (result != RELOCK_E_CONN && now_ms >= hold->valid_until_ms))
        finish(client, hold);
    else if (result > 0 && !hold->loaded)
        relock_client_set_timer(client, &hold->timer, now_ms); /* the script is there now */
    else if (result != RELOCK_E_CONN)
        relock_client_set_timer(client, &hold->timer,
                                now_ms + relock_hold_retry_ms(hold->lease_ms));
    hold->loaded = result > 0;
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

static int release(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_request request;
    int r;

    if (hold->debt) {
        r = relock_pipeline_kill(client->pipeline, hold->debt);
        if (r < 0)
            return r;
    }
    relock_request_unlock(&request, hold->site, hold->number, 0);
    r = relock_pipeline_call(client->pipeline, &request.call, on_released, relock_holds_ref(hold));
    if (r < 0)
        relock_holds_unref(client, hold);
    return r;
}

/* ---- commands left unanswered -------------------------------------------------------------- */

/* Whether the thread of a call may be looking at the debt, under no mutex. */
static bool is_debt_in_use(const struct relock_hold *hold)
{
    return hold->busy || hold->state == RELOCK_HOLD_ASKED || hold->state == RELOCK_HOLD_LEAVING;
}

static void forgive(struct relock_hold *hold, const struct relock_origin *origin)
{
    if (!is_debt_in_use(hold) && hold->debt == origin)
        hold->debt = relock_origin_unref(hold->debt);
}

static void on_ended(void *arg, const struct relock_origin *origin, bool answered)
{
    struct relock_hold *hold = arg;
    struct relock_client *client = hold->site->client;

    relock_mutex_lock(&client->mutex);
    hold->n_errands--;
    if (answered)
        forgive(hold, origin);
    if (hold->state == RELOCK_HOLD_SETTLING)
        relock_client_set_timer(client, &hold->timer, 0);
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

void relock_settle_await(struct relock_client *client, struct relock_hold *hold,
                         struct relock_call *call)
{
    struct relock_orphan *orphan = call->orphan;
    bool answered;

    call->orphan = NULL;
    if (!orphan)
        return;
    (void)relock_holds_ref(hold);
    hold->n_errands++;
    if (relock_orphan_adopt(orphan, on_ended, hold, &answered))
        return;
    hold->n_errands--;
    if (answered)
        hold->debt = relock_origin_unref(hold->debt);
    relock_holds_unref(client, hold);
}

/* ---- releasing ----------------------------------------------------------------------------- */

void relock_settle_step(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    int r;

    if (hold->in_flight || hold->busy || hold->n_errands > 0)
        return; /* whoever ends that sets the timer anew */
    r = release(client, hold);
    hold->in_flight = r == RELOCK_OK;
    /* Without a connection the next one comes back to this hold; without memory, time does. */
    if (r == RELOCK_E_NOMEM)
        relock_client_set_timer(client, &hold->timer,
                                now_ms + relock_hold_retry_ms(hold->lease_ms));
}
