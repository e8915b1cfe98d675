#include "lock/inquiry.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "lock/request.h"
#include "redis/pipeline.h"

#include <stdlib.h>

/* A server that is slower than this is given no further inquiries until it has answered. */
#define HANGS_MS 500

/* Constant, but for the list that it stands in: guarded by the mutex of the client. */
struct relock_inquiry {
    struct relock_client *client; /* which outlives it */
    struct relock_survey *survey; /* a reference */
    size_t nth;
    uint64_t number;
    uint64_t posted_ms;
    bool loaded; /* guarded: there was no script, it has been sent since */
    struct relock_inquiry *next, *prev;
};

static bool hangs(const struct relock_client *client, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_inquiry *oldest = client->guarded.inquired;

    return oldest && now_ms > relock_clock_after(oldest->posted_ms, HANGS_MS);
}

int relock_inquiry_post(struct relock_client *client, struct relock_survey *survey, size_t nth,
                        uint64_t number)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_inquiry *new;

    if (hangs(client, now_ms))
        return RELOCK_E_CONN;
    new = calloc(1, sizeof(*new));
    if (!new)
        return RELOCK_E_NOMEM;
    *new = (struct relock_inquiry){
        .client = client,
        .survey = relock_survey_ref(survey),
        .nth = nth,
        .number = number,
        .posted_ms = now_ms,
    };
    DL_APPEND(client->guarded.inquiries, new);
    relock_client_wake(client);
    return RELOCK_OK;
}

/* Under no mutex. It stands in no list any more. */
static void finish(struct relock_inquiry *inquiry, int result, const struct redisReply *reply)
{
    relock_survey_tell(inquiry->survey, inquiry->nth, result, reply);
    relock_survey_unref(inquiry->survey);
    free(inquiry);
}

static void on_answer(void *arg, int result, const struct redisReply *reply)
{
    struct relock_inquiry *inquiry = arg;
    struct relock_client *client = inquiry->client;
    bool is_repeated = result > 0 && !inquiry->loaded;

    relock_mutex_lock(&client->mutex);
    DL_DELETE(client->guarded.inquired, inquiry);
    if (is_repeated) {
        inquiry->loaded = true; /* the script is there now */
        DL_PREPEND(client->guarded.inquiries, inquiry);
        relock_client_wake(client);
    }
    relock_mutex_unlock(&client->mutex);
    if (!is_repeated)
        finish(inquiry, result > 0 ? RELOCK_E_SERVER : result, reply);
}

void relock_inquiry_send_all(struct relock_client *client)
{
    struct relock_inquiry *inquiry;

    while ((inquiry = client->guarded.inquiries)) {
        struct relock_site *site = relock_survey_lock(inquiry->survey, inquiry->nth)->site;
        struct relock_request request;
        int r;

        DL_DELETE(client->guarded.inquiries, inquiry);
        relock_request_inspect(&request, site, inquiry->number);
        r = relock_pipeline_call(client->pipeline, &request.call, on_answer, inquiry);
        if (r == RELOCK_OK) {
            DL_APPEND(client->guarded.inquired, inquiry);
            continue;
        }
        relock_mutex_unlock(&client->mutex);
        finish(inquiry, r, NULL);
        relock_mutex_lock(&client->mutex);
    }
}

static void drop_all(struct relock_client *client, struct relock_inquiry **list)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_inquiry *inquiry;

    while ((inquiry = *list)) {
        DL_DELETE(*list, inquiry);
        relock_mutex_unlock(&client->mutex);
        finish(inquiry, RELOCK_E_CLOSED, NULL);
        relock_mutex_lock(&client->mutex);
    }
}

void relock_inquiry_drop_all(struct relock_client *client)
{
    drop_all(client, &client->guarded.inquiries);
    drop_all(client, &client->guarded.inquired);
}
