/* Lock list - locks that relock_locks() has found, kept and shown */
#ifndef RELOCK_TOOL_LOCK_LIST_H
#define RELOCK_TOOL_LOCK_LIST_H

#include "report.h"

#include <relock.h>

#include <stdbool.h>
#include <stddef.h>

struct lock_row {
    char *name;
    int kind; /* RELOCK_KIND_* */
    struct relock_holder holder;
    char *client_name;
    unsigned n_waiting;
    int64_t held_ms; /* -1: not known */
};

struct lock_list {
    struct lock_row *rows;
    size_t n, size;
};

/* Adds the locks that match a pattern; a name is one that text_pattern() makes. Returns as
 * relock_locks. */
int lock_list_find(struct lock_list *list, struct relock_client *client, const char *pattern);

/* Adds the lock of this name, which may be free. Returns as relock_locks. */
int lock_list_find_name(struct lock_list *list, struct relock_client *client, const char *name);

/* By name, each name once; or those with the most waiters first. */
void lock_list_sort(struct lock_list *list, bool by_waiting);

/* Prints the first `n`. Returns an exit status. */
int lock_list_print(const struct lock_list *list, size_t n, bool is_json, bool is_line);

void lock_list_free(struct lock_list *list);

bool lock_row_is_held(const struct lock_row *row);

/* The holder, for people: `host:pid`, else its id; NULL if it is free. Valid until the next
 * call. */
const char *lock_row_holder(const struct lock_row *row);

/* The same for a client name or, if that is "", an id. */
const char *lock_list_who(const char *client_name, const char *id);

#endif
