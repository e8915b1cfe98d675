#include "bare.h"

#include "measure.h"
#include "scripts.h" /* generated */

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library's defaults. */
#define LEASE_MS "30000"
#define CLIENT_ID "00000000-0000-4000-8000-000000000000"
#define MESSAGE_FREE "0"
#define DEFAULT_PORT 6379
#define BARE_RENEW_ARGS 6

#define UNIX_SCHEME "unix://"
#define TCP_SCHEME "redis://"
#define CLUSTER_SCHEME "redis+cluster://"
#define NODES_MAX 16
#define MOVED "MOVED "

#define XX(name, sha1, body) static const char sha1_##name[] __attribute__((unused)) = sha1;
RELOCK_SCRIPT_MAP(XX)
#undef XX

/* ---- connections --------------------------------------------------------------------------- */

static redisContext *connect_tcp(const char *address)
{
    char host[256] = "", more = '\0';
    int port = DEFAULT_PORT;
    int n = sscanf(address, "%255[^:/@]:%d%c", host, &port, &more);

    if (n < 1 || n > 2 || strcspn(address, "/@") < strlen(address))
        die("only redis://host[:port] and unix://path can be measured");
    return redisConnect(host, port);
}

static redisContext *connect_to(const char *url)
{
    if (strncmp(url, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0)
        return redisConnectUnix(url + strlen(UNIX_SCHEME));
    if (strncmp(url, TCP_SCHEME, strlen(TCP_SCHEME)) == 0)
        return connect_tcp(url + strlen(TCP_SCHEME));
    die("only redis://host[:port] and unix://path can be measured");
}

/* Returns the reply, which is not an error. */
static redisReply *must_reply(redisContext *redis, void *reply)
{
    redisReply *checked = reply;

    if (!checked)
        die("bare connection: %s", redis->errstr);
    if (checked->type == REDIS_REPLY_ERROR)
        die("bare connection: %s", checked->str);
    return checked;
}

static void load(redisContext *redis, const char *sha1, const char *body)
{
    redisReply *reply = must_reply(redis, redisCommand(redis, "SCRIPT LOAD %s", body));

    if (reply->type != REDIS_REPLY_STRING || strcmp(reply->str, sha1) != 0)
        die("the server knows a script by another hash");
    freeReplyObject(reply);
}

redisContext *bare_connect(const char *url)
{
    redisContext *redis = connect_to(url);

    if (!redis || redis->err)
        die("%s: %s", url, redis ? redis->errstr : "out of memory");
#define XX(name, sha1, body) load(redis, sha1, body);
    RELOCK_SCRIPT_MAP(XX)
#undef XX
    return redis;
}

redisContext *bare_close(redisContext *redis)
{
    if (redis)
        redisFree(redis);
    return NULL;
}

static bool is_moved(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, MOVED, strlen(MOVED)) == 0;
}

unsigned bare_connect_all(const char *url, redisContext **redis, unsigned max)
{
    char nodes[256], *rest = nodes;
    unsigned n = 0;

    if (strncmp(url, CLUSTER_SCHEME, strlen(CLUSTER_SCHEME)) != 0) {
        redis[0] = bare_connect(url);
        return 1;
    }
    snprintf(nodes, sizeof(nodes), "%s", url + strlen(CLUSTER_SCHEME));
    for (char *node = strtok_r(rest, ",", &rest); node; node = strtok_r(NULL, ",", &rest)) {
        char of_node[sizeof(nodes) + sizeof(TCP_SCHEME)];

        if (n == max)
            die("more than %u nodes", max);
        snprintf(of_node, sizeof(of_node), TCP_SCHEME "%s", node);
        redis[n++] = bare_connect(of_node);
    }
    return n;
}

redisContext *bare_connect_owner(const char *url, const char *key)
{
    redisContext *redis[NODES_MAX], *owner = NULL;
    unsigned n = bare_connect_all(url, redis, NODES_MAX);

    for (unsigned i = 0; i < n; i++) {
        redisReply *reply = redisCommand(redis[i], "EXISTS %s", key);

        if (!owner && reply && !is_moved(reply))
            owner = redis[i];
        else
            bare_close(redis[i]);
        freeReplyObject(reply);
    }
    if (!owner)
        die("no node owns %s", key);
    return owner;
}

/* ---- a lock -------------------------------------------------------------------------------- */

const char *bare_lock_sha1(void)
{
    return sha1_lock;
}

static void measure_args(const char *const *args, size_t *lens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        lens[i] = strlen(args[i]);
}

void bare_lock_init(struct bare_lock *lock, const char *name, unsigned holder)
{
    const char *take[] = {"EVALSHA", sha1_lock, "1", lock->name, lock->lease, lock->field, "1"};
    const char *give[] = {"EVALSHA",   sha1_unlock, "1",           lock->name,
                          lock->field, "0",         lock->channel, MESSAGE_FREE};

    snprintf(lock->lease, sizeof(lock->lease), "%s", LEASE_MS);
    snprintf(lock->name, sizeof(lock->name), "%s", name);
    snprintf(lock->field, sizeof(lock->field), CLIENT_ID ":%u000000001", holder);
    snprintf(lock->channel, sizeof(lock->channel), "redisson_lock__channel:{%s}", lock->name);
    memcpy(lock->take, take, sizeof(take));
    memcpy(lock->give, give, sizeof(give));
    measure_args(lock->take, lock->take_len, BARE_TAKE_ARGS);
    measure_args(lock->give, lock->give_len, BARE_GIVE_ARGS);
}

void bare_lock_lease(struct bare_lock *lock, uint64_t lease_ms)
{
    snprintf(lock->lease, sizeof(lock->lease), "%llu", (unsigned long long)lease_ms);
    measure_args(lock->take, lock->take_len, BARE_TAKE_ARGS);
}

bool bare_take(redisContext *redis, const struct bare_lock *lock)
{
    redisReply *reply =
        redisCommandArgv(redis, BARE_TAKE_ARGS, (const char **)lock->take, lock->take_len);
    bool taken = must_reply(redis, reply)->type == REDIS_REPLY_NIL;

    freeReplyObject(reply);
    return taken;
}

void bare_give(redisContext *redis, const struct bare_lock *lock)
{
    redisReply *reply =
        redisCommandArgv(redis, BARE_GIVE_ARGS, (const char **)lock->give, lock->give_len);

    if (must_reply(redis, reply)->type != REDIS_REPLY_INTEGER || reply->integer < 1)
        die("%s was not held", lock->name);
    freeReplyObject(reply);
}

static redisReply *next_reply(redisContext *redis)
{
    void *reply = NULL;

    if (redisGetReply(redis, &reply) != REDIS_OK)
        die("bare connection: %s", redis->errstr);
    return must_reply(redis, reply);
}

void bare_give_later(redisContext *redis, const struct bare_lock *lock)
{
    int is_sent = 0;

    if (redisAppendCommandArgv(redis, BARE_GIVE_ARGS, (const char **)lock->give, lock->give_len) !=
        REDIS_OK)
        die("bare connection: %s", redis->errstr);
    while (!is_sent)
        if (redisBufferWrite(redis, &is_sent) != REDIS_OK)
            die("bare connection: %s", redis->errstr);
}

void bare_await_given(redisContext *redis, const struct bare_lock *lock)
{
    redisReply *reply = next_reply(redis);

    if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 1)
        die("a lock like %s was not held", lock->name);
    freeReplyObject(reply);
}

void bare_take_after(redisContext *redis, const struct bare_lock *lock, bool owes)
{
    redisReply *reply;

    if (redisAppendCommandArgv(redis, BARE_TAKE_ARGS, (const char **)lock->take, lock->take_len) !=
        REDIS_OK)
        die("bare connection: %s", redis->errstr);
    if (owes)
        bare_await_given(redis, lock);
    reply = next_reply(redis);
    if (reply->type != REDIS_REPLY_NIL)
        die("%s is held by another", lock->name);
    freeReplyObject(reply);
}

static void must_append(redisContext *redis, const char **args, const size_t *lens, unsigned n)
{
    if (redisAppendCommandArgv(redis, (int)n, args, lens) != REDIS_OK)
        die("bare connection: %s", redis->errstr);
}

static void must_get(redisContext *redis, long long integer)
{
    void *reply = NULL;

    if (redisGetReply(redis, &reply) != REDIS_OK)
        die("bare connection: %s", redis->errstr);
    if (must_reply(redis, reply)->integer != integer)
        die("a lock was not held");
    freeReplyObject(reply);
}

void bare_renew(redisContext *redis, const struct bare_lock *lock, unsigned n)
{
    const char *args[] = {"EVALSHA", sha1_renew, "1", lock->name, lock->lease, lock->field};
    size_t lens[BARE_RENEW_ARGS];

    measure_args(args, lens, BARE_RENEW_ARGS);
    for (unsigned i = 0; i < n; i++)
        must_append(redis, args, lens, BARE_RENEW_ARGS);
    for (unsigned i = 0; i < n; i++)
        must_get(redis, 1);
}

void bare_track(redisContext *redis)
{
    freeReplyObject(must_reply(redis, redisCommand(redis, "CLIENT TRACKING ON OPTIN NOLOOP")));
}

void bare_renew_many(redisContext *redis, const struct bare_lock *locks, unsigned n)
{
    const char *args[3 + (2 * BARE_RENEW_MAX) + 1], *exists[1 + BARE_RENEW_MAX];
    const char *caching[] = {"CLIENT", "CACHING", "YES"};
    size_t lens[3 + (2 * BARE_RENEW_MAX) + 1];
    char n_keys[8];

    snprintf(n_keys, sizeof(n_keys), "%u", n);
    args[0] = "EVALSHA";
    args[1] = sha1_renew_many;
    args[2] = n_keys;
    exists[0] = "EXISTS";
    for (unsigned i = 0; i < n; i++) {
        args[3 + i] = exists[1 + i] = locks[i].name;
        args[3 + n + i] = locks[i].field;
    }
    args[3 + 2 * n] = locks[0].lease;
    measure_args(args, lens, 3 + 2 * n + 1);
    must_append(redis, args, lens, 3 + 2 * n + 1);
    measure_args(caching, lens, 3);
    must_append(redis, caching, lens, 3);
    measure_args(exists, lens, 1 + n);
    must_append(redis, exists, lens, 1 + n);
    must_get(redis, 1);
    must_get(redis, 0);
    must_get(redis, n);
}

/* ---- a plain lock -------------------------------------------------------------------------- */

#define TOKEN "bare"
#define PLAIN_UNLOCK                                 \
    "if redis.call('get', KEYS[1]) ~= ARGV[1] then " \
    "    return 0 "                                  \
    "end "                                           \
    "return redis.call('del', KEYS[1])"

void bare_plain_take(redisContext *redis, const char *name)
{
    redisReply *reply =
        must_reply(redis, redisCommand(redis, "SET %s " TOKEN " NX PX " LEASE_MS, name));

    if (reply->type != REDIS_REPLY_STATUS)
        die("%s is held by another", name);
    freeReplyObject(reply);
}

void bare_plain_give(redisContext *redis, const char *name)
{
    redisReply *reply =
        must_reply(redis, redisCommand(redis, "EVAL %s 1 %s " TOKEN, PLAIN_UNLOCK, name));

    if (reply->integer != 1)
        die("%s was not held", name);
    freeReplyObject(reply);
}

/* ---- other questions ----------------------------------------------------------------------- */

void bare_subscribe(redisContext *redis, const struct bare_lock *lock)
{
    freeReplyObject(must_reply(redis, redisCommand(redis, "SUBSCRIBE %s", lock->channel)));
}

void bare_await_message(redisContext *redis)
{
    void *reply = NULL;

    if (redisGetReply(redis, &reply) != REDIS_OK)
        die("bare subscriber: %s", redis->errstr);
    freeReplyObject(must_reply(redis, reply));
}

void bare_delete(redisContext *redis, const char *key)
{
    redisReply *reply = must_reply(redis, redisCommand(redis, "DEL %s", key));

    if (reply->integer != 1)
        die("%s is not there", key);
    freeReplyObject(reply);
}

bool bare_exists(redisContext *redis, const char *key)
{
    redisReply *reply = redisCommand(redis, "EXISTS %s", key);
    bool exists = !is_moved(reply) && must_reply(redis, reply)->integer != 0;

    freeReplyObject(reply);
    return exists;
}

unsigned bare_subscribers(redisContext *redis)
{
    redisReply *reply = must_reply(redis, redisCommand(redis, "CLIENT LIST TYPE pubsub"));
    unsigned n = 0;

    for (const char *at = reply->str; *at; at++)
        n += *at == '\n';
    freeReplyObject(reply);
    return n;
}

char *bare_info(redisContext *redis, const char *section)
{
    redisReply *reply = must_reply(redis, redisCommand(redis, "INFO %s", section));
    char *info = strdup(reply->str);

    if (!info)
        die("out of memory");
    freeReplyObject(reply);
    return info;
}

/* The text after `key` in the reply to INFO, up to the end of its line. */
static bool find_info(const char *info, const char *key, char *text, size_t size)
{
    const char *at = strstr(info, key);

    if (!at)
        return false;
    at += strlen(key);
    snprintf(text, size, "%.*s", (int)strcspn(at, "\r\n"), at);
    return true;
}

void bare_server_version(redisContext *redis, char *version, size_t size)
{
    char *info = bare_info(redis, "server");
    char number[32] = "of unknown version";
    const char *product = "redis";

    if (find_info(info, "valkey_version:", number, sizeof(number)))
        product = "valkey";
    else
        (void)find_info(info, "redis_version:", number, sizeof(number));
    snprintf(version, size, "%s %s", product, number);
    free(info);
}
