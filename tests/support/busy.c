#include "support/busy.h"

#include "support/fixture.h"

#include <hiredis/hiredis.h>
#include <string.h>

static int run_for_ever(void *server)
{
    redisContext *redis = redisConnectUnix(((struct server *)server)->socket);
    redisReply *reply = redisCommand(redis, "EVAL %s 0", "while true do end");

    freeReplyObject(reply);
    redisFree(redis);
    return 0;
}

static bool is_busy(void *server)
{
    redisContext *redis = redisConnectUnix(((struct server *)server)->socket);
    redisReply *reply = redisCommand(redis, "PING");
    bool yes = reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSY", 4) == 0;

    freeReplyObject(reply);
    redisFree(redis);
    return yes;
}

struct actor *busy_begin(struct server *server, struct probe *probe)
{
    struct actor *looping = actor_start();

    assert_int_equal(probe_int(probe, "CONFIG SET lua-time-limit 10"), 0);
    actor_begin(looping, run_for_ever, server);
    assert_true(wait_until(is_busy, server, SOON_MS));
    return looping;
}

void busy_end(struct probe *probe, struct actor *looping)
{
    assert_int_equal(probe_int(probe, "SCRIPT KILL"), 0);
    assert_int_equal(actor_result(looping), 0); /* then the server is busy no longer */
    assert_int_equal(probe_int(probe, "CONFIG SET lua-time-limit 5000"), 0);
}
