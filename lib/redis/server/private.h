/*
 * Private - what the files of lib/redis/server share, and nobody else
 *
 * What a header of this folder says of a module and its threads holds for its part here, too.
 */
#ifndef RELOCK_SERVER_PRIVATE_H
#define RELOCK_SERVER_PRIVATE_H

#include "base/log.h"

#include <relock.h>
#include <stdbool.h>
#include <stdint.h>

struct relock_tls_context;
struct relock_url;

/* ---- url ------------------------------------------------------------------------------------- */

/*
 * Reads redis://[[user]:password@]host[:port][/db], unix:///path[?db=n],
 * redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/master[/db], and
 * redis+cluster://[[user]:password@]host[:port][,host[:port]...][/db][?pubsub=auto|sharded|plain].
 * ?db=n may stand for /db. With rediss for redis, connections are encrypted. valkey and valkeys are
 * the same as redis and rediss, and a scheme has no case. User, password, path and master may hold
 * %xx.
 *
 * Returns RELOCK_OK, RELOCK_E_INVALID, RELOCK_E_NOMEM. `*why` is the cause; it repeats no part of
 * the url.
 */
int relock_url_parse(struct relock_url *url, const char *text, const char **why);
void relock_url_deinit(struct relock_url *url);

/* ---- tls context ----------------------------------------------------------------------------- */

/* With the same files, for another host. A name in the options applies to both. Logs nothing.
 * Returns NULL when out of memory. */
struct relock_tls_context *relock_tls_context_new_for(const struct relock_tls_context *as,
                                                      const char *host);

/* ---- tls guard ------------------------------------------------------------------------------- */

/* Starts OpenSSL; further calls do nothing. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_tls_guard_init(void);

#endif
