/* Replies of a server to the scripts that the I/O thread runs. In scene q the program sends a
 * call, in scene k it kills a connection, in scene p it sends a PING. */
#include "redis/connect/conn_id.h"
#include "redis/io/io.h"
#include "redis/io/private.h"
#include "redis/lane/call.h"
#include "redis/server/reply.h"
#include "stage.h"

#include <string.h>

#define LONG_ANSWERS STAGE_OWN

static struct stage stage;
static struct relock_pipeline *pipeline;
static bool is_answered[4096]; /* each call */
static size_t n_asked;
static size_t n_answered;

static const struct relock_call renew = {
    .script = &relock_script_renew,
    .key = {"orders", 6},
    .args = {{"60000", 5}, {"id:7", 4}},
    .n_args = 2,
};

static void on_answer(void *arg, int result, const struct redisReply *reply)
{
    bool *is_this_answered = arg;

    FUZZ_CHECK(!*is_this_answered);
    *is_this_answered = true;
    n_answered++;
    FUZZ_CHECK(n_answered <= n_asked);
    switch (result) {
    case RELOCK_OK:
        FUZZ_CHECK(reply && !relock_reply_error(reply));
        break;
    case RELOCK_E_CONN:
        FUZZ_CHECK(!reply);
        break;
    default:
        FUZZ_CHECK(reply && (relock_reply_error(reply) || result == RELOCK_E_SERVER));
        break;
    }
}

static void on_up(void *arg)
{
    (void)arg;
    FUZZ_CHECK(n_answered == n_asked); /* earlier commands have been answered */
}

static void ask(const struct relock_call *call)
{
    int r;

    if (n_asked == sizeof(is_answered))
        return;
    r = relock_pipeline_call(pipeline, call, on_answer, &is_answered[n_asked]);
    if (r == RELOCK_OK)
        n_asked++;
    else
        FUZZ_CHECK(r == RELOCK_E_CONN && n_answered == n_asked);
}

static void ask_with_fence(void)
{
    struct relock_conn_id *fence =
        relock_conn_id_new(&(struct relock_server){0}, "", 7, "/there:1", 8);
    struct relock_call call = renew;

    FUZZ_CHECK(fence);
    call.fence = &fence;
    ask(&call);
    relock_conn_id_unref(fence);
}

static void act(char letter)
{
    if (letter == 'q')
        ask(&renew);
    else if (letter == 'k')
        ask_with_fence();
    else if (letter == 'p')
        relock_pipeline_ping(pipeline);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stage_begin(&stage, data, size);
    memset(is_answered, 0, sizeof(is_answered));
    n_asked = 0;
    n_answered = 0;
    FUZZ_CHECK(
        relock_pipeline_new(stage.loop, &stage.server,
                            (uint64_t)STAGE_TIMEOUT_MS * (stage.choice & LONG_ANSWERS ? 10 : 1),
                            on_up, NULL, &pipeline) == RELOCK_OK);
    relock_pipeline_open(pipeline);
    stage_perform(&stage, act);
    pipeline = relock_pipeline_free(pipeline);
    stage_end(&stage);
    return 0;
}
