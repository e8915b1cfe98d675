#include "shape.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096
#define LAST_CHANNEL "shape:last"

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
};

struct published *published_open(const char *socket)
{
    struct published *published = calloc(1, sizeof(*published));
    redisReply *reply;

    if (!published)
        abort();
    published->redis = redisConnectUnix(socket);
    reply = redisCommand(published->redis, "PSUBSCRIBE *");
    if (!reply)
        abort();
    freeReplyObject(reply);
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
    probe_int(probe, "PUBLISH " LAST_CHANNEL " 0");
    while (!last) {
        void *reply = NULL;
        redisReply **of;

        if (redisGetReply(published->redis, &reply) != REDIS_OK || !reply)
            abort();
        of = ((redisReply *)reply)->element;
        last = strcmp(of[2]->str, LAST_CHANNEL) == 0;
        if (!last)
            append(text, of[2]->str, of[3]->str);
        freeReplyObject(reply);
    }
    redisFree(published->redis);
    free(published);
    return text;
}
