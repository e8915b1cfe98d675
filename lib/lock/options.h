/*
 * Options - what the program asked for, with the defaults in and checked
 *
 * Threads: any.
 */
#ifndef RELOCK_OPTIONS_H
#define RELOCK_OPTIONS_H

#include "base/log.h"

#include <relock.h>

/* Leases and waits beyond this are a mistake of the caller. */
#define RELOCK_TEN_YEARS_MS UINT64_C(315360000000)

/* `reserved` of any public struct. */
bool relock_options_unused(const uint64_t *reserved, size_t n);

/* Where the program wants its log, even if its other options cannot be. */
void relock_options_log(const struct relock_options *given, struct relock_log *log);

/*
 * Copies `given`, which may be NULL, with the defaults in. The strings stay the caller's.
 *
 * Returns RELOCK_OK; RELOCK_E_INVALID, RELOCK_E_UNSUPPORTED, and the log says which option.
 */
int relock_options_read(struct relock_options *options, const struct relock_options *given,
                        const struct relock_log *log);

/* Room for relock:<host>:<pid> */
#define RELOCK_CLIENT_NAME_MAX 96

/*
 * The `client_name` of a program that gives none. What CLIENT SETNAME refuses in the name of the
 * host becomes '-'. Returns `out`.
 */
const char *relock_options_name(const char *host, long pid, char out[RELOCK_CLIENT_NAME_MAX]);

#endif
