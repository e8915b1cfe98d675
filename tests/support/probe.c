#include "support/probe.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_S 60

struct probe {
    redisContext *redis; /* NULL while not connected */
    char path[108];
    const char *client; /* the name of the command CLIENT */
    char text[PROBE_TEXT_MAX];
};

struct probe *probe_open(const char *path)
{
    struct probe *probe = calloc(1, sizeof(*probe));

    if (!probe)
        abort();
    snprintf(probe->path, sizeof(probe->path), "%s", path);
    probe->client = "CLIENT";
    return probe;
}

void probe_rename_client(struct probe *probe, const char *name)
{
    probe->client = name;
}

struct probe *probe_close(struct probe *probe)
{
    if (!probe)
        return NULL;

    redisFree(probe->redis);
    free(probe);
    return NULL;
}

static bool connect_probe(struct probe *probe)
{
    struct timeval limit = {.tv_sec = REPLY_S};

    redisFree(probe->redis);
    probe->redis = redisConnectUnixWithTimeout(probe->path, limit);
    return probe->redis && probe->redis->err == 0 &&
           redisSetTimeout(probe->redis, limit) == REDIS_OK;
}

/* hiredis raises SIGPIPE. Ignoring it for the whole program would hide that the library does too.
 */
static void block_sigpipe(sigset_t *before)
{
    sigset_t sigpipe;

    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe, before);
}

static void restore_sigpipe(const sigset_t *before)
{
    sigset_t sigpipe;

    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    sigtimedwait(&sigpipe, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static redisReply *ask(struct probe *probe, const char *format, va_list ap)
{
    redisReply *reply = NULL;
    sigset_t before;

    block_sigpipe(&before);
    for (int tries = 0; tries < 2 && !reply; tries++) {
        va_list again;

        if ((!probe->redis || probe->redis->err != 0) && !connect_probe(probe))
            continue;
        va_copy(again, ap);
        reply = redisvCommand(probe->redis, format, again);
        va_end(again);
    }
    restore_sigpipe(&before);

    if (!reply)
        fprintf(stderr, "probe: %s: no reply\n", format);
    else if (reply->type == REDIS_REPLY_ERROR)
        fprintf(stderr, "probe: %s: %s\n", format, reply->str);
    return reply;
}

static long long as_int(const redisReply *reply)
{
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        return PROBE_REFUSED;
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer;
    if (reply->type == REDIS_REPLY_NIL)
        return -1;
    if (reply->type == REDIS_REPLY_ARRAY)
        return reply->elements == 1 ? as_int(reply->element[0]) : PROBE_REFUSED;
    return strtoll(reply->str, NULL, 10);
}

redisReply *probe_reply(struct probe *probe, const char *format, ...)
{
    redisReply *reply;
    va_list ap;

    va_start(ap, format);
    reply = ask(probe, format, ap);
    va_end(ap);
    return reply;
}

long long probe_int(struct probe *probe, const char *format, ...)
{
    redisReply *reply;
    long long n;
    va_list ap;

    va_start(ap, format);
    reply = ask(probe, format, ap);
    va_end(ap);
    n = as_int(reply);
    freeReplyObject(reply);
    return n;
}

const char *probe_text(struct probe *probe, const char *format, ...)
{
    redisReply *reply;
    va_list ap;

    va_start(ap, format);
    reply = ask(probe, format, ap);
    va_end(ap);

    probe->text[0] = '\0';
    if (!reply)
        snprintf(probe->text, sizeof(probe->text), "-no reply");
    else if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(probe->text, sizeof(probe->text), "%lld", reply->integer);
    else if (reply->str)
        snprintf(probe->text, sizeof(probe->text), "%s%s",
                 reply->type == REDIS_REPLY_ERROR ? "-" : "", reply->str);
    freeReplyObject(reply);
    return probe->text;
}

/* `n` counts what is in the text. */
static void append(struct probe *probe, const redisReply *reply, unsigned *n)
{
    size_t len = strlen(probe->text);
    const char *blank;

    if (reply->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < reply->elements; i++)
            append(probe, reply->element[i], n);
        return;
    }
    blank = (*n)++ == 0 ? "" : " ";
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(probe->text + len, sizeof(probe->text) - len, "%s%lld", blank, reply->integer);
    else
        snprintf(probe->text + len, sizeof(probe->text) - len, "%s%s", blank,
                 reply->str ? reply->str : "");
}

const char *probe_list(struct probe *probe, const char *format, ...)
{
    redisReply *reply;
    unsigned n = 0;
    va_list ap;

    va_start(ap, format);
    reply = ask(probe, format, ap);
    va_end(ap);

    probe->text[0] = '\0';
    if (reply)
        append(probe, reply, &n);
    freeReplyObject(reply);
    return probe->text;
}

long long probe_pttl(struct probe *probe, const char *key)
{
    return probe_int(probe, "PTTL %s", key);
}

static bool is_record(const char *key)
{
    size_t len = strlen(key);
    size_t end_len = strlen(":since");

    return strncmp(key, "relock_waits:", strlen("relock_waits:")) == 0 &&
           strcmp(key + len - end_len, ":since") == 0;
}

/* With one command: between two of them, a record may come or go. */
long long probe_n_keys(struct probe *probe)
{
    redisReply *reply = probe_reply(probe, "KEYS *");
    long long n = -1;

    if (reply && reply->type == REDIS_REPLY_ARRAY) {
        n = 0;
        for (size_t i = 0; i < reply->elements; i++)
            n += !is_record(reply->element[i]->str);
    }
    freeReplyObject(reply);
    return n;
}

const char *probe_only_field(struct probe *probe, const char *key)
{
    redisReply *reply = probe_reply(probe, "HGETALL %s", key);

    probe->text[0] = '\0';
    if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
        snprintf(probe->text, sizeof(probe->text), "%s", reply->element[0]->str);
    freeReplyObject(reply);
    return probe->text;
}

long long probe_only_value(struct probe *probe, const char *key)
{
    redisReply *reply = probe_reply(probe, "HGETALL %s", key);
    long long n = -1;

    if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
        n = as_int(reply->element[1]);
    freeReplyObject(reply);
    return n;
}

/* Takes the reply, a list of connections. */
static long long n_lines_with(redisReply *reply, const char *text)
{
    long long n = 0;
    char none[1] = "";
    char *rest = reply && reply->str ? reply->str : none;

    for (char *line = strtok_r(rest, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        n += strstr(line, text) != NULL;
    freeReplyObject(reply);
    return n;
}

long long probe_n_clients(struct probe *probe, const char *text)
{
    return n_lines_with(probe_reply(probe, "%s LIST", probe->client), text);
}

long long probe_n_command_clients(struct probe *probe, const char *text)
{
    return n_lines_with(probe_reply(probe, "%s LIST TYPE normal", probe->client), text);
}

long long probe_subscriber_id(struct probe *probe, const char *name)
{
    redisReply *reply = probe_reply(probe, "%s LIST TYPE pubsub", probe->client);
    const char *line = reply && reply->str ? reply->str : "";
    long long id = 0;
    char wanted[128];

    snprintf(wanted, sizeof(wanted), " name=%s:", name);
    for (const char *end = strchr(line, '\n'); end && id == 0; end = strchr(line, '\n')) {
        const char *found = strstr(line, wanted);

        if (found && found < end)
            sscanf(line, "id=%lld", &id);
        line = end + 1;
    }
    freeReplyObject(reply);
    return id;
}

/* The list begins with the oldest. */
bool probe_kill_newest(struct probe *probe)
{
    redisReply *reply = probe_reply(probe, "%s LIST TYPE normal", probe->client);
    const char *line = reply && reply->str ? reply->str : "";
    long long id = 0;

    for (const char *end = strchr(line, '\n'); end; end = strchr(line, '\n')) {
        sscanf(line, "id=%lld", &id);
        line = end + 1;
    }
    freeReplyObject(reply);
    return probe_int(probe, "%s KILL ID %lld", probe->client, id) == 1;
}

bool probe_make_user(struct probe *probe, const char *user, const char *password,
                     const char *rights)
{
    bool made = probe_int(probe, "ACL SETUSER %s reset on resetchannels >%s", user, password) == 0;
    char word[64];
    int len;

    for (; made && sscanf(rights, "%63s%n", word, &len) == 1; rights += len)
        made = probe_int(probe, "ACL SETUSER %s %s", user, word) == 0;
    return made;
}
