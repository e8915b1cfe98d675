#include "lock/call/call.h"

#include "base/clock.h"
#include "lock/hold/holds.h"
#include "lock/wake/wake.h"
#include "redis/deployment/run.h"

#include <stdio.h>

/* Too few replicas acknowledged that a hold is to last longer. */
#define AS_BEFORE "the hold is certain for as long as before"

/* ---- running ------------------------------------------------------------------------------- */

static void fail(struct relock_answer *answer, int result, const char *why)
{
    answer->verdict = RELOCK_VERDICT_FAILED;
    answer->result = result;
    (void)snprintf(answer->why, RELOCK_WHY_MAX, "%s", why);
}

/* The answer has this verdict, which may be that the reply cannot be read. */
static void conclude(struct relock_answer *answer, enum relock_verdict verdict)
{
    answer->verdict = verdict;
    if (verdict == RELOCK_VERDICT_FAILED)
        fail(answer, RELOCK_E_SERVER, RELOCK_VERDICT_UNREADABLE);
}

/* Runs the request under the number of the hold. Returns whether there is a reply to read. */
static bool run(struct relock_client *client, struct relock_hold *hold,
                struct relock_request *request, uint64_t deadline_ms, struct relock_answer *answer)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_call *call = &request->call;
    int r;

    call->fence = &hold->fence;
    relock_mutex_unlock(&client->mutex);
    r = relock_call_run(call, client->topology, deadline_ms);
    relock_mutex_lock(&client->mutex);
    answer->unanswered = call->unanswered;
    if (r < 0)
        fail(answer, r, call->why);
    return r == RELOCK_OK;
}

/* Whether fewer replicas than the client needs have acknowledged the change of this request. */
static bool lacks_replicas(const struct relock_client *client, const struct relock_request *request,
                           const struct relock_answer *answer)
{
    return answer->verdict == RELOCK_VERDICT_DONE &&
           request->call.acked_replicas < client->options.min_replicas;
}

static void need_replicas(const struct relock_client *client, struct relock_request *request)
{
    request->call.min_replicas = client->options.min_replicas;
    request->call.replica_timeout_ms = client->options.replica_timeout_ms;
}

static void end(struct relock_client *client, struct relock_hold *hold,
                struct relock_request *request) RELOCK_REQUIRES(client->mutex)
{
    if (request->call.orphan)
        relock_settle_await(client, hold, &request->call);
    relock_call_end(&request->call);
}

void relock_commands_write_lock(const struct relock_acquire *acquire,
                                const struct relock_hold *hold, struct relock_request *request)
{
    enum relock_request_wait wait = RELOCK_REQUEST_TRIES;

    if (acquire->joins)
        wait = acquire->listens ? RELOCK_REQUEST_LISTENS : RELOCK_REQUEST_JOINS;
    else if (!acquire->waiter.tries &&
             relock_inbox_is_refused_for(acquire->client, acquire->resource))
        wait = RELOCK_REQUEST_WAITS;
    relock_request_lock(request, hold, hold->count + 1, acquire->lease_ms, acquire->write_number,
                        wait);
}

void relock_commands_read_ask(const struct relock_acquire *acquire, struct relock_hold *hold,
                              const struct redisReply *reply, struct relock_answer *answer)
{
    const char *why;
    int failure = relock_verdict_failure(hold->resource->kind->failures, reply, &why);
    uint64_t token = 0;

    conclude(answer, relock_verdict_lock(reply, &token, &answer->busy));
    if (!hold->resource->kind->has_permits) /* whatever the server says */
        hold->fencing_token = token;
    if (failure < 0)
        fail(answer, failure, why);
    answer->valid_until_ms = relock_hold_valid_until(answer->sent_ms, acquire->lease_ms);
}

static void ask(struct relock_acquire *acquire, struct relock_hold *hold,
                struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t limit_ms = relock_acquire_limit_ms(acquire, answer->sent_ms);
    struct relock_request request;

    relock_commands_write_lock(acquire, hold, &request);
    need_replicas(acquire->client, &request);
    if (run(acquire->client, hold, &request, limit_ms, answer)) {
        relock_commands_read_ask(acquire, hold, request.call.reply, answer);
        answer->acked_replicas = request.call.acked_replicas;
        if (lacks_replicas(acquire->client, &request, answer)) {
            answer->result = RELOCK_E_REPLICAS;
            (void)snprintf(answer->why, RELOCK_WHY_MAX, "%s",
                           *request.call.why ? request.call.why : "released again");
        }
    }
    end(acquire->client, hold, &request);
}

void relock_commands_read_nest(const struct relock_acquire *acquire, const struct redisReply *reply,
                               struct relock_answer *answer)
{
    conclude(answer, relock_verdict_nest(reply));
    answer->valid_until_ms = relock_hold_valid_until(answer->sent_ms, acquire->lease_ms);
}

/*
 * A level prolongs certainty as a renewal does: only if replicas have it. So it waits for them if
 * it asks for a longer lease, and if the watchdog does not renew the hold yet. Any other level
 * leaves the hold as certain as before, until the watchdog's next renewal.
 */
static void nest(struct relock_acquire *acquire, struct relock_hold *hold,
                 struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_client *client = acquire->client;
    uint64_t limit_ms = relock_acquire_limit_ms(acquire, answer->sent_ms);
    bool is_longer =
        relock_hold_valid_until(answer->sent_ms, acquire->lease_ms) > hold->valid_until_ms;
    bool is_renewed = relock_hold_is_renewed(hold, answer->sent_ms);
    bool waits = client->options.min_replicas > 0 && is_longer &&
                 (acquire->how->lease_ms > 0 || !is_renewed);
    struct relock_request request;

    relock_commands_write_lock(acquire, hold, &request);
    if (waits)
        need_replicas(client, &request);
    if (run(acquire->client, hold, &request, limit_ms, answer))
        relock_commands_read_nest(acquire, request.call.reply, answer);
    if (waits && lacks_replicas(client, &request, answer))
        fail(answer, RELOCK_E_REPLICAS, *request.call.why ? request.call.why : AS_BEFORE);
    else if (!waits && client->options.min_replicas > 0)
        answer->valid_until_ms = hold->valid_until_ms;
    end(acquire->client, hold, &request);
}

bool relock_commands_waits_again(const struct relock_client *client, const struct relock_hold *hold)
{
    const struct relock_resource *resource = hold->resource;

    return hold->count == 0 && hold->state == RELOCK_HOLD_RELEASING && resource->queue &&
           !client->guarded.has_no_line && relock_kind_has_line(resource->kind) &&
           !resource->kind->is_shared && relock_inbox_is_open_for(client, resource);
}

void relock_commands_read_release(struct relock_client *client, struct relock_hold *hold,
                                  bool joins, const struct redisReply *reply,
                                  struct relock_answer *answer)
{
    if (reply)
        conclude(answer, relock_verdict_release(reply, &answer->n_receivers, &answer->place));
    answer->is_announced = answer->verdict == RELOCK_VERDICT_DONE && answer->n_receivers >= 0;
    if (joins && answer->unanswered)
        relock_line_unanswered(client, hold);
}

static void release(struct relock_client *client, struct relock_hold *hold, uint64_t deadline_ms,
                    struct relock_answer *answer) RELOCK_REQUIRES(client->mutex)
{
    bool joins = relock_commands_waits_again(client, hold);
    struct relock_request request;
    bool has_reply;

    relock_request_unlock(&request, hold, hold->count, joins);
    has_reply = run(client, hold, &request, deadline_ms, answer);
    relock_commands_read_release(client, hold, joins, has_reply ? request.call.reply : NULL,
                                 answer);
    end(client, hold, &request);
}

static void extend(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                   uint64_t deadline_ms, struct relock_answer *answer)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_request request;

    relock_request_extend(&request, hold, hold->count, lease_ms);
    need_replicas(client, &request);
    request.call.grants_by_number = true;
    if (run(client, hold, &request, deadline_ms, answer))
        conclude(answer, relock_verdict_renewal(request.call.reply));
    if (lacks_replicas(client, &request, answer))
        fail(answer, RELOCK_E_REPLICAS, *request.call.why ? request.call.why : AS_BEFORE);
    answer->valid_until_ms = relock_hold_valid_until(answer->sent_ms, lease_ms);
    end(client, hold, &request);
}

/* If only its time ran out, or replicas did not acknowledge it, Redis may still have the hold. */
static bool is_known_to_be_gone(const struct relock_hold *hold)
{
    return hold->state == RELOCK_HOLD_LOST && hold->lost_reason != RELOCK_LOST_EXPIRED &&
           hold->lost_reason != RELOCK_LOST_CAPPED && !hold->is_left;
}

static void let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    if (!is_known_to_be_gone(hold)) {
        relock_holds_settle(client, hold, now_ms);
        return;
    }
    hold->count = 0;
    relock_holds_end(client, hold);
}

int relock_commands_inspect(struct relock_lock *lock, uint64_t number, uint64_t deadline_ms,
                            struct relock_request *request, struct relock_inspection *inspection)
{
    int r;

    relock_request_inspect(request, lock->resource, number);
    r = relock_call_run(&request->call, lock->client->topology, deadline_ms);
    if (r == RELOCK_OK && !relock_inspection_read(request->call.reply, inspection)) {
        (void)snprintf(request->call.why, sizeof(request->call.why), RELOCK_VERDICT_UNREADABLE);
        r = RELOCK_E_SERVER;
    }
    return r;
}

static int inspect(struct relock_lock *lock, const struct relock_claim *claim,
                   struct relock_inspection *inspection, char *why)
{
    struct relock_request request;
    int r = relock_commands_inspect(lock, claim->number, claim->deadline_ms, &request, inspection);

    if (r == RELOCK_OK)
        relock_inspection_count(inspection, lock->resource->kind, claim->count);
    else
        (void)snprintf(why, RELOCK_WHY_MAX, "%s", request.call.why);
    relock_call_end(&request.call);
    return r;
}

const struct relock_operations relock_command_operations = {
    .ask = ask,
    .nest = nest,
    .release = release,
    .extend = extend,
    .inspect = inspect,
    .renew = relock_watchdog_renew,
    .let_go = let_go,
};
