#include "support/listener.h"

#include "support/wait.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct listener {
    redisContext *redis;
    redisReply *last; /* message */
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

    freeReplyObject(listener->last);
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

const char *listener_next(struct listener *listener, uint64_t within_ms)
{
    redisReply *reply = next_message(listener, deadline_in(within_ms));

    freeReplyObject(listener->last);
    listener->last = reply;
    return reply && reply->elements == 3 && reply->element[2]->str ? reply->element[2]->str : "";
}

bool listener_hears(struct listener *listener, const char *message, uint64_t within_ms)
{
    const char *heard = listener_next(listener, within_ms);
    bool yes = listener->last && strcmp(heard, message) == 0;

    if (!yes)
        fprintf(stderr, "heard \"%s\", not \"%s\"\n", heard, message);
    return yes;
}

bool listener_hears_nothing(struct listener *listener, uint64_t ms)
{
    redisReply *reply = next_message(listener, now_ms() + ms);
    bool nothing = !reply;

    freeReplyObject(reply);
    return nothing;
}
