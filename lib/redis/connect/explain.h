/*
 * Explain - turns an error of the server into a text that suggests a remedy
 *
 * An error in a script names the script by its hash and a line, and often not the command. The text
 * made of it names the file in scripts/, the command of that line, and the page about ACL rights.
 *
 * Threads: any.
 */
#ifndef RELOCK_EXPLAIN_H
#define RELOCK_EXPLAIN_H

#include "redis/server/script.h"
#include "redis/server/server.h"

#include <stdbool.h>

/* Writes the text for an error. `script` is the script that was run; NULL: none. */
void relock_explain(char out[RELOCK_WHY_MAX], const struct relock_script *script,
                    const char *error);

/* Writes the text for a redirection that names the address of the very node that sent it: another
 * server is behind that address now. */
void relock_explain_replaced(char out[RELOCK_WHY_MAX], const char *error);

/*
 * Whether this refusal of a command that locks can do without means that the server lacks it, or
 * that the user may not run it. A server or a proxy says so in any words, so each error that is not
 * a known temporary or final one counts.
 */
bool relock_explain_is_missing(const char *error);

/* Commands without which locks work, but with fewer guarantees. */
enum relock_extra {
    RELOCK_EXTRA_HELLO, /* HELLO */
    RELOCK_EXTRA_ROLE,  /* INFO or ROLE, without HELLO */
    RELOCK_EXTRA_NAME,  /* CLIENT SETNAME */
    RELOCK_EXTRA_RUN,   /* INFO, over a unix socket */
    RELOCK_EXTRA_INFO,  /* CLIENT INFO */
    RELOCK_EXTRA_KILL,  /* CLIENT KILL */
    RELOCK_EXTRA_LOAD,  /* SCRIPT LOAD */
    RELOCK_EXTRA_WAIT,  /* WAIT, for min_replicas */
    RELOCK_EXTRA_HEAR,  /* SUBSCRIBE */
    RELOCK_EXTRA_TRACK, /* CLIENT TRACKING, and what it needs */
};

/* Warns, once for each server, that this command is missing, and of the consequence. */
void relock_explain_extra(const struct relock_server *server, enum relock_extra extra,
                          const char *error);

#endif
