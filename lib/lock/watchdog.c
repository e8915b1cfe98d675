#include "lock/watchdog.h"

#include "base/clock.h"
#include "lock/holds.h"
#include "lock/redlock.h"
#include "lock/request.h"
#include "lock/settle.h"
#include "lock/sites.h"
#include "lock/vote.h"
#include "redis/explain.h"
#include "redis/pipeline.h"
#include "redis/reply.h"

#include <stddef.h>

#define ANSWER_MIN_MS 100

uint64_t relock_watchdog_answer_ms(const struct relock_options *options)
{
    uint64_t ms = relock_hold_renewal_ms(options->watchdog_timeout_ms);

    if (ms < ANSWER_MIN_MS)
        ms = ANSWER_MIN_MS;
    return ms < options->command_timeout_ms ? ms : options->command_timeout_ms;
}

static void watch(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    if (relock_hold_is_held(hold))
        relock_client_set_timer(client, &hold->timer,
                                relock_hold_due_ms(hold, relock_clock_now_ms()));
}

/* No answer, or none that counts: certain as long as it was, and to be tried again. */
static void suspect(struct relock_client *client, struct relock_hold *hold, uint64_t again_ms)
    RELOCK_REQUIRES(client->mutex)
{
    hold->state = RELOCK_HOLD_SUSPECT;
    hold->renew_at_ms = again_ms;
    client->guarded.stats.renewal_failures++;
}

static void take_answer(struct relock_client *client, struct relock_hold *hold,
                        const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    uint64_t lease_ms = hold->renewal_ms;
    uint64_t now_ms = relock_clock_now_ms();
    int64_t answer;

    if (!relock_reply_integer(reply, &answer)) {
        suspect(client, hold, now_ms + relock_hold_retry_ms(lease_ms));
        return;
    }
    if (answer <= 0) {
        relock_holds_lose(client, hold, answer == 0 ? RELOCK_LOST_GONE : RELOCK_LOST_TAKEN, now_ms);
        return;
    }
    hold->state = RELOCK_HOLD_HELD;
    client->guarded.stats.renewed++;
    /* The schedule is absolute: from when it was asked, not from when it was answered. */
    hold->renew_at_ms = relock_clock_after(hold->sent_ms, relock_hold_renewal_ms(lease_ms));
    if (hold->unverified) /* handed off since it was sent: the answer may be older */
        relock_hold_verify_soon(hold, now_ms);
    relock_holds_prolong(client, hold, hold->sent_ms, lease_ms);
}

static void log_refusal(const struct relock_site *site, uint64_t owner, const char *error)
{
    char name[RELOCK_LOG_NAME_MAX];
    char why[RELOCK_WHY_MAX];

    relock_explain(why, site->kind->renew, error);
    relock_log_write(&site->client->log, RELOCK_LOG_WARNING, "%s: owner %llu: renewal refused: %s",
                     relock_log_name(site->name, name), (unsigned long long)owner, why);
}

static void on_renewed(void *arg, int result, const struct redisReply *reply)
{
    struct relock_hold *hold = arg;
    struct relock_site *site = hold->site;
    struct relock_client *client = site->client;
    uint64_t retry_ms = relock_hold_retry_ms(hold->renewal_ms);
    bool refused = false;
    uint64_t valid_until_ms = 0;
    uint64_t sent_ms;
    uint64_t owner;

    relock_mutex_lock(&client->mutex);
    site->refs++; /* its name is needed for the log */
    owner = hold->owner;
    sent_ms = hold->sent_ms;
    hold->in_flight = false;
    if (hold->state == RELOCK_HOLD_SETTLING) {
        relock_client_set_timer(client, &hold->timer, 0);
    } else if (relock_hold_is_held(hold)) {
        refused = (result < 0 && result != RELOCK_E_CONN) || (result > 0 && hold->loaded);
        if (result == RELOCK_OK)
            take_answer(client, hold, reply);
        else if (result > 0 && !hold->loaded)
            hold->renew_at_ms = 0; /* the script is there now */
        else
            suspect(client, hold, refused ? relock_clock_now_ms() + retry_ms : RELOCK_NEVER);
        hold->loaded = result > 0;
        watch(client, hold);
        if (hold->vote && hold->state == RELOCK_HOLD_HELD)
            valid_until_ms = hold->valid_until_ms;
    }
    relock_mutex_unlock(&client->mutex);

    if (valid_until_ms > 0)
        relock_vote_renewed(hold, sent_ms, valid_until_ms);
    relock_mutex_lock(&client->mutex);
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);

    if (refused)
        log_refusal(site, owner, relock_reply_error(reply));
    relock_mutex_lock(&client->mutex);
    relock_sites_unref(client, site);
    relock_mutex_unlock(&client->mutex);
}

static void renew(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_request request;
    int r;

    relock_request_renew(&request, hold->site, hold->number, hold->renewal_ms);
    r = relock_pipeline_call(client->pipeline, &request.call, on_renewed, relock_holds_ref(hold));
    if (r == RELOCK_OK) {
        hold->in_flight = true;
        hold->unverified = false;
        hold->sent_ms = now_ms;
        return;
    }
    relock_holds_unref(client, hold);
    /* Without a connection: when there is one again. Without memory: soon. */
    suspect(client, hold,
            r == RELOCK_E_CONN ? RELOCK_NEVER : now_ms + relock_hold_retry_ms(hold->renewal_ms));
}

RELOCK_UNCHECKED void relock_watchdog_fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_hold *hold =
        (struct relock_hold *)((char *)timer - offsetof(struct relock_hold, timer));
    struct relock_client *client = hold->site->client;

    if (hold->state == RELOCK_HOLD_SETTLING) {
        relock_settle_step(client, hold, now_ms);
        return;
    }
    relock_holds_check_time(client, hold, now_ms);
    if (!relock_hold_is_held(hold))
        return;
    if (relock_hold_is_renewed(hold, now_ms) && !hold->in_flight && hold->renew_at_ms <= now_ms) {
        if (hold->ballot) {
            relock_redlock_renew(client, hold, now_ms); /* which may be its end */
            return;
        }
        renew(client, hold, now_ms);
    }
    watch(client, hold);
}

void relock_watchdog_up(void *arg)
{
    struct relock_client *client = arg;
    struct relock_hold *hold;

    relock_mutex_lock(&client->mutex);
    DL_FOREACH2(client->guarded.holds, hold, client_next)
    {
        if (hold->in_flight)
            continue;
        if (hold->state == RELOCK_HOLD_SUSPECT || hold->state == RELOCK_HOLD_SETTLING) {
            hold->renew_at_ms = 0;
            relock_client_set_timer(client, &hold->timer, 0);
        }
    }
    relock_mutex_unlock(&client->mutex);
}
