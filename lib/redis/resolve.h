/*
 * Resolve - the addresses of a host, without waiting for them
 *
 * The system's resolver blocks, for as long as it likes. So a name is looked up on a thread of its
 * own, and whoever wants the answer watches a descriptor. Who loses interest goes away at once;
 * the thread follows when the resolver lets it.
 *
 * Threads: any one at a time.
 */
#ifndef RELOCK_RESOLVE_H
#define RELOCK_RESOLVE_H

#include <netdb.h>
#include <stdint.h>

struct relock_resolve;

/*
 * Begins. An address in digits is there at once, without a thread.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN without a file descriptor for it, RELOCK_E_NOMEM, and why.
 */
int relock_resolve_new(const char *host, uint16_t port, struct relock_resolve **resolve,
                       const char **why);

/* What becomes readable when there is an answer. */
int relock_resolve_fd(const struct relock_resolve *resolve);

/*
 * Returns RELOCK_OK with the addresses, to be freed by freeaddrinfo; RELOCK_AGAIN while there is
 * no answer; RELOCK_E_CONN when there is none to be had, and RELOCK_E_NOMEM, and why.
 */
int relock_resolve_take(struct relock_resolve *resolve, struct addrinfo **addresses,
                        const char **why);

/* Closes the descriptor and does not wait. Takes NULL. Returns NULL. */
struct relock_resolve *relock_resolve_free(struct relock_resolve *resolve);

#endif
