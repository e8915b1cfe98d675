/*
 * Rights - a user of the server with the rights that docs/wire.md#rights lists for a kind of lock
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_RIGHTS_H
#define RELOCK_TEST_RIGHTS_H

#include "support/fixture.h"

/* Makes the user anew, with the rights that `page`, a path, lists for the kind and for names that
 * begin with "orders". `without`: not those that begin with this text; NULL: all. */
void rights_give(struct fixture *f, const char *page, const char *kind, const char *without);

/* The same, at one server. */
void rights_give_at(struct probe *probe, const char *page, const char *kind, const char *without);

/* The name and the password of the user. */
#define RIGHTS_USER "locker"
#define RIGHTS_PASSWORD "secret"

/* A client of that user, whose waiters never recheck. */
struct relock_client *rights_client(struct fixture *f, uint64_t lease_ms, unsigned flags);

#endif
