/*
 * Scripts - one Lua script run by itself, without the library around it
 *
 * `body` is its text, as in `relock_script_lock.body`. A script takes up to five
 * arguments: `SCRIPT_ARGS("30000", owner, "1")`.
 *
 * Threads: as the probe.
 */
#ifndef RELOCK_TEST_SCRIPTS_H
#define RELOCK_TEST_SCRIPTS_H

#include "support/probe.h"

struct script_args {
    const char *arg[5];
};

/* `n` as an argument: `SCRIPT_ARGS(script_decimal(30000).text, owner)`. */
struct script_decimal {
    char text[24];
};

struct script_decimal script_decimal(uint64_t n);

#define SCRIPT_ARGS(...) (&(struct script_args){{__VA_ARGS__}})

/* The reply as probe_int(), probe_text() and probe_list() give it: nil is -1, or "". */
long long script_int(struct probe *probe, const char *body, const char *key,
                     const struct script_args *args);
const char *script_text(struct probe *probe, const char *body, const char *key,
                        const struct script_args *args);

const char *script_list(struct probe *probe, const char *body, const char *key,
                        const struct script_args *args);

/* A connection of a user without one right, given as in ACL SETUSER: "-pexpire". */
struct probe *script_user(struct probe *admin, const char *socket, const char *denied);

#endif
