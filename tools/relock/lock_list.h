/* Lock list - locks that relock_locks() has found, kept and shown */
#ifndef RELOCK_TOOL_LOCK_LIST_H
#define RELOCK_TOOL_LOCK_LIST_H

#include "args.h"
#include "report.h"

#include <relock.h>

#include <stdbool.h>
#include <stddef.h>

/* What a key is that is only a number, or is absent: Redis does not show it, so the user says it
 * (--kind). */
enum said { SAID_NOTHING, SAID_PLAIN, SAID_SEMAPHORE, SAID_UNLEASED, SAID_LATCH };

/* Permits of an acquire. */
struct permits_row {
    char id[RELOCK_PERMIT_HEX_MAX + 1];
    char *client_name;
    uint64_t n;
    int64_t ttl_ms, held_ms; /* -1: none, not known */
};

struct lock_row {
    char *name;
    int kind; /* RELOCK_KIND_* */
    enum said said;
    struct relock_holder holder;
    char *client_name;
    char *library; /* of a plain lock; "": not known */
    unsigned n_waiting;
    int64_t held_ms; /* -1: not known */
    int64_t number;  /* free permits, or the number that the key is; 0: no such kind */
    uint64_t n_out;  /* permits */
    bool is_unset;   /* the number of a semaphore is missing, while permits are out */
    struct permits_row *permits;
    size_t n_permits; /* rows */
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

/* Prints the first `n`; `in_full`: for people, too, with the permits of each acquire, and with
 * what a number may be. Returns an exit status. */
int lock_list_print(const struct lock_list *list, size_t n, bool is_json, bool in_full);

/* Prints the first one for programs, as a line of its own. */
int lock_list_print_line(const struct lock_list *list);

void lock_list_free(struct lock_list *list);

/* Reads the value of --kind. Exits if it is another word. */
enum said lock_list_said(const struct args *args, const char *word);

/* The user says what the key is. False if it certainly is something else. */
bool lock_row_say(struct lock_row *row, enum said said);

/* As what it is shown: as what the user says it is, else as what it is, or seems to be by its name.
 * SAID_NOTHING: a lock, a number that may be anything, or no key. */
enum said lock_row_sight(const struct lock_row *row);

/* Whether an owner holds it; an unleased semaphore has no permits left; a latch is closed. */
bool lock_row_is_held(const struct lock_row *row);

/* Whether the key is a number for which the user has not said what it is. */
bool lock_row_is_unsaid(const struct lock_row *row);

/* Permits that are out and in no row of `permits`: relock_locks() shows only so many. */
uint64_t lock_row_n_unseen(const struct lock_row *row);

/* `held`, for people: `2 of 5 out`, `closed at 3`. Valid until the next call. */
const char *lock_row_state(const struct lock_row *row);

/* `latch`. With a question mark, it may be something else. NULL: it does not exist. */
const char *lock_row_kind(const struct lock_row *row);

/* The holder, for people: `host:pid`, else its id; NULL if there is none. Valid until the next
 * call. */
const char *lock_row_holder(const struct lock_row *row);

/* The same for a client name or, if that is "", an id. */
const char *lock_list_who(const char *client_name, const char *id);

#endif
