/*
 * Reply - reads a reply of Redis
 *
 * Code outside this folder reads replies through these functions alone and does not know hiredis. A
 * server may send anything, so each function tells whether the reply has the expected form.
 *
 * Threads: the owner of the reply.
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

/* Each returns whether the reply has that type; if not, the out parameter is untouched. */
bool relock_reply_integer(const struct redisReply *reply, int64_t *integer);
bool relock_reply_text(const struct redisReply *reply, const char **text, size_t *len);

/* Returns whether the reply is a string or a status with this text. */
bool relock_reply_is(const struct redisReply *reply, const char *text);

/* Finds the line "name:value" in a reply to INFO. Returns whether it has one; if not, the out
 * parameters are untouched. */
bool relock_reply_field(const struct redisReply *reply, const char *name, const char **value,
                        size_t *len);

/* Returns the element at `index`; NULL if the reply is no array or is shorter. */
const struct redisReply *relock_reply_at(const struct redisReply *reply, size_t index);

/* Returns the text of an error; NULL if the reply is none. */
const char *relock_reply_error(const struct redisReply *reply);

/* The meaning of an error for the call. */
enum relock_refusal {
    RELOCK_REFUSED,         /* final: RELOCK_E_SERVER */
    RELOCK_REFUSED_UNKNOWN, /* final, in words that mean nothing to the library. A server without a
                               command says so in any words: explain.h */
    RELOCK_REFUSED_USER,    /* wrong user or password, or a missing ACL right: RELOCK_E_AUTH */
    RELOCK_REFUSED_FOR_NOW, /* temporary: retry */
    RELOCK_REFUSED_HERE,    /* not a master: retry over a new connection, which may lead to one */
    RELOCK_REFUSED_SCRIPT,  /* the server does not have the script: load it */
    RELOCK_REFUSED_HALFWAY, /* temporary, and the script may have run in part: retry */
    RELOCK_REFUSED_MOVED,   /* another node of the cluster has the key: ask that */
};

enum relock_refusal relock_refusal_of(const char *error);

/* Returns the result of a call that ends with this refusal. */
int relock_refusal_result(enum relock_refusal refusal);

#endif
