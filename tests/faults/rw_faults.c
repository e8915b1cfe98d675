#include "rw_faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sides rw_sides(struct faults *t, struct side side[2], uint64_t command_timeout_ms)
{
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                  .recheck_ms = LONG_MS,
                                                  .command_timeout_ms = command_timeout_ms});
    struct sides sides = sides_of(t->f, client);

    side[0] = (struct side){sides.read, "read", "read_extend"};
    side[1] = (struct side){sides.write, "write", "extend"};
    return sides;
}

struct proxy_rule *rw_next(struct faults *t, enum proxy_deed deed, const struct side *side,
                           const char *words)
{
    char text[64];

    snprintf(text, sizeof(text), "%s_%s", side->name, words);
    return proxy_next(t->proxy, deed, text);
}

long long rw_count(struct faults *t)
{
    const char *last = strrchr(probe_list(t->f->probe, "HGETALL orders"), ' ');

    return last ? strtoll(last, NULL, 10) : -1;
}

void rw_has_levels(struct faults *t, const struct side *side, unsigned ours, long long redis)
{
    struct relock_grant grant;

    assert_result(relock_check(side->lock, 0, &grant), ours > 0 ? RELOCK_OK : RELOCK_NOT_OWNER);
    assert_int_equal(grant.hold_count, ours);
    assert_int_equal(rw_count(t), redis);
    if (redis > 0)
        assert_int_equal(probe_n_keys(t->f->probe),
                         strcmp(side->name, "read") == 0 ? redis + 1 : 1);
}

void rw_is_free(struct faults *t)
{
    assert_true(wait_for_no_keys(t->f->probe));
    assert_int_equal(losses_count(t->f->losses), 0);
}
