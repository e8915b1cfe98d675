#include "lock/hold/holds.h"
#include "lock/hold/private.h"

#include "base/clock.h"
#include "lock/state/keys.h"
#include "lock/state/kind.h"
#include "lock/state/step.h"
#include "lock/wake/outbox.h"
#include "lock/wake/wake.h"
#include "redis/connect/conn_id.h"
#include "redis/io/io.h"
#include "redis/lane/lane.h"
#include "redis/server/reply.h"

static void finish(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    client->guarded.n_settling--;
    relock_holds_end(client, hold);
    relock_cond_broadcast(&client->changed);
}

/* When a command that has failed is repeated: without a connection, when there is one again; else
 * after a pause. */
static uint64_t again_ms(int result, uint64_t lease_ms, uint64_t now_ms)
{
    return result == RELOCK_E_CONN ? RELOCK_NEVER
                                   : relock_clock_after(now_ms, relock_hold_retry_ms(lease_ms));
}

/* Waiters outside of the line recall nothing: they wait for this release. */
static void let_listeners_go_first(struct relock_hold *hold, const struct redisReply *reply,
                                   uint64_t now_ms)
{
    uint64_t place = 0;
    int64_t n_receivers = 0;

    (void)relock_verdict_release(reply, &n_receivers, &place);
    if (n_receivers <= relock_subscription_is_active(hold->resource))
        return;
    relock_resource_rest(hold->resource, now_ms);
    relock_resource_yield(hold->resource, 0, now_ms);
}

/* A command that ran late may have acquired the lock after a later call of this client had joined
 * the line. An acquire takes the client out of it, so that call has to ask again, even if that hold
 * has expired since. Detached holds are released all the time, and the layer that made them knows
 * when to ask again. Or the command was refused, and joined the line after the client had left. */
static void rejoin_line(struct relock_client *client, const struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *resource = hold->resource;
    bool stands = relock_resource_contention(resource)->line.place > 0;

    if (!hold->detached && stands)
        relock_line_ask_again(client, resource);
    else if (hold->may_stand && !stands)
        (void)relock_line_leave(client, resource->name, resource->name_len, resource->kind->side);
}

/* Whether a server that refuses has let go of it by itself. Places in queues do not end with the
 * lease. */
static bool has_ended(const struct relock_hold *hold, const struct redisReply *reply,
                      uint64_t now_ms)
{
    bool has_place = hold->resource->kind->is_queued || hold->may_stand;

    return now_ms >= hold->valid_until_ms && !(has_place && relock_reply_refuses_for_now(reply));
}

static void on_released(void *arg, int result, const struct redisReply *reply)
{
    struct relock_hold *hold = arg;
    struct relock_client *client = hold->resource->client;
    uint64_t now_ms = relock_clock_now_ms();
    bool is_over;

    relock_mutex_lock(&client->mutex);
    if (result == RELOCK_OK) {
        relock_watchdog_own_change(client, hold->resource);
        relock_echo_release(client, hold->resource);
        rejoin_line(client, hold);
    }
    if (result == RELOCK_OK && relock_keys_is_cached(hold->number))
        let_listeners_go_first(hold, reply, now_ms);
    is_over = result == RELOCK_OK || (result != RELOCK_E_CONN && has_ended(hold, reply, now_ms));
    if (is_over && hold->state == RELOCK_HOLD_SETTLING)
        finish(client, hold);
    else if (is_over)
        hold->is_left = false;
    else
        hold->renew_at_ms = again_ms(result, hold->lease_ms, now_ms);
    relock_holds_end_command(client, hold, now_ms);
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

static int release(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_pipeline *pipeline;
    struct relock_request request;
    int r;

    relock_request_unlock(&request, hold, 0, false);
    request.call.fence = &hold->fence;
    pipeline = relock_node_io_pipeline(client->topology, request.call.key);
    r = relock_pipeline_call(pipeline, &request.call, on_released, relock_holds_ref(hold));
    if (r < 0)
        relock_holds_unref(client, hold);
    return r;
}

/* ---- commands left unanswered -------------------------------------------------------------- */

/* Whether a calling thread may be using the fence, without the mutex. */
static bool is_fence_in_use(const struct relock_hold *hold)
{
    return hold->busy || hold->state == RELOCK_HOLD_ASKED || hold->state == RELOCK_HOLD_RELEASING;
}

static void drop_fence(struct relock_hold *hold, const struct relock_conn_id *conn_id)
{
    if (!is_fence_in_use(hold) && hold->fence == conn_id)
        hold->fence = relock_conn_id_unref(hold->fence);
}

void relock_settle_sent(struct relock_hold *hold, struct relock_conn_id *conn_id)
{
    hold->n_unanswered++;
    if (conn_id && !hold->fence)
        hold->fence = relock_conn_id_ref(conn_id);
}

void relock_settle_ended(struct relock_client *client, struct relock_hold *hold,
                         const struct relock_conn_id *conn_id, bool answered)
{
    hold->n_unanswered--;
    if (answered)
        drop_fence(hold, conn_id);
    relock_holds_arm(client, hold, relock_clock_now_ms());
    relock_step_pass(hold);
}

static void on_ended(void *arg, const struct relock_conn_id *conn_id, bool answered)
{
    struct relock_hold *hold = arg;
    struct relock_client *client = hold->resource->client;

    relock_mutex_lock(&client->mutex);
    relock_settle_ended(client, hold, conn_id, answered);
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

void relock_settle_await(struct relock_client *client, struct relock_hold *hold,
                         struct relock_call *call)
{
    struct relock_orphan *orphan = call->orphan;
    bool answered;

    call->orphan = NULL;
    (void)relock_holds_ref(hold);
    hold->n_unanswered++;
    if (relock_orphan_adopt(orphan, on_ended, hold, &answered))
        return;
    hold->n_unanswered--;
    if (answered)
        hold->fence = relock_conn_id_unref(hold->fence);
    relock_holds_unref(client, hold);
}

/* ---- releasing ----------------------------------------------------------------------------- */

void relock_settle_step(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    int r;

    if (relock_hold_is_in_use(hold))
        return; /* its timer is set when that use ends */
    r = release(client, hold);
    if (r == RELOCK_OK)
        relock_holds_send(hold, now_ms);
    else
        hold->renew_at_ms = again_ms(r, hold->lease_ms, now_ms);
    relock_holds_arm(client, hold, now_ms);
}

/* ---- letting go ---------------------------------------------------------------------------- */

static void release_held(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    relock_holds_release(client, hold);
    if (hold->detached)
        return;
    relock_resource_released(hold->resource, false, now_ms);
    relock_subscription_idle(client, hold->resource);
}

static void leave_cache(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    relock_cache_drop(client, hold);
    relock_subscription_idle(client, hold->resource);
}

void relock_let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    switch (hold->state) {
    case RELOCK_HOLD_ASKED:
        break;
    case RELOCK_HOLD_HELD:
    case RELOCK_HOLD_SUSPECT:
        release_held(client, hold, now_ms);
        break;
    case RELOCK_HOLD_LOST:
        relock_holds_release_lost(client, hold);
        break;
    case RELOCK_HOLD_CACHED:
        leave_cache(client, hold);
        break;
    case RELOCK_HOLD_RELEASING:
    case RELOCK_HOLD_SETTLING:
    case RELOCK_HOLD_ENDED:
        return;
    }
    hold->resource->kind->operations->let_go(client, hold, now_ms);
}

void relock_let_go_suspect(struct relock_client *client, struct relock_hold *hold, int result)
{
    uint64_t now_ms = relock_clock_now_ms();

    if (hold->state == RELOCK_HOLD_CACHED)
        relock_let_go(client, hold, now_ms);
    else
        relock_holds_suspect(client, hold, again_ms(result, hold->renewal_ms, now_ms));
}
