#include "support/listener.h"

#include "support/wait.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct listener {
    redisContext *redis;
};

struct listener *listener_open(const char *path, const char *channel)
{
    struct listener *listener = calloc(1, sizeof(*listener));
    redisReply *reply;

    if (!listener)
        abort();
    listener->redis = redisConnectUnix(path);
    reply = redisCommand(listener->redis, "SUBSCRIBE %s", channel);
    if (!reply)
        abort();
    freeReplyObject(reply);
    return listener;
}

struct listener *listener_close(struct listener *listener)
{
    if (!listener)
        return NULL;

    redisFree(listener->redis);
    free(listener);
    return NULL;
}

/* The next message, or NULL if there is none in time. */
static redisReply *next_message(struct listener *listener, uint64_t deadline_ms)
{
    void *reply = NULL;

    while (redisGetReplyFromReader(listener->redis, &reply) == REDIS_OK && !reply) {
        struct pollfd poll_fd = {.fd = listener->redis->fd, .events = POLLIN};
        uint64_t now = now_ms();

        if (now >= deadline_ms || poll(&poll_fd, 1, (int)(deadline_ms - now)) <= 0)
            return NULL;
        if (redisBufferRead(listener->redis) != REDIS_OK)
            return NULL;
    }
    return reply;
}

bool listener_hears(struct listener *listener, const char *message, uint64_t within_ms)
{
    redisReply *reply = next_message(listener, deadline_in(within_ms));
    const char *heard =
        reply && reply->elements == 3 && reply->element[2]->str ? reply->element[2]->str : NULL;
    bool yes = heard && strcmp(heard, message) == 0;

    if (!yes)
        fprintf(stderr, "heard %s, not \"%s\"\n", heard ? heard : "nothing", message);
    freeReplyObject(reply);
    return yes;
}

bool listener_hears_nothing(struct listener *listener, uint64_t ms)
{
    redisReply *reply = next_message(listener, now_ms() + ms);
    bool nothing = !reply;

    freeReplyObject(reply);
    return nothing;
}
