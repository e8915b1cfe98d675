#include "unit/common/talk.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/deployment/run.h"
#include "support/leaks.h"

#include <stdio.h>

/* Less than the timeouts of talk_as(), so that a wait for one of them is noticed. */
#define NOT_FOR_LONG_MS (SOON_MS / 2)

struct script_server *script;
struct relock_server server;
struct relock_topology *topology;
struct relock_lanes *lanes;

static const struct relock_log no_log = {.level = 0};
static struct leaks before;

int talk_begin(void **state)
{
    (void)state;
    before = leaks_now();
    script = script_server_start();
    talk_as(&(struct relock_options){0});
    return 0;
}

int talk_end(void **state)
{
    bool played = script_played(script);

    (void)state;
    talk_hang_up();
    relock_server_deinit(&server);
    script_server_end(script);
    return played && leaks_none_since(&before) ? 0 : -1;
}

void talk_as(const struct relock_options *options)
{
    struct relock_options all = *options;

    if (!all.url)
        all.url = script_server_url(script);
    if (all.connect_timeout_ms == 0)
        all.connect_timeout_ms = slow_ms(SOON_MS);
    if (all.command_timeout_ms == 0)
        all.command_timeout_ms = slow_ms(SOON_MS);

    talk_hang_up();
    relock_server_deinit(&server);
    assert_int_equal(relock_server_init(&server, &all, "id", &no_log), RELOCK_OK);
    assert_int_equal(relock_topology_new(&server, 2, &topology), RELOCK_OK);
    lanes = atomic_load(&topology->nodes)->lanes;
}

void talk_hang_up(void)
{
    topology = relock_topology_free(topology);
}

void talk_expect_login(void)
{
    script_expect(script, "HELLO");
    script_expect(script, "INFO server");
    script_expect(script, "CLIENT INFO");
}

void talk_expect(const struct relock_call *call)
{
    char words[512];
    int n = snprintf(words, sizeof(words), "EVALSHA %s 1 %.*s", call->script->sha1,
                     (int)call->key.len, call->key.data);

    for (size_t i = 0; i < call->n_args; i++)
        n += snprintf(words + n, sizeof(words) - (size_t)n, " %.*s", (int)call->args[i].len,
                      call->args[i].data);
    script_expect(script, words);
}

void talk_connect(struct relock_call *call, unsigned id)
{
    script_welcome(script, id);
    talk_expect(call);
    script_answer(script, ":1\r\n");
    assert_int_equal(relock_call_run(call, topology, soon()), RELOCK_OK);
    relock_call_end(call);
}

uint64_t in_ms(uint64_t ms)
{
    return relock_clock_after(relock_clock_now_ms(), ms);
}

uint64_t soon(void)
{
    return in_ms(slow_ms(SOON_MS));
}

bool has_just_passed(uint64_t deadline_ms)
{
    uint64_t now_ms = relock_clock_now_ms();

    return now_ms >= deadline_ms && now_ms < deadline_ms + slow_ms(NOT_FOR_LONG_MS);
}
