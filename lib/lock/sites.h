/*
 * Sites - what a client knows of the names of its locks, found by name
 *
 * Threads: with the mutex of the client held.
 */
#ifndef RELOCK_SITES_H
#define RELOCK_SITES_H

#include "lock/client.h"

/*
 * Finds or makes the site of a name, with a reference.
 *
 * Returns RELOCK_OK, RELOCK_E_NOMEM, RELOCK_E_INVALID when another lock of the client rules it out:
 * `*why` says which.
 */
int relock_sites_get(struct relock_client *client, const struct relock_kind *kind, const char *name,
                     size_t len, struct relock_site **site, const char **why)
    RELOCK_REQUIRES(client->mutex);

/* The site of the locks that are made of these members; NULL when there is none. */
struct relock_site *relock_sites_find_group(struct relock_client *client,
                                            const struct relock_group *group)
    RELOCK_REQUIRES(client->mutex);

/* Finds or makes it, with a reference. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_sites_get_group(struct relock_client *client, struct relock_group *group,
                           const char *name, struct relock_site **site)
    RELOCK_REQUIRES(client->mutex);

/*
 * Makes a line, with a reference, in which one waiter for a fair lock stands. Returns RELOCK_OK,
 * RELOCK_E_NOMEM.
 */
int relock_sites_line(struct relock_client *client, struct relock_site *home,
                      struct relock_site **line) RELOCK_REQUIRES(client->mutex);

/* The last reference frees. */
void relock_sites_unref(struct relock_client *client, struct relock_site *site)
    RELOCK_REQUIRES(client->mutex);

#endif
