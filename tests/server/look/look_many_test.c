/* relock_locks() with many locks: how many scripts it takes, and that each lock is found. */
#include "support/kinds.h"
#include "support/peer.h"

#include <stdio.h>
#include <string.h>

#define N_OF_A_KIND 100
#define N_LOCKS (N_OF_A_KIND * (unsigned)KINDS_ALL_N)
#define AT_ONCE 64
#define HOUR_MS 3600000

struct many {
    struct relock_client *client;
    struct relock_lock *locks[N_LOCKS];
};

static void lock_all(struct many *many)
{
    const struct relock_how how = {.permits = 1};
    char name[32];

    for (unsigned i = 0; i < N_LOCKS; i++) {
        unsigned kind = i % (unsigned)KINDS_ALL_N;

        (void)snprintf(name, sizeof(name), "orders:%u", i);
        assert_result(kinds[kind].constructor(many->client, name, &many->locks[i]), RELOCK_OK);
        if (kind == KIND_SEMAPHORE)
            assert_result(relock_semaphore_set(many->locks[i], 2), RELOCK_OK);
        assert_result(relock_acquire(many->locks[i], kind == KIND_SEMAPHORE ? &how : NULL, NULL),
                      RELOCK_OK);
    }
}

static void free_all(struct fixture *f, struct many *many)
{
    for (unsigned i = 0; i < N_LOCKS; i++) {
        assert_result(relock_unlock(many->locks[i]), RELOCK_OK);
        relock_lock_free(many->locks[i]);
    }
    probe_text(f->probe, "FLUSHALL");
}

struct seen {
    unsigned n[N_LOCKS]; /* how often */
    unsigned n_aged;
};

static bool note_lock(const struct relock_lock_info *info, void *arg)
{
    struct seen *seen = arg;
    unsigned i = N_LOCKS;

    if (sscanf(info->name, "orders:%u", &i) == 1 && i < N_LOCKS && info->holder.n_holders == 1 &&
        strcmp(info->client_name, "mill") == 0)
        seen->n[i]++;
    seen->n_aged += info->held_ms >= 0;
    return true;
}

static unsigned n_seen(const struct seen *seen)
{
    unsigned n = 0;

    for (unsigned i = 0; i < N_LOCKS; i++)
        n += seen->n[i] > 0;
    return n;
}

struct aged {
    struct relock_client *watcher;
    struct seen seen;
};

static bool all_have_ages(void *arg)
{
    struct aged *aged = arg;

    aged->seen = (struct seen){0};
    return relock_locks(aged->watcher, "*", note_lock, &aged->seen) == RELOCK_OK &&
           aged->seen.n_aged >= N_LOCKS;
}

/* One script looks at 64 locks, and one reads the ages of 64. Each page of SCAN, of each type of
 * key, begins with a script of its own. */
static void a_list_takes_a_script_for_64_locks_of_any_kind(void **state)
{
    struct fixture *f = *state;
    static struct many many;
    struct aged aged;
    long long n_scripts;

    many.client = fixture_client(f, &(struct relock_options){.client_name = "mill",
                                                             .watchdog_timeout_ms = HOUR_MS,
                                                             .deadlock_ms = 100});
    lock_all(&many);
    aged.watcher = fixture_client(f, NULL);
    assert_true(wait_until(all_have_ages, &aged, SOON_MS));
    n_scripts = probe_calls(f->probe, "evalsha");
    assert_true(all_have_ages(&aged));
    n_scripts = probe_calls(f->probe, "evalsha") - n_scripts;
    assert_int_equal(n_seen(&aged.seen), N_LOCKS);
    print_message("%u locks: %lld scripts\n", N_LOCKS, n_scripts);
    assert_in_range(n_scripts, 2 * N_LOCKS / AT_ONCE, 2 * N_LOCKS / AT_ONCE + 20);
    free_all(f, &many);
}

static bool count_lock(const struct relock_lock_info *info, void *arg)
{
    unsigned *n = arg;

    *n += info->n_out > 0 || info->holder.n_holders > 0;
    return true;
}

static void a_key_without_a_right_hides_no_other_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    unsigned n = 0;
    char name[32];

    for (int i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof(name), "%s:%d", i % 2 ? "orders" : "secret", i);
        assert_true(peer_lock(f->probe, name, "a7c3b6f0-0000-4000-8000-000000000001:1", HOUR_MS));
    }
    probe_text(f->probe, "ACL SETUSER reader on >secret ~orders:* &* +@all");
    client = fixture_client(f, &(struct relock_options){.user = "reader", .password = "secret"});
    assert_result(relock_locks(client, "*", count_lock, &n), RELOCK_OK);
    assert_int_equal(n, 5);
    fixture_free_client(f, client);
    probe_text(f->probe, "ACL DELUSER reader");
    probe_text(f->probe, "FLUSHALL");
}

#define OTHER_ID "a7c3b6f0-0000-4000-8000-000000000002"

static bool count_aged(const struct relock_lock_info *info, void *arg)
{
    unsigned *n = arg;

    *n += info->held_ms >= 0;
    return true;
}

/* Anybody who may write to the server may have written it. */
static void an_age_that_is_no_number_hides_no_other_age(void **state)
{
    struct fixture *f = *state;
    unsigned n = 0;

    assert_true(peer_lock(f->probe, "orders:1", OTHER_ID ":1", HOUR_MS));
    assert_true(peer_lock(f->probe, "orders:2", OTHER_ID ":2", HOUR_MS));
    probe_int(f->probe, "HSET relock_waits:{" OTHER_ID "}:since client x 1 1000 2 yesterday");
    assert_result(relock_locks(fixture_client(f, NULL), "*", count_aged, &n), RELOCK_OK);
    assert_int_equal(n, 1);
    probe_text(f->probe, "FLUSHALL");
}

/* A script goes no further than 1000 parts of locks. The others come with the next one. */
static void locks_behind_large_ones_are_found(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    long long n_scripts;
    unsigned n = 0;

    probe_text(f->probe, "EVAL %s 0",
               "for i = 1, 50 do redis.call('set', 'jobs:' .. i, 0) "
               "for k = 1, 300 do "
               "redis.call('zadd', '{jobs:' .. i .. '}:timeout', 9000000000000, i .. ':' .. k) "
               "end end");
    n_scripts = probe_calls(f->probe, "evalsha");
    assert_result(relock_locks(client, "jobs:*", count_lock, &n), RELOCK_OK);
    n_scripts = probe_calls(f->probe, "evalsha") - n_scripts;
    assert_int_equal(n, 50);
    /* Each is found by its number and by its permits, which are 600 parts: two take one script. */
    assert_in_range(n_scripts, 50, 54);
    probe_text(f->probe, "FLUSHALL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_list_takes_a_script_for_64_locks_of_any_kind),
        SERVER_TEST(a_key_without_a_right_hides_no_other_lock),
        SERVER_TEST(an_age_that_is_no_number_hides_no_other_age),
        SERVER_TEST(locks_behind_large_ones_are_found),
    };

    return SERVER_TESTS_RUN(tests);
}
