/*
 * Rights - the rights in Redis (ACL) that a user needs
 *
 * One table has all of them. `relock acl` prints them, `relock doctor --kind` tries what they are
 * for, and the tests and docs/wire.md#rights use the output.
 */
#ifndef RELOCK_TOOL_RIGHTS_H
#define RELOCK_TOOL_RIGHTS_H

#include "args.h"

#include <stdbool.h>
#include <stddef.h>

#define RIGHTS_MOST 128

/* Each once: keys, then channels, then commands. */
struct rights {
    const char *prefix; /* the names of the locks begin with it */
    char *words[RIGHTS_MOST];
    size_t n;
};

/* Adds those of a kind of lock, or of "operator", "cluster", "sharded", "database" or "replicas".
 * False if there is no such row. Ends the program when out of memory. */
bool rights_add(struct rights *rights, const char *row);

bool rights_has_kind(const char *name);

/* Whether `relock doctor --kind` can try this kind. */
bool rights_are_tried(const char *name);

/* Exits with STATUS_FAILED: there is no such kind, but these. */
void rights_refuse_kind(const struct args *args, const char *name) __attribute__((noreturn));

void rights_free(struct rights *rights);

#endif
