/* The words of a sentinel on the connection on which its clients hear of failovers: about the
 * master, and messages. In scenes A to C the program uses a master of the configuration 1 to 3. */
#include "redis/io/io.h"

#include "redis/lane/private.h"
#include "redis/lane/sentinels.h"
#include "stage.h"

#include <stdio.h>
#include <string.h>

#define PINGS STAGE_OWN

static struct stage stage;

static struct relock_succession *succession(void)
{
    return relock_sentinels_succession(stage.server.sentinels);
}

/* As the client does. */
static void on_switch(void *arg, const struct relock_peer *old)
{
    FUZZ_CHECK(arg == &stage && old->host && old->port);
    fuzz_check_text(&stage.play, old->host);
    relock_sentinels_retire(stage.server.sentinels, old);
}

static void act(char letter)
{
    struct relock_master master = {.host = "10.0.0.1", .port = 7};

    if (letter < 'A' || letter > 'C')
        return;
    master.epoch = (uint64_t)(letter - 'A') + 1;
    (void)relock_succession_lags(succession(), &master);
    (void)relock_succession_use(succession(), &master);
    FUZZ_CHECK(!relock_succession_use(succession(), &master));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct relock_switches *switches;

    stage_begin_at(&stage, data, size, "redis+sentinel://127.0.0.1:1/mymaster");
    FUZZ_CHECK(relock_sentinels_attach(&stage.server, &stage.options, "id") == RELOCK_OK);
    FUZZ_CHECK(relock_switches_new(stage.loop, &stage.server,
                                   stage.choice & PINGS ? STAGE_TIMEOUT_MS / 3 : 0, on_switch,
                                   &stage, &switches) == RELOCK_OK);
    relock_switches_open(switches);
    stage_perform(&stage, act);
    (void)relock_switches_free(switches);
    stage_end(&stage);
    return 0;
}
