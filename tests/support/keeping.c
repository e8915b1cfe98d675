#include "support/keeping.h"

#define HOUR_MS 3600000

void keeping_await(struct relock_client *client)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    struct relock_lock *lock = NULL;

    assert_result(relock_lock_new(client, "keeping:warm-up", &lock), RELOCK_OK);
    do {
        int r = relock_lock(lock);

        if (r == RELOCK_OK)
            r = relock_unlock(lock);
        if (r != RELOCK_E_CONN)
            assert_result(r, RELOCK_OK);
    } while (stats_of(client).kept == 0 && now_ms() < deadline_ms);
    assert_true(late_unless(stats_of(client).kept == 1));
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, 0);
    relock_lock_free(lock);
}

struct relock_client *keeping_client(struct fixture *f, const struct relock_options *options)
{
    struct relock_options with = options ? *options : (struct relock_options){0};
    struct relock_client *client;

    if (with.keep_ms == 0)
        with.keep_ms = HOUR_MS;
    client = fixture_client(f, &with);
    keeping_await(client);
    return client;
}

void keeping_fill(struct relock_client *client, struct relock_lock *lock)
{
    uint64_t before = stats_of(client).kept;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, before + 1);
}

struct wanted {
    struct relock_client *client;
    uint64_t n;
};

static bool are_kept(void *arg)
{
    const struct wanted *wanted = arg;

    return stats_of(wanted->client).kept == wanted->n;
}

bool keeping_wait(struct relock_client *client, uint64_t n)
{
    return wait_until(are_kept, &(struct wanted){client, n}, SOON_MS);
}
