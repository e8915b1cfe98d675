/*
 * Options - the options of the program, checked, and with defaults for those not given
 *
 * Threads: any.
 */
#ifndef RELOCK_OPTIONS_H
#define RELOCK_OPTIONS_H

#include "base/log.h"

#include <relock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A shorter lease would end before its holder could use it. */
#define RELOCK_LEASE_MIN_MS 30

/* The url of the server if the program gives none; compared by address. */
extern const char relock_options_url[];

/* Longer leases and waits are taken for a mistake of the caller. */
#define RELOCK_TEN_YEARS_MS UINT64_C(315360000000)

/* Whether the `reserved` words of a public struct are all 0. */
static inline bool relock_options_unused(const uint64_t *reserved, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (reserved[i] != 0)
            return false;
    return true;
}

/* Where the log goes. Never fails, so that the log can say what is wrong with other options. */
void relock_options_log(const struct relock_options *given, struct relock_log *log);

/* Logs that no client is made for this reason. Returns RELOCK_E_INVALID. */
int relock_options_refuse(const struct relock_log *log, const char *what);

/*
 * Copies `given`, which may be NULL, and sets the defaults. The strings remain the caller's.
 *
 * Returns RELOCK_OK; RELOCK_E_INVALID, RELOCK_E_UNSUPPORTED, and the log says which option.
 */
int relock_options_read(struct relock_options *options, const struct relock_options *given,
                        const struct relock_log *log);

/* Room for relock:<host>:<pid> */
#define RELOCK_CLIENT_NAME_MAX 96

/*
 * The default of `client_name`. Characters of the host name that CLIENT SETNAME refuses become '-'.
 * Returns `out`.
 */
const char *relock_options_name(const char *host, long pid, char out[RELOCK_CLIENT_NAME_MAX]);

#endif
