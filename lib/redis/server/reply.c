#include "redis/server/reply.h"

#include "redis/server/command.h"

#include <relock.h>

#include <hiredis/hiredis.h>
#include <string.h>

static bool begins_with(const char *error, const char *code)
{
    size_t len = strlen(code);

    return strncmp(error, code, len) == 0 && (error[len] == ' ' || error[len] == '\0');
}

struct redisReply *relock_reply_free(struct redisReply *reply)
{
    if (reply)
        freeReplyObject(reply);
    return NULL;
}

/* Only a script gets such an error. */
static bool is_of_script(const char *error)
{
    return strstr(error, "@user_script:") || strstr(error, "called from script");
}

bool relock_reply_fits(const struct redisReply *reply, unsigned forms)
{
    switch (reply->type) {
    case REDIS_REPLY_ERROR:
        return !(forms & RELOCK_REPLY_NO_ERR) || !begins_with(reply->str, "ERR") ||
               is_of_script(reply->str) || relock_refusal_of(reply->str) != RELOCK_REFUSED_UNKNOWN;
    case REDIS_REPLY_NIL:
        return forms & RELOCK_REPLY_NIL;
    case REDIS_REPLY_INTEGER:
        return forms & RELOCK_REPLY_INTEGER;
    case REDIS_REPLY_STATUS:
        return forms & RELOCK_REPLY_STATUS;
    case REDIS_REPLY_STRING:
        return forms & RELOCK_REPLY_STRING;
    case REDIS_REPLY_ARRAY:
        return forms & RELOCK_REPLY_ARRAY || (reply->elements <= RELOCK_REPLY_LONGEST &&
                                              forms & RELOCK_REPLY_ARRAY_OF(reply->elements));
    default:
        return false;
    }
}

bool relock_reply_is_nil(const struct redisReply *reply)
{
    return reply->type == REDIS_REPLY_NIL;
}

bool relock_reply_integer(const struct redisReply *reply, int64_t *integer)
{
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        return false;
    *integer = reply->integer;
    return true;
}

bool relock_reply_text(const struct redisReply *reply, const char **text, size_t *len)
{
    if (!reply || (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS))
        return false;
    *text = reply->str;
    *len = (size_t)reply->len;
    return true;
}

bool relock_reply_is(const struct redisReply *reply, const char *text)
{
    struct relock_text have;

    return relock_reply_text(reply, &have.data, &have.len) && relock_text_is(have, text);
}

bool relock_reply_field(const struct redisReply *reply, const char *name, const char **value,
                        size_t *len)
{
    size_t name_len = strlen(name);
    const char *at;
    size_t all;

    if (!relock_reply_text(reply, &at, &all))
        return false;
    while ((at = strchr(at, '\n'))) {
        at++;
        if (strncmp(at, name, name_len) != 0 || at[name_len] != ':')
            continue;
        *value = at + name_len + 1;
        *len = strcspn(*value, "\r\n");
        return true;
    }
    return false;
}

const struct redisReply *relock_reply_at(const struct redisReply *reply, size_t index)
{
    if (!reply || reply->type != REDIS_REPLY_ARRAY || index >= reply->elements)
        return NULL;
    return reply->element[index];
}

const char *relock_reply_error(const struct redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR ? reply->str : NULL;
}

/* In servers before 7.0 the code of an error in a script follows words about the script. */
static bool has_inside(const char *error, const char *code)
{
    size_t len = strlen(code);
    const char *at;

    for (at = strstr(error, " -"); at; at = strstr(at + 1, " -"))
        if (strncmp(at + 2, code, len) == 0 && at[2 + len] == ' ')
            return true;
    return false;
}

enum relock_refusal relock_refusal_of(const char *error)
{
    static const struct {
        const char *code;
        enum relock_refusal refusal;
    } codes[] = {
        {"NOSCRIPT", RELOCK_REFUSED_SCRIPT},
        {"NOAUTH", RELOCK_REFUSED_USER},
        {"WRONGPASS", RELOCK_REFUSED_USER},
        {"NOPERM", RELOCK_REFUSED_USER},
        {"LOADING", RELOCK_REFUSED_FOR_NOW},
        {"BUSY", RELOCK_REFUSED_FOR_NOW},
        {"MASTERDOWN", RELOCK_REFUSED_HERE},
        {"READONLY", RELOCK_REFUSED_HERE},
        {"CLUSTERDOWN", RELOCK_REFUSED_FOR_NOW},
        {"TRYAGAIN", RELOCK_REFUSED_FOR_NOW},
        {"NOREPLICAS", RELOCK_REFUSED_FOR_NOW},
        {"MOVED", RELOCK_REFUSED_MOVED},
        {"ASK", RELOCK_REFUSED_MOVED},
        {"MISCONF", RELOCK_REFUSED},
        {"OOM", RELOCK_REFUSED},
        {"WRONGTYPE", RELOCK_REFUSED},
        {"DENIED", RELOCK_REFUSED},
        {"ERR max number of clients", RELOCK_REFUSED_FOR_NOW},
    };

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (begins_with(error, codes[i].code))
            return codes[i].refusal;
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (has_inside(error, codes[i].code))
            return codes[i].refusal;
    /* An ACL right that a script lacks has no code of its own. */
    if (strstr(error, "The user executing the script") || strstr(error, "ACL failure in script"))
        return RELOCK_REFUSED_USER;
    /* A slot is on its way to another node, and not all keys of the lock are at the same one. */
    if (strstr(error, "attempted to access a non local key"))
        return RELOCK_REFUSED_HALFWAY;
    return RELOCK_REFUSED_UNKNOWN;
}

bool relock_refusal_is_final(enum relock_refusal refusal)
{
    return refusal == RELOCK_REFUSED || refusal == RELOCK_REFUSED_UNKNOWN ||
           refusal == RELOCK_REFUSED_USER;
}

bool relock_reply_refuses_for_now(const struct redisReply *reply)
{
    const char *error = reply ? relock_reply_error(reply) : NULL;

    return error && !relock_refusal_is_final(relock_refusal_of(error));
}

int relock_refusal_result(enum relock_refusal refusal)
{
    return refusal == RELOCK_REFUSED_USER ? RELOCK_E_AUTH : RELOCK_E_SERVER;
}
