/*
 * Hash - tables and lists of structs that embed their links: uthash and utlist, set up to report a
 * lack of memory instead of ending the process
 */
#ifndef RELOCK_HASH_H
#define RELOCK_HASH_H

#include <stddef.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

/* From a pointer to a field to the struct that embeds it. */
#define RELOCK_CONTAINER(type, field, pointer) ((type *)((char *)(pointer)-offsetof(type, field)))

#endif
