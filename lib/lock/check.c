#include "lock/check.h"

#include "base/clock.h"
#include "lock/arming.h"
#include "lock/holds.h"
#include "lock/request.h"
#include "lock/verdict.h"
#include "redis/node_io.h"
#include "redis/pipeline.h"

static void on_checked(void *arg, int result, const struct redisReply *reply)
{
    struct relock_hold *hold = arg;
    struct relock_client *client = hold->resource->client;
    uint64_t now_ms = relock_clock_now_ms();
    int reason = 0;

    if (result == RELOCK_OK)
        reason = relock_verdict_loss(relock_verdict_renewal(reply));
    relock_mutex_lock(&client->mutex);
    if (reason && relock_hold_is_held(hold))
        relock_holds_lose(client, hold, reason, now_ms);
    relock_holds_end_check(client, hold, now_ms);
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

void relock_check_send(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    struct relock_request request;
    struct relock_node *node;
    int r;

    relock_request_check(&request, hold);
    node = relock_node_io_open(client->topology, request.call.key);
    request.call.tracks = relock_arming_take(hold, node, now_ms);
    if (request.call.tracks) {
        r = relock_pipeline_call(node->pipeline, &request.call, on_checked, relock_holds_ref(hold));
        if (r == RELOCK_OK) {
            relock_holds_send_check(hold, now_ms);
            relock_arming_sent(hold, node);
        } else {
            relock_holds_unref(client, hold);
            relock_arming_retry(hold, now_ms);
        }
    }
    relock_holds_arm(client, hold, now_ms);
}
