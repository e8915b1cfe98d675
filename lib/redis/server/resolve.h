/*
 * Resolve - looks up the addresses of a server without blocking
 *
 * The system's resolver may block for any length of time. So a thread waits for it, and the user of
 * a lookup watches a descriptor. That thread exists before the resolver of a name does, and serves
 * all names of the process: to connect again takes no new thread. A name that would wait behind one
 * that hangs gets a further thread, if the system has one. Each resolver occupies at most one
 * thread: a lookup that starts meanwhile gets the same answer. The user may free lookup and
 * resolver at any time.
 *
 * Another source may take the place of the system's resolver. It knows which server to use now, and
 * relock_resolver_distrust() tells it that its last answer was of no use. It has a thread of its
 * own.
 *
 * Threads: a lookup: its user; a resolver: any may start lookups, until free begins.
 */
#ifndef RELOCK_RESOLVE_H
#define RELOCK_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct relock_lookup;
struct relock_resolver;

/* More addresses of a host are not tried. */
#define RELOCK_ADDRESSES_MAX 8

struct relock_addresses {
    unsigned n;
    unsigned n_switches; /* how many failovers were known before the source was asked */
    struct {
        struct sockaddr_storage address;
        socklen_t len;
    } at[RELOCK_ADDRESSES_MAX];
};

#define RELOCK_FOUND_WHY_MAX 160

struct relock_found {
    int result;                     /* RELOCK_OK; RELOCK_AGAIN: none yet; else of a failure */
    char why[RELOCK_FOUND_WHY_MAX]; /* its cause */
    struct relock_addresses addresses;
};

struct relock_source_ops {
    /* Finds the addresses, on the thread of the source. `distrusts`: the last ones were of no use.
     */
    void (*look_up)(void *arg, bool distrusts, struct relock_found *answer);

    /* Makes a running look_up return soon. On the thread that frees. */
    void (*stop)(void *arg);

    void (*free)(void *arg);
};

/* For the log, when a resolver could not be made. */
#define RELOCK_RESOLVER_WHY                                                                       \
    "out of memory, or no thread could be started to look up its name: the limit of threads may " \
    "be reached (ulimit -u, pids.max)"

/* For one host. Returns NULL when out of memory, or of threads for a name. */
struct relock_resolver *relock_resolver_new(const char *host, uint16_t port);

/* Asks this source instead, which it frees at its end. Returns NULL when out of memory or threads,
 * and `arg` stays the caller's. */
struct relock_resolver *relock_resolver_new_for(const struct relock_source_ops *ops, void *arg);

/* No lookup may be left. With a source it waits until look_up has returned. Takes NULL. */
void relock_resolver_free(struct relock_resolver *resolver);

/* Tells the source that its last addresses led to no usable server. Takes NULL. */
void relock_resolver_distrust(struct relock_resolver *resolver);

/*
 * Starts a lookup, whose descriptor is of this scope. An address in digits is available at once,
 * without a thread.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN if no file descriptor is left, RELOCK_E_NOMEM, and the cause in
 * `*why`.
 */
int relock_lookup_new(struct relock_resolver *resolver, const void *scope,
                      struct relock_lookup **lookup, const char **why);

/* The descriptor that becomes readable when there is an answer. */
int relock_lookup_fd(const struct relock_lookup *lookup);

/*
 * Returns RELOCK_OK with the addresses, those of a host by IPv6 and IPv4 in turn; RELOCK_AGAIN
 * while there is no answer; RELOCK_E_CONN when the lookup has failed, RELOCK_E_NOMEM, another
 * result of the source, and the cause in `*why`.
 */
int relock_lookup_take(struct relock_lookup *lookup, struct relock_addresses *addresses,
                       const char **why);

/* Closes the descriptor and does not wait. Takes NULL. Returns NULL. */
struct relock_lookup *relock_lookup_free(struct relock_lookup *lookup);

#endif
