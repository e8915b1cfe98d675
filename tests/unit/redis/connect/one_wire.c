#include "one_wire.h"

#include "base/status.h"
#include "redis/server/reply.h"

struct relock_wire wire;

void takes(const char *text)
{
    struct redisReply *reply;

    assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_OK);
    assert_true(relock_reply_is(reply, text));
    relock_reply_free(reply);
}

void takes_nothing(void)
{
    struct redisReply *reply;

    assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_AGAIN);
}
