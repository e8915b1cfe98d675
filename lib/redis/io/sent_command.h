/*
 * Sent command - a command in flight on a pipeline, kept so that it can be sent again
 *
 * Redis answers a command with one reply, and with one more for each of KILL, ASKING, LOAD and
 * CACHING that was sent before it. The command knows which of them comes next. ASKING and CACHING
 * must stand right before the command, so a command behind ASKING is not tracked. After the reply
 * to CALL the pipeline ends the command, or sends it again over this or another connection: `args`
 * has its arguments as bytes.
 *
 * Threads: the I/O thread.
 */
#ifndef RELOCK_SENT_COMMAND_H
#define RELOCK_SENT_COMMAND_H

#include "redis/lane/call.h"

#include <stdbool.h>
#include <stddef.h>

enum relock_next_reply {
    RELOCK_NEXT_CALL,    /* the last one; the only one of a PING */
    RELOCK_NEXT_KILL,    /* CLIENT KILL, of the fence */
    RELOCK_NEXT_ASKING,  /* if the slot of the key is on its way to this server */
    RELOCK_NEXT_LOAD,    /* SCRIPT LOAD, if the server lacks the script */
    RELOCK_NEXT_CACHING, /* CLIENT CACHING, if the command is tracked */
};

struct relock_sent_command {
    enum relock_next_reply next_reply;
    unsigned n_replies; /* all that were due when it was last sent */
    unsigned forms;     /* of the last one: see reply.h */
    enum relock_call_form form;
    bool asks;            /* it follows ASKING, which SCRIPT LOAD would use up */
    bool is_tracked;      /* it follows CLIENT CACHING */
    bool is_kill_refused; /* for now: an older command may still run */
    bool cannot_load;     /* the server or the user lacks SCRIPT LOAD */
    unsigned n_redirects;
    const struct relock_script *script; /* that it runs; NULL: none */
    void (*fn)(void *arg, int result, const struct redisReply *reply); /* NULL: no caller */
    void *arg;
    struct relock_flight *flight;       /* NULL: its user need not know */
    const struct relock_node **tracker; /* see call.h; constant */
    struct relock_node **answered_by;   /* likewise */
    struct relock_sent_command *next, *prev;
    size_t n_args;
    size_t len;
    char args[]; /* as bytes */
};

/* Appends the call to the buffer. `is_fenced`: behind a KILL. Returns NULL when out of memory; the
 * buffer may have a part of it then. */
struct relock_sent_command *relock_sent_command_new(const struct relock_call *call, bool is_fenced,
                                                    bool is_tracked, struct relock_buffer *out);

/* For a command of one reply, of one of these `forms`, neither a script nor repeated, that the
 * caller has appended since the buffer had the length `from`. Returns NULL when out of memory: the
 * buffer has that length. */
struct relock_sent_command *relock_sent_command_appended(struct relock_buffer *out, size_t from,
                                                         unsigned forms);

/* Appends the command once more, in this form, and tracked if it may be. Returns false when out of
 * memory: the buffer is as it was. */
bool relock_sent_command_repeat(struct relock_sent_command *command, enum relock_call_form form,
                                bool may_track, struct relock_buffer *out);

/* Whether this can be the next reply; `may_doubt`: an unknown error to a script cannot. */
bool relock_sent_command_fits(const struct relock_sent_command *command,
                              const struct redisReply *reply, bool may_doubt);

/* Takes a reply. Returns whether it is the last one. */
bool relock_sent_command_take(struct relock_sent_command *command,
                              const struct relock_server *server, const struct redisReply *reply);

#endif
