/* Hash - uthash, which must not end the process when memory runs out */
#ifndef RELOCK_HASH_H
#define RELOCK_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#endif
