#include "shape.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096
#define LAST_CHANNEL "shape:last:{orders}"

const char *shape_of(struct probe *probe, const char *pattern)
{
    char script[TEXT_MAX];
    FILE *file = fopen(SHAPE_LUA, "r");
    size_t n = file ? fread(script, 1, sizeof(script) - 1, file) : 0;

    if (n == 0 || fclose(file) != 0)
        abort();
    script[n] = '\0';
    return probe_text(probe, "EVAL %s 0 %s", script, pattern);
}

struct published {
    redisContext *redis;
    bool is_sharded;
};

static void subscribe(redisContext *redis, const char *command, size_t n_replies)
{
    void *reply;

    if (redisAppendCommand(redis, command) != REDIS_OK)
        abort();
    for (; n_replies > 0; n_replies--) {
        if (redisGetReply(redis, &reply) != REDIS_OK || !reply)
            abort();
        freeReplyObject(reply);
    }
}

struct published *published_open(const char *socket, bool is_sharded)
{
    struct published *published = calloc(1, sizeof(*published));

    if (!published)
        abort();
    published->is_sharded = is_sharded;
    published->redis = redisConnectUnix(socket);
    if (is_sharded)
        subscribe(published->redis,
                  "SSUBSCRIBE " LAST_CHANNEL
                  " redisson_lock__channel:{orders} redisson_rwlock:{orders}",
                  3);
    else
        subscribe(published->redis, "PSUBSCRIBE *", 1);
    return published;
}

/* The text after the last ':' of a waiter's own channel is "U:N". */
static void append(char *text, const char *channel, const char *message)
{
    const char *own = strchr(channel, '}');
    size_t n = strlen(text);

    if (own && own[1] == ':')
        snprintf(text + n, TEXT_MAX - n, "%.*s}:U:N %s\n", (int)(own - channel), channel, message);
    else
        snprintf(text + n, TEXT_MAX - n, "%s %s\n", channel, message);
}

/* Messages arrive in order, so all before this one have been published. */
char *published_close(struct published *published, struct probe *probe)
{
    char *text = calloc(1, TEXT_MAX);
    bool last = false;

    if (!text)
        abort();
    probe_int(probe, "%s " LAST_CHANNEL " 0", published->is_sharded ? "SPUBLISH" : "PUBLISH");
    while (!last) {
        void *reply = NULL;
        redisReply **of;
        size_t channel = published->is_sharded ? 1 : 2; /* behind the pattern */

        if (redisGetReply(published->redis, &reply) != REDIS_OK || !reply)
            abort();
        of = ((redisReply *)reply)->element;
        last = strcmp(of[channel]->str, LAST_CHANNEL) == 0;
        if (!last)
            append(text, of[channel]->str, of[channel + 1]->str);
        freeReplyObject(reply);
    }
    redisFree(published->redis);
    free(published);
    return text;
}
