/*
 * Explain - what a server refuses, in words that say what to do about it
 *
 * An error out of a script names that by its hash, and a line; and often not the command. Here it
 * gets the name that it has in scripts/, the command of that line, and the page about rights.
 *
 * Threads: any.
 */
#ifndef RELOCK_EXPLAIN_H
#define RELOCK_EXPLAIN_H

#include "redis/script.h"
#include "redis/server.h"

/* Writes what an error means. `script` is what was run, NULL when none was. */
void relock_explain(char out[RELOCK_WHY_MAX], const struct relock_script *script,
                    const char *error);

/* Whether this user may not run a command, or the server does not have it. */
bool relock_explain_is_missing(const char *error);

/* Commands that locks do without, and are the weaker for it. */
enum relock_extra {
    RELOCK_EXTRA_NAME, /* CLIENT SETNAME */
    RELOCK_EXTRA_RUN,  /* INFO, over a unix socket */
    RELOCK_EXTRA_INFO, /* CLIENT INFO */
    RELOCK_EXTRA_KILL, /* CLIENT KILL */
};

/* Warns that it is missing and what that weakens, once for each server. `error` is the answer. */
void relock_explain_extra(const struct relock_server *server, enum relock_extra extra,
                          const char *error);

#endif
