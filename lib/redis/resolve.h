/*
 * Resolve - looks up the addresses of a host without blocking
 *
 * The system's resolver may block for any length of time. So a thread waits for it, and the user of
 * a lookup watches a descriptor. Each resolver has at most one such thread: a lookup that starts
 * while it runs gets the same answer. The user may free lookup and resolver at any time; the thread
 * ends when the system's resolver returns.
 *
 * Threads: a lookup: its user; a resolver: any may start lookups, until free begins.
 */
#ifndef RELOCK_RESOLVE_H
#define RELOCK_RESOLVE_H

#include <stdint.h>
#include <sys/socket.h>

struct relock_resolver;
struct relock_lookup;

/* More addresses of a host are not tried. */
#define RELOCK_ADDRESSES_MAX 8

struct relock_addresses {
    unsigned n;
    struct {
        struct sockaddr_storage address;
        socklen_t len;
    } at[RELOCK_ADDRESSES_MAX];
};

/* For one host. Returns NULL when out of memory. */
struct relock_resolver *relock_resolver_new(const char *host, uint16_t port);

/* No lookup may be left. Takes NULL. */
void relock_resolver_free(struct relock_resolver *resolver);

/*
 * Starts a lookup. An address in digits is available at once, without a thread.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN if no file descriptor is left, RELOCK_E_NOMEM, and the cause in
 * `*why`.
 */
int relock_lookup_new(struct relock_resolver *resolver, struct relock_lookup **lookup,
                      const char **why);

/* The descriptor that becomes readable when there is an answer. */
int relock_lookup_fd(const struct relock_lookup *lookup);

/*
 * Returns RELOCK_OK with the addresses, IPv6 and IPv4 in turn; RELOCK_AGAIN while there is no
 * answer; RELOCK_E_CONN when the lookup has failed, RELOCK_E_NOMEM, and the cause in `*why`.
 */
int relock_lookup_take(struct relock_lookup *lookup, struct relock_addresses *addresses,
                       const char **why);

/* Closes the descriptor and does not wait. Takes NULL. Returns NULL. */
struct relock_lookup *relock_lookup_free(struct relock_lookup *lookup);

#endif
