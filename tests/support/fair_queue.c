#include "support/fair_queue.h"

#include <stdio.h>
#include <string.h>

struct relock_lock *fair_handle(struct fixture *f, struct relock_client *client)
{
    return fixture_lock_of(f, client, "orders", relock_fairlock_new);
}

struct expected {
    struct fixture *f;
    long long n;
};

static bool has_length(void *arg)
{
    struct expected *expected = arg;

    return probe_int(expected->f->probe, "LLEN " FAIR_QUEUE) == expected->n &&
           probe_int(expected->f->probe, "ZCARD " FAIR_DEADLINES) == expected->n;
}

bool fair_queue_wait(struct fixture *f, long long n)
{
    return wait_until(has_length, &(struct expected){f, n}, SOON_MS);
}

void fair_queue_begin(struct fixture *f, struct actor *waiting, struct relock_lock *lock,
                      long long n)
{
    actor_begin_lock(waiting, lock);
    assert_true(fair_queue_wait(f, n));
}

void fair_queue_line_up(struct fixture *f, struct actor **waiting, int n, struct relock_lock *lock)
{
    long long n_before = probe_int(f->probe, "LLEN " FAIR_QUEUE);

    for (int i = 0; i < n; i++) {
        waiting[i] = actor_start();
        fair_queue_begin(f, waiting[i], lock, n_before + i + 1);
    }
}

void fair_queue_field(struct fixture *f, int i, char field[FAIR_FIELD_MAX])
{
    snprintf(field, FAIR_FIELD_MAX, "%s", probe_text(f->probe, "LINDEX " FAIR_QUEUE " %d", i));
}

static bool listens(void *arg)
{
    struct expected *expected = arg;
    char field[FAIR_FIELD_MAX];

    fair_queue_field(expected->f, (int)expected->n, field);
    return strchr(probe_text(expected->f->probe, "ZSCORE " FAIR_DEADLINES " %s", field), '.');
}

bool fair_queue_wait_listens(struct fixture *f, int i)
{
    return wait_until(listens, &(struct expected){f, i}, SOON_MS);
}

static const char now_script[] =
    "local t = redis.call('time') return t[1] * 1000 + math.floor(t[2] / 1000)";

/* In one script: between two commands the waiter might retry. */
static const char rest_script[] =
    "local t = redis.call('time') "
    "return redis.call('zscore', KEYS[1], ARGV[1]) - t[1] * 1000 - math.floor(t[2] / 1000)";

long long fair_queue_rest_ms(struct fixture *f, int i)
{
    char field[FAIR_FIELD_MAX];

    fair_queue_field(f, i, field);
    return probe_int(f->probe, "EVAL %s 1 " FAIR_DEADLINES " %s", rest_script, field);
}

void fair_queue_add_dead(struct fixture *f, const char *field, long long patience_ms)
{
    long long now = probe_int(f->probe, "EVAL %s 0", now_script);

    assert_true(probe_int(f->probe, "RPUSH " FAIR_QUEUE " %s", field) > 0);
    assert_true(probe_int(f->probe, "ZADD " FAIR_DEADLINES " %lld %s", now + patience_ms, field) >=
                0);
}

void fair_queue_remove(struct fixture *f, const char *field)
{
    assert_int_equal(probe_int(f->probe, "LREM " FAIR_QUEUE " 0 %s", field), 1);
    assert_int_equal(probe_int(f->probe, "ZREM " FAIR_DEADLINES " %s", field), 1);
}

struct crowd {
    struct actor **waiting;
    int n, in; /* which of them got in */
};

static bool one_is_in(void *arg)
{
    struct crowd *crowd = arg;

    for (int i = 0; i < crowd->n; i++)
        if (crowd->waiting[i] && !actor_is_busy(crowd->waiting[i]))
            crowd->in = i;
    return crowd->in >= 0;
}

void fair_all_take_turns(struct relock_lock *lock, struct actor **waiting, int n)
{
    for (int turn = 0; turn < n; turn++) {
        struct crowd crowd = {waiting, n, -1};

        assert_true(wait_until(one_is_in, &crowd, SOON_MS));
        assert_result(actor_result(waiting[crowd.in]), RELOCK_OK);
        assert_result(actor_unlock(waiting[crowd.in], lock), RELOCK_OK);
        waiting[crowd.in] = NULL;
    }
}
