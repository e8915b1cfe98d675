/* Script - the embedded Lua scripts, by name */
#ifndef RELOCK_SCRIPT_H
#define RELOCK_SCRIPT_H

struct relock_script {
    const char *name;
    const char *sha1; /* of the body: what Redis knows it by */
    const char *body;
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
