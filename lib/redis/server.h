/*
 * Server - where Redis is and who we are there
 *
 * Threads: any; constant from init to deinit, but for what is said.
 */
#ifndef RELOCK_SERVER_H
#define RELOCK_SERVER_H

#include "base/log.h"

#include <relock.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Room for a text that says what went wrong, and where. */
#define RELOCK_WHY_MAX 256

/* What a url says. Strings that it does not mention are NULL. */
struct relock_url {
    char *host; /* TCP */
    uint16_t port;
    char *path; /* unix socket, instead of host and port */
    char *user;
    char *password;
    unsigned db;
};

/*
 * Reads redis://[[user]:password@]host[:port][/db] and unix:///path[?db=n]. User, password and
 * path may hold %xx.
 *
 * Returns RELOCK_OK, RELOCK_E_INVALID, RELOCK_E_UNSUPPORTED for the schemes to come,
 * RELOCK_E_NOMEM. `*why` says what is wrong with it, without repeating any of it.
 */
int relock_url_parse(struct relock_url *url, const char *text, const char **why);
void relock_url_deinit(struct relock_url *url);

struct relock_server {
    struct relock_url url;
    char *name;        /* CLIENT SETNAME, or NULL */
    bool name_is_ours; /* not the program's: a server may refuse it, for whatever reason */
    char *label;       /* for the log: the address, no password */
    uint64_t connect_timeout_ms;
    uint64_t command_timeout_ms;
    const struct relock_log *log;
    atomic_uint *warned; /* what was warned of, see explain.h; changed by any thread */
};

/*
 * Takes url, user, password and timeouts from the options, of which none is left at 0. `id` is
 * what follows the colon in the name of the connections.
 *
 * Returns as relock_url_parse.
 */
int relock_server_init(struct relock_server *server, const struct relock_options *options,
                       const char *id, const struct relock_log *log);
void relock_server_deinit(struct relock_server *server);

#endif
