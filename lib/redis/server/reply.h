/*
 * Reply - reads a reply of Redis, and knows which replies a command can have
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

/*
 * The replies that a command can have, besides errors. If another one comes, replies do not belong
 * to the commands that they seem to answer: something else has written to the connection.
 */
enum relock_reply_form {
    RELOCK_REPLY_NIL = 1 << 0,
    RELOCK_REPLY_INTEGER = 1 << 1,
    RELOCK_REPLY_STATUS = 1 << 2,
    RELOCK_REPLY_STRING = 1 << 3,
    RELOCK_REPLY_ARRAY = 1 << 4,  /* of any length */
    RELOCK_REPLY_NO_ERR = 1 << 5, /* and no error without a code of its own, which is "ERR" */
};

/* An array of `n` elements, at most RELOCK_REPLY_LONGEST. */
#define RELOCK_REPLY_ARRAY_OF(n) (1U << (8 + (n)))
#define RELOCK_REPLY_LONGEST 8

#define RELOCK_REPLY_TEXT (RELOCK_REPLY_STATUS | RELOCK_REPLY_STRING)
#define RELOCK_REPLY_ANY \
    (RELOCK_REPLY_NIL | RELOCK_REPLY_INTEGER | RELOCK_REPLY_TEXT | RELOCK_REPLY_ARRAY)

/* Whether it has one of these forms. An error has, unless RELOCK_REPLY_NO_ERR forbids it. */
bool relock_reply_fits(const struct redisReply *reply, unsigned forms);

/* Why a connection has ended. */
#define RELOCK_REPLY_MISFIT "the server sent a reply that the command cannot have"
#define RELOCK_REPLY_UNASKED "the server sent a reply without a command"

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

/* Whether the server, or a proxy, would refuse the same command again, wherever its keys are. */
bool relock_refusal_is_final(enum relock_refusal refusal);

/* Whether the reply, or NULL, is a refusal that may pass. */
bool relock_reply_refuses_for_now(const struct redisReply *reply);

/* Returns the result of a call that ends with this refusal. */
int relock_refusal_result(enum relock_refusal refusal);

#endif
