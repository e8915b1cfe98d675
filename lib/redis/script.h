/* Script - the Lua scripts, which are part of the library */
#ifndef RELOCK_SCRIPT_H
#define RELOCK_SCRIPT_H

#include "redis/command.h"

struct relock_script {
    const char *name;
    const char *sha1; /* of the body: by this, Redis identifies the script */
    const char *body;
    struct relock_text evalsha; /* its first arguments as bytes to send: EVALSHA, sha1, one key */
};

extern const struct relock_script relock_script_extend;
extern const struct relock_script relock_script_fair_force_unlock;
extern const struct relock_script relock_script_fair_lock;
extern const struct relock_script relock_script_fair_unlock;
extern const struct relock_script relock_script_fenced_lock;
extern const struct relock_script relock_script_force_unlock;
extern const struct relock_script relock_script_inspect;
extern const struct relock_script relock_script_lock;
extern const struct relock_script relock_script_plain_force_unlock;
extern const struct relock_script relock_script_plain_inspect;
extern const struct relock_script relock_script_plain_lock;
extern const struct relock_script relock_script_plain_renew;
extern const struct relock_script relock_script_plain_unlock;
extern const struct relock_script relock_script_read_extend;
extern const struct relock_script relock_script_read_lock;
extern const struct relock_script relock_script_read_renew;
extern const struct relock_script relock_script_read_unlock;
extern const struct relock_script relock_script_renew;
extern const struct relock_script relock_script_rw_force_unlock;
extern const struct relock_script relock_script_rw_inspect;
extern const struct relock_script relock_script_unlock;
extern const struct relock_script relock_script_write_lock;
extern const struct relock_script relock_script_write_unlock;

/* All of them, ended by NULL. */
extern const struct relock_script *const relock_scripts[];

#endif
