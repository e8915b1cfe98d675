#include "rw_scripts.h"

#include "support/scripts.h"

#include "redis/server/script.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART_MS 15000

struct probe *rw_probe(void **state)
{
    return ((struct fixture *)*state)->probe;
}

static long long run(struct probe *probe, const struct relock_script *script,
                     const struct script_args *args)
{
    const char *text = script_text(probe, script->body, "orders", args);

    if (*text == '\0')
        return GRANTED;
    if (*text == '-' && !isdigit((unsigned char)text[1])) {
        print_message("%s: %s\n", script->name, text);
        return PROBE_REFUSED;
    }
    return strtoll(text, NULL, 10);
}

long long rw_read_lock(struct probe *probe, const char *field, unsigned count, uint64_t lease_ms)
{
    return rw_read_lock_under(probe, "", field, count, lease_ms);
}

long long rw_read_lock_under(struct probe *probe, const char *write_field, const char *field,
                             unsigned count, uint64_t lease_ms)
{
    return run(
        probe, &relock_script_read_lock,
        SCRIPT_ARGS(script_decimal(lease_ms).text, field, script_decimal(count).text, write_field));
}

long long rw_read_unlock(struct probe *probe, const char *field, unsigned count)
{
    return run(probe, &relock_script_read_unlock,
               SCRIPT_ARGS(field, script_decimal(count).text, CHANNEL, "0"));
}

long long rw_read_renew(struct probe *probe, const char *field, uint64_t lease_ms)
{
    return run(probe, &relock_script_read_renew, SCRIPT_ARGS(script_decimal(lease_ms).text, field));
}

long long rw_read_extend(struct probe *probe, const char *field, unsigned count, uint64_t lease_ms)
{
    return run(probe, &relock_script_read_extend,
               SCRIPT_ARGS(script_decimal(lease_ms).text, field, script_decimal(count).text));
}

long long rw_write_lock(struct probe *probe, const char *field, unsigned count, uint64_t lease_ms)
{
    return run(probe, &relock_script_write_lock,
               SCRIPT_ARGS(script_decimal(lease_ms).text, field, script_decimal(count).text));
}

long long rw_write_unlock(struct probe *probe, const char *field, unsigned count)
{
    return run(probe, &relock_script_write_unlock,
               SCRIPT_ARGS(field, script_decimal(count).text, CHANNEL, "1"));
}

long long rw_force_unlock(struct probe *probe, const char *holder, const char *side)
{
    return run(probe, &relock_script_rw_force_unlock,
               SCRIPT_ARGS(holder, CHANNEL, strcmp(side, "read") == 0 ? "0" : "1", side));
}

struct rw_side rw_inspect(struct probe *probe, const char *field, const char *side)
{
    const char *text =
        probe_list(probe, "EVAL %s 1 orders %s %s", relock_script_rw_inspect.body, field, side);
    size_t len = strcspn(text, " ");
    struct rw_side found = {.holder = ""};

    assert_true(len < sizeof(found.holder));
    memcpy(found.holder, text, len);
    assert_int_equal(sscanf(text + len, "%lld %lld %lld %lld %lld", &found.hold_count,
                            &found.n_holders, &found.rest_ms, &found.own_count, &found.other_side),
                     5);
    return found;
}

void rw_add_foreign_reader(struct probe *probe, const char *field, unsigned count,
                           uint64_t lease_ms)
{
    probe_int(probe, "HSET orders mode read %s %u", field, count);
    for (unsigned level = 1; level <= count; level++)
        assert_int_equal(probe_int(probe, "SET {orders}:%s:rwlock_timeout:%u 1 PX %llu", field,
                                   level, (unsigned long long)lease_ms),
                         0);
    if (probe_pttl(probe, "orders") < (long long)lease_ms)
        rw_set_rest(probe, "orders", lease_ms);
}

void rw_add_foreign_writer(struct probe *probe, const char *field, unsigned count,
                           uint64_t lease_ms)
{
    assert_int_equal(probe_int(probe, "HSET orders mode write %s %u", field, count), 2);
    rw_set_rest(probe, "orders", lease_ms);
}

void rw_let_die(struct probe *probe, const char *field)
{
    long long count = probe_int(probe, "HGET orders %s", field);

    for (long long level = 1; level <= count; level++)
        probe_int(probe, "DEL {orders}:%s:rwlock_timeout:%lld", field, level);
}

const char *rw_hash(struct probe *probe)
{
    return probe_list(probe, "HGETALL orders");
}

void rw_set_rest(struct probe *probe, const char *key, uint64_t rest_ms)
{
    assert_int_equal(probe_int(probe, "PEXPIRE %s %llu", key, (unsigned long long)rest_ms), 1);
}

void rw_check_rest(struct probe *probe, const char *key, long long rest_ms, const char *file,
                   int line)
{
    long long left = probe_pttl(probe, key);

    if (left > rest_ms - APART_MS && left <= rest_ms)
        return;
    print_error("%s: %lld ms left, not %lld\n", key, left, rest_ms);
    _fail(file, line);
}
