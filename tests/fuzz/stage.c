#include "stage.h"

#include "base/clock.h"

static uint64_t never(void *arg)
{
    (void)arg;
    return RELOCK_NEVER;
}

static void begin(struct stage *stage, const uint8_t *data, size_t size, const char *url,
                  bool is_sentinel)
{
    unsigned choice = size > 0 ? data[0] : 0;
    const char *password = choice & STAGE_LOGS_IN ? FUZZ_PASSWORD : NULL;
    struct relock_options options = {
        .url = url,
        .password = password,
        .sentinel_password = is_sentinel ? password : NULL,
        .client_name = choice & STAGE_LOGS_IN ? "fuzz" : NULL,
        .connect_timeout_ms = STAGE_TIMEOUT_MS,
        .command_timeout_ms = STAGE_TIMEOUT_MS,
    };

    *stage = (struct stage){
        .choice = choice, .play = {data, size, choice & STAGE_LOGS_IN}, .options = options};
    stage->log =
        (struct relock_log){.level = RELOCK_LOG_DEBUG, .sink = fuzz_log, .arg = &stage->play};
    hostile_begin(data, size, choice & STAGE_BYTE_BY_BYTE ? 1 : 16384);
    FUZZ_CHECK(relock_server_init(&stage->server, &options, "id", &stage->log) == RELOCK_OK);
    FUZZ_CHECK(relock_loop_new(never, NULL, &stage->loop) == RELOCK_OK);
}

void stage_begin(struct stage *stage, const uint8_t *data, size_t size)
{
    begin(stage, data, size, "unix:///hostile", false);
}

void stage_begin_at(struct stage *stage, const uint8_t *data, size_t size, const char *url)
{
    begin(stage, data, size, url, true);
}

void stage_perform(struct stage *stage, void (*act)(char letter))
{
    hostile_perform(relock_loop_ev(stage->loop), act);
}

void stage_end(struct stage *stage)
{
    stage->loop = relock_loop_free(stage->loop);
    relock_server_deinit(&stage->server);
    hostile_end();
}
