#include "fair_scripts.h"

#include "redis/server/script.h"
#include "support/scripts.h"

#include <stdio.h>
#include <stdlib.h>

/* `*n` intervals follow the time if the caller waits: `wait` is the script's last argument. */
static long long ask(struct fixture *f, uint64_t lease_ms, const char *owner, unsigned count,
                     uint64_t patience_ms, const char *wait, long long *n)
{
    const char *reply =
        script_list(f->probe, relock_script_fair_lock.body, "orders",
                    SCRIPT_ARGS(script_decimal(lease_ms).text, owner, script_decimal(count).text,
                                script_decimal(patience_ms).text, wait));
    char *end;
    long long rest_ms = strtoll(reply, &end, 10);

    *n = strtoll(end, &end, 10);
    assert_string_equal(end, "");
    return *reply == '\0' ? GRANTED : rest_ms;
}

long long fair_lock_with(struct fixture *f, uint64_t lease_ms, const char *owner, unsigned count,
                         uint64_t patience_ms)
{
    long long n, rest_ms = ask(f, lease_ms, owner, count, patience_ms, "1", &n);

    assert_true(n <= 1); /* not said to a holder */
    return rest_ms;
}

long long fair_lock(struct fixture *f, const char *owner, unsigned count)
{
    return fair_lock_with(f, LEASE_MS, owner, count, PATIENCE_MS);
}

long long fair_trylock(struct fixture *f, const char *owner)
{
    long long n;

    return ask(f, LEASE_MS, owner, 1, PATIENCE_MS, "0", &n);
}

long long fair_listen(struct fixture *f, const char *owner, long long *n)
{
    return ask(f, LEASE_MS, owner, 1, PATIENCE_MS, "2", n);
}

long long fair_unlock(struct fixture *f, const char *owner, unsigned count)
{
    return script_int(f->probe, relock_script_fair_unlock.body, "orders",
                      SCRIPT_ARGS(owner, script_decimal(count).text, PATIENCE));
}

void fair_leave(struct fixture *f, const char *owner)
{
    assert_true(fair_unlock(f, owner, 0) > 0);
}

long long fair_force_unlock(struct fixture *f, const char *owner)
{
    return script_int(f->probe, relock_script_fair_force_unlock.body, "orders",
                      SCRIPT_ARGS(owner, PATIENCE));
}

void fair_set_rest(struct fixture *f, const char *owner, long long rest_ms)
{
    assert_true(probe_int(f->probe, "ZADD " DEADLINES " %lld %s", fair_now(f) + rest_ms, owner) >=
                0);
}

void fair_add_foreign(struct fixture *f, const char *owner, long long rest_ms)
{
    assert_true(probe_int(f->probe, "RPUSH " QUEUE " %s", owner) > 0);
    fair_set_rest(f, owner, rest_ms);
}

void fair_take_foreign(struct fixture *f, const char *owner)
{
    char others[4096];

    assert_int_equal(probe_int(f->probe, "LREM " QUEUE " 0 %s", owner), 1);
    assert_int_equal(probe_int(f->probe, "ZREM " DEADLINES " %s", owner), 1);
    snprintf(others, sizeof(others),
             "for _, m in ipairs(redis.call('zrange', '" DEADLINES "', 0, -1)) do "
             "redis.call('zincrby', '" DEADLINES "', -%d, m) end return 0",
             REDISSON_MS);
    assert_int_equal(probe_int(f->probe, "EVAL %s 0", others), 0);
}

void fair_let_die(struct fixture *f, const char *owner)
{
    assert_true(fair_place(f, owner) >= 0);
    fair_set_rest(f, owner, -1);
}

long long fair_place(struct fixture *f, const char *owner)
{
    long long place = probe_int(f->probe, "LPOS " QUEUE " %s", owner);

    return fair_deadline(f, owner) >= 0 ? place : -1;
}

long long fair_length(struct fixture *f)
{
    long long length = probe_int(f->probe, "LLEN " QUEUE);

    assert_int_equal(probe_int(f->probe, "ZCARD " DEADLINES), length);
    return length;
}

long long fair_deadline(struct fixture *f, const char *owner)
{
    return probe_int(f->probe, "ZSCORE " DEADLINES " %s", owner);
}

long long fair_now(struct fixture *f)
{
    return probe_int(f->probe, "EVAL %s 0",
                     "local t = redis.call('time') return t[1] * 1000 + math.floor(t[2] / 1000)");
}
