/*
 * Tls error - turns a failure of OpenSSL into a result and a text that suggests a remedy
 *
 * Threads: the one in which OpenSSL has failed, before its next call.
 */
#ifndef RELOCK_TLS_ERROR_H
#define RELOCK_TLS_ERROR_H

#include "redis/server/server.h"

#include <stdbool.h>

struct ssl_st;

/*
 * `was_asked`: the server has asked for a client certificate. `name`: what the server's certificate
 * must name.
 *
 * Returns RELOCK_E_AUTH if one side rejects the certificate of the other, or the lack of one;
 * RELOCK_E_NOMEM; else RELOCK_E_CONN.
 */
int relock_tls_error(const struct ssl_st *ssl, const char *name, bool was_asked,
                     char why[RELOCK_WHY_MAX]);

#endif
