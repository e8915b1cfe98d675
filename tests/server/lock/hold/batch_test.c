/* Many holds are renewed and checked by one script. */
#include "support/kinds.h"
#include "support/tracked.h"

#include <stdio.h>
#include <string.h>

#define N_LOCKS 40
#define LEASE_MS 6000
#define LONG_LEASE_MS 20000
#define FAST_MS 500 /* within which locks are acquired that are soon renewed together */

static struct relock_lock *locks[N_LOCKS];

static void make_locks(struct fixture *f, struct relock_client *client)
{
    char name[32];

    for (size_t i = 0; i < N_LOCKS; i++) {
        snprintf(name, sizeof(name), "orders%zu", i);
        locks[i] = kind_lock(f, client, name);
    }
}

static void release_all(void)
{
    for (size_t i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
}

/* In a short time, also on a machine that stands still now and then. */
static void acquire_all(void)
{
    uint64_t until_ms = deadline_in(3 * SOON_MS);
    uint64_t began_ms;

    for (;;) {
        began_ms = now_ms();
        for (size_t i = 0; i < N_LOCKS; i++)
            assert_result(relock_lock(locks[i]), RELOCK_OK);
        if (now_ms() - began_ms < FAST_MS || now_ms() > until_ms)
            return;
        release_all();
    }
}

static void many_holds_are_renewed_by_few_scripts(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS),
                                                   .flags = RELOCK_NO_TRACKING});
    long long scripts;
    uint64_t renewed;

    make_locks(f, client);
    acquire_all();
    renewed = stats_of(client).renewed;
    scripts = probe_script_calls(f->probe);
    assert_true(wait_for_renewals(client, renewed, N_LOCKS));
    renewed = stats_of(client).renewed - renewed;
    scripts = probe_script_calls(f->probe) - scripts;
    print_message("%d renewals, %d scripts\n", (int)renewed, (int)scripts);
    assert_true(4 * (uint64_t)scripts <= renewed);
    release_all();
    assert_int_equal(losses_count(f->losses), 0);
}

/* Only a report tells of the loss so soon. */
static void locks_that_are_renewed_together_stay_tracked(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LONG_LEASE_MS)});
    uint64_t renewed;

    make_locks(f, client);
    acquire_all();
    assert_true(wait_for_renewals(client, 0, N_LOCKS));
    let_pass(300); /* all are answered */
    renewed = stats_of(client).renewed;
    assert_int_equal(probe_int(f->probe, "DEL orders7"), 1);
    assert_true(losses_wait(f->losses, 1, slow_ms(SOON_MS)));
    assert_string_equal(losses_get(f->losses, 0).name, "orders7");
    assert_int_equal(stats_of(client).renewed, renewed);
    for (size_t i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(locks[i]), i == 7 ? RELOCK_LOST : RELOCK_OK);
}

/* All locks change at the same time, so Redis reports all of them at once. */
static void many_holds_are_checked_by_few_scripts(void **state)
{
    static const char change_all[] =
        "for i = 0, ARGV[1] - 1 do redis.call('pexpire', 'orders' .. i, 500000) end return 1";
    struct fixture *f = *state;
    struct relock_client *client = tracked_client(f, 0);
    long long checks, reads;

    if (!tracked_is_counted(f->probe))
        skip();
    make_locks(f, client);
    acquire_all();
    assert_true(tracked_wait(f->probe, 1));
    let_pass(1000); /* all are tracked */
    checks = tracked_count(f->probe);
    reads = probe_calls(f->probe, kind_now()->is_string ? "get" : "hexists");
    assert_int_equal(probe_int(f->probe, "EVAL %s 0 %d", change_all, N_LOCKS), 1);
    while (probe_calls(f->probe, kind_now()->is_string ? "get" : "hexists") - reads < N_LOCKS)
        let_pass(10);
    checks = tracked_count(f->probe) - checks;
    print_message("%d checks\n", (int)checks);
    assert_in_range(checks, 1, N_LOCKS / 2);
    release_all();
    assert_int_equal(losses_count(f->losses), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(many_holds_are_renewed_by_few_scripts),
        KINDS_TEST_OF(many_holds_are_renewed_by_few_scripts, read),
        KINDS_TEST_OF(many_holds_are_renewed_by_few_scripts, write),
        SERVER_TEST(locks_that_are_renewed_together_stay_tracked),
        SERVER_TEST(many_holds_are_checked_by_few_scripts),
        KINDS_TEST_OF(many_holds_are_checked_by_few_scripts, plain),
    };

    return SERVER_TESTS_RUN(tests);
}
