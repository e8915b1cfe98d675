/* Script - the Lua scripts, which are part of the library, and commands that are sent like one */
#ifndef RELOCK_SCRIPT_H
#define RELOCK_SCRIPT_H

#include "redis/server/command.h"

#include "scripts.h" /* generated */

#include <stdbool.h>

struct relock_script {
    const char *name;
    const char *sha1; /* of the body: by this, Redis identifies the script */
    const char *body;
    struct relock_text head; /* the words before the key, as bytes to send: EVALSHA, sha1, 1 */
    size_t n_head;           /* so many words */
    unsigned forms;          /* of its reply: see reply.h */
};

#define XX(name, sha1, body) extern const struct relock_script relock_script_##name;
RELOCK_SCRIPT_MAP(XX)
#undef XX

/* Commands of Redis with one key, and arguments like those of a script. They have no body, so no
 * server has to load them. Not in `relock_scripts`. */
extern const struct relock_script relock_script_hexists;
extern const struct relock_script relock_script_get;
extern const struct relock_script relock_script_getrange;
extern const struct relock_script relock_script_exists;   /* may have further keys */
extern const struct relock_script relock_script_spublish; /* the key is the channel */

/* Whether the script needs no key but the lock itself. The line of waiting clients does not count,
 * because scripts also work without it. */
bool relock_script_has_one_key(const struct relock_script *script);

/* All of them, ended by NULL. */
extern const struct relock_script *const relock_scripts[];

#endif
