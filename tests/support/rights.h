/*
 * Rights - a user of the server with the rights that `relock acl` prints for a kind of lock
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_RIGHTS_H
#define RELOCK_TEST_RIGHTS_H

#include "support/fixture.h"

/* Makes the user anew, with the rights of the kind and names that begin with "orders". `kind` may
 * have further words of `relock acl` behind it. `without`: not the rights that begin with this
 * text; NULL: all. */
void rights_give(struct fixture *f, const char *kind, const char *without);

/* The same, at one server. False if it refuses them. */
bool rights_give_at(struct probe *probe, const char *kind, const char *without);

/* Takes each right of the kind in turn from the user, except `others`, and asserts that the server
 * refuses something then while `live` runs. Ends with all rights. */
void rights_assert_needed(struct fixture *f, const char *kind, const char *const *others,
                          void (*live)(struct fixture *f));

/* The name and the password of the user. */
#define RIGHTS_USER "locker"
#define RIGHTS_PASSWORD "secret"

/* A client of that user, whose waiters never recheck. */
struct relock_client *rights_client(struct fixture *f, uint64_t lease_ms, unsigned flags);

#endif
