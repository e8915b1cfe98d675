/* Hash - uthash and utlist, set up to report a lack of memory instead of ending the process */
#ifndef RELOCK_HASH_H
#define RELOCK_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#endif
