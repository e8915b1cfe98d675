#include "redis/server/script.h"

#include "redis/server/reply.h"

#include <stddef.h>
#include <string.h>

/* The replies of each script; a script without a line here does not compile. */
#define REFUSED                                                                       \
    (RELOCK_REPLY_INTEGER | RELOCK_REPLY_ARRAY_OF(3)) /* perhaps with a place in line \
                                                       */
#define ACQUIRES (RELOCK_REPLY_NIL | REFUSED)
#define RELEASES (RELOCK_REPLY_INTEGER | RELOCK_REPLY_ARRAY_OF(2)) /* perhaps with a place */
/* Perhaps with the receivers of its message. */
#define NUMBER (RELOCK_REPLY_INTEGER | RELOCK_REPLY_ARRAY_OF(2))
#define FORMS_extend RELOCK_REPLY_INTEGER
#define FORMS_fair_force_unlock RELOCK_REPLY_INTEGER
#define FORMS_fair_lock (RELOCK_REPLY_NIL | RELOCK_REPLY_INTEGER | RELOCK_REPLY_ARRAY_OF(2))
#define FORMS_fair_unlock RELOCK_REPLY_INTEGER
#define FORMS_fenced_lock (RELOCK_REPLY_ARRAY_OF(1) | REFUSED)
#define FORMS_force_unlock RELOCK_REPLY_INTEGER
#define FORMS_inspect RELOCK_REPLY_ARRAY_OF(5)
#define FORMS_latch_count_down NUMBER
#define FORMS_latch_delete NUMBER
#define FORMS_like_force_unlock RELOCK_REPLY_INTEGER
#define FORMS_like_unlock RELOCK_REPLY_INTEGER
#define FORMS_line_leave RELOCK_REPLY_INTEGER
#define FORMS_lock (ACQUIRES | RELOCK_REPLY_STRING)
#define FORMS_look RELOCK_REPLY_ARRAY
#define FORMS_number_try_set NUMBER
#define FORMS_plain_force_unlock RELOCK_REPLY_INTEGER
#define FORMS_plain_inspect RELOCK_REPLY_ARRAY_OF(5)
#define FORMS_plain_lock ACQUIRES
#define FORMS_plain_renew RELOCK_REPLY_INTEGER
#define FORMS_plain_renew_many (RELOCK_REPLY_INTEGER | RELOCK_REPLY_ARRAY)
#define FORMS_plain_unlock RELEASES
#define FORMS_plain_watch (RELOCK_REPLY_NIL | RELOCK_REPLY_STRING | RELOCK_REPLY_ARRAY_OF(2))
#define FORMS_publish_waits (RELOCK_REPLY_NIL | RELOCK_REPLY_ARRAY_OF(2))
#define FORMS_read_extend RELOCK_REPLY_INTEGER
#define FORMS_read_lock ACQUIRES
#define FORMS_read_renew RELOCK_REPLY_INTEGER
#define FORMS_read_renew_many (RELOCK_REPLY_INTEGER | RELOCK_REPLY_ARRAY)
#define FORMS_read_unlock RELOCK_REPLY_INTEGER
#define FORMS_renew RELOCK_REPLY_INTEGER
#define FORMS_renew_many (RELOCK_REPLY_INTEGER | RELOCK_REPLY_ARRAY)
#define FORMS_rw_force_unlock RELOCK_REPLY_INTEGER
#define FORMS_rw_inspect RELOCK_REPLY_ARRAY_OF(6)
#define FORMS_since_read RELOCK_REPLY_ARRAY
#define FORMS_since_write RELOCK_REPLY_INTEGER
#define FORMS_semaphore_force_unlock RELOCK_REPLY_INTEGER
#define FORMS_semaphore_inspect RELOCK_REPLY_ARRAY_OF(5)
#define FORMS_semaphore_lock (ACQUIRES | RELOCK_REPLY_STRING)
#define FORMS_semaphore_permits RELOCK_REPLY_ARRAY_OF(3)
#define FORMS_semaphore_renew RELOCK_REPLY_INTEGER
#define FORMS_semaphore_renew_many (RELOCK_REPLY_INTEGER | RELOCK_REPLY_ARRAY)
#define FORMS_semaphore_unlock RELOCK_REPLY_INTEGER
#define FORMS_unleased_acquire RELOCK_REPLY_INTEGER
#define FORMS_unleased_add RELOCK_REPLY_ARRAY_OF(2)
#define FORMS_unleased_drain (RELOCK_REPLY_NIL | RELOCK_REPLY_STRING)
#define FORMS_unleased_release RELOCK_REPLY_ARRAY_OF(2)
#define FORMS_unlock RELEASES
#define FORMS_waits_behind RELOCK_REPLY_ARRAY
#define FORMS_waits_find \
    (RELOCK_REPLY_ARRAY_OF(0) | RELOCK_REPLY_ARRAY_OF(1) | RELOCK_REPLY_ARRAY_OF(3))
#define FORMS_write_lock ACQUIRES
#define FORMS_write_unlock RELEASES

#define EVALSHA(sha1) "$7\r\nEVALSHA\r\n$40\r\n" sha1 "\r\n$1\r\n1\r\n"
#define XX(name, sha1, body)                            \
    const struct relock_script relock_script_##name = { \
        #name, sha1, body, {EVALSHA(sha1), sizeof(EVALSHA(sha1)) - 1}, 3, FORMS_##name};
RELOCK_SCRIPT_MAP(XX)
#undef XX

#define COMMAND(name, head, forms)                                                                \
    const struct relock_script relock_script_##name = {#name, "",   "", {head, sizeof(head) - 1}, \
                                                       1,     forms};
COMMAND(hexists, "$7\r\nHEXISTS\r\n", RELOCK_REPLY_INTEGER)
COMMAND(get, "$3\r\nGET\r\n", RELOCK_REPLY_NIL | RELOCK_REPLY_STRING)
COMMAND(getrange, "$8\r\nGETRANGE\r\n", RELOCK_REPLY_STRING)
COMMAND(exists, "$6\r\nEXISTS\r\n", RELOCK_REPLY_INTEGER)
COMMAND(spublish, "$8\r\nSPUBLISH\r\n", RELOCK_REPLY_INTEGER)
#undef COMMAND

/* The others make their keys of the hash tag. */
bool relock_script_has_one_key(const struct relock_script *script)
{
    return !strstr(script->body, "local tag = ");
}

const struct relock_script *const relock_scripts[] = {
#define XX(name, sha1, body) &relock_script_##name,
    RELOCK_SCRIPT_MAP(XX)
#undef XX
        NULL,
};
