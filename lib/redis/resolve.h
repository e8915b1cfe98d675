/*
 * Resolve - looks up the addresses of a host without blocking
 *
 * The system's resolver may block for any length of time. So a name is looked up on a thread of its
 * own, and the user watches a descriptor for the answer. It may free the object at any time; the
 * thread ends when the resolver returns.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_RESOLVE_H
#define RELOCK_RESOLVE_H

#include <netdb.h>
#include <stdint.h>

struct relock_resolve;

/*
 * Starts a lookup. An address in digits is available at once, without a thread.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN if no file descriptor is left, RELOCK_E_NOMEM, and the cause in
 * `*why`.
 */
int relock_resolve_new(const char *host, uint16_t port, struct relock_resolve **resolve,
                       const char **why);

/* The descriptor that becomes readable when there is an answer. */
int relock_resolve_fd(const struct relock_resolve *resolve);

/*
 * Returns RELOCK_OK with the addresses, to be freed by freeaddrinfo; RELOCK_AGAIN while there is no
 * answer; RELOCK_E_CONN when the lookup has failed, RELOCK_E_NOMEM, and the cause in `*why`.
 */
int relock_resolve_take(struct relock_resolve *resolve, struct addrinfo **addresses,
                        const char **why);

/* Closes the descriptor and does not wait. Takes NULL. Returns NULL. */
struct relock_resolve *relock_resolve_free(struct relock_resolve *resolve);

#endif
