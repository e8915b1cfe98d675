/*
 * Reply - what Redis said
 *
 * The rest of the library looks at replies through these functions: what hiredis' struct is like
 * is known in this folder alone. A server may say anything, so each says when it is not what was
 * asked for.
 *
 * Threads: whoever owns the reply.
 */
#ifndef RELOCK_REPLY_H
#define RELOCK_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;

/* Takes NULL. Returns NULL. */
struct redisReply *relock_reply_free(struct redisReply *reply);

bool relock_reply_is_nil(const struct redisReply *reply);

/* Each returns whether the reply is of that kind; the out parameter is untouched when not. */
bool relock_reply_integer(const struct redisReply *reply, int64_t *integer);
bool relock_reply_text(const struct redisReply *reply, const char **text, size_t *len);

/* Whether the reply is that text, a string or a status. */
bool relock_reply_is(const struct redisReply *reply, const char *text);

/* The element at `index`, NULL when the reply is no array or not that long. */
const struct redisReply *relock_reply_at(const struct redisReply *reply, size_t index);

/* The text of an error, NULL when the reply is none. */
const char *relock_reply_error(const struct redisReply *reply);

/* What an error means to whoever asked. */
enum relock_refusal {
    RELOCK_REFUSED,         /* so it is: RELOCK_E_SERVER */
    RELOCK_REFUSED_USER,    /* the user, the password, or a right is missing: RELOCK_E_AUTH */
    RELOCK_REFUSED_FOR_NOW, /* it may pass: ask again */
    RELOCK_REFUSED_HERE,    /* no master: ask again on a new connection, which may lead to one */
    RELOCK_REFUSED_SCRIPT,  /* the server does not have the script */
};

enum relock_refusal relock_refusal_of(const char *error);

/* The result that ends a call with this refusal. */
int relock_refusal_result(enum relock_refusal refusal);

#endif
