#include "first.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#define CLIENT_ID_LENGTH 36

/* The first three entries, which begin with the client id. A half-moved slot may refuse. */
static const char script[] =
    "local tag = ARGV[1]:find('{', 1, true) and ':' .. ARGV[1] or '{' .. ARGV[1] .. '}'\n"
    "local line = redis.pcall('lrange', 'relock_waiters:' .. tag .. ARGV[2], 0, 2)\n"
    "return line.err and {} or line";

/* The slot of the worker with this client id, from the name of one of its connections. */
static int slot_at(struct probe *probe, const char *id)
{
    redisReply *clients = probe_reply(probe, "CLIENT LIST");
    char end_of_name[CLIENT_ID_LENGTH + 3];
    const char *at = NULL;
    int slot = -1;

    snprintf(end_of_name, sizeof(end_of_name), ":%.36s ", id);
    if (clients && clients->str)
        at = strstr(clients->str, end_of_name);
    while (at && at > clients->str && *at != ' ')
        at--;
    if (at && sscanf(at, " name=chaos.%d:", &slot) != 1)
        slot = -1;
    freeReplyObject(clients);
    return slot;
}

int first_in_line(struct stage *stage, int lock)
{
    struct probe *probe = stage->cluster ? stage->watch.owner[lock] : stage->watch.probes[0];
    char entries[PROBE_TEXT_MAX], *rest = entries;

    snprintf(entries, sizeof(entries), "%s",
             probe_list(probe, "EVAL %s 0 %s %s", script, names_text(lock),
                        stage->cluster ? ":cluster" : ""));
    for (char *entry = strtok_r(rest, " ", &rest); entry; entry = strtok_r(NULL, " ", &rest)) {
        int slot = slot_at(probe, entry);

        if (slot >= 0 && slot < stage->n_workers && stage->places[slot].broken_ns == 0)
            return slot;
    }
    return -1;
}
