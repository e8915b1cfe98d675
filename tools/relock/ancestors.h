/*
 * Ancestors - the locks that the processes hold which started this one
 *
 * `relock run` lists its locks in RELOCK_HOLDS for its command: a line for each, of the hold, the
 * url without user and password, and the name, with tabs between them. The hold is the beginning
 * of the holder's id in Redis, which no other client has.
 *
 * Threads: the main one writes the list. Others may read it before that.
 */
#ifndef RELOCK_TOOL_ANCESTORS_H
#define RELOCK_TOOL_ANCESTORS_H

#include <stdbool.h>

/* The list that this process got; NULL: none. It stays as it is. */
const char *ancestors_list(void);

/* Whether the list has the hold with this id in Redis. */
bool ancestors_have(const char *list, const char *holder_id);

/* Adds a hold for the command. False if there is no memory. */
bool ancestors_add(const char *hold, const char *url, const char *name);

#endif
