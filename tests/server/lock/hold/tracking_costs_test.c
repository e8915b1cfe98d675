/* Client tracking: what it costs, and a program without it. */
#include "support/kinds.h"
#include "support/probe_wait.h"
#include "support/tracked.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define CHANNEL "__redis__:invalidate"

#define N_SHORT 10
#define SHORT_MS 5 /* long enough for the I/O thread to send something */

/* Returns how long the longest hold lasted, in ms. */
static uint64_t hold_often(struct relock_lock *lock)
{
    uint64_t longest_ms = 0;

    for (int i = 0; i < N_SHORT; i++) {
        uint64_t began_ms = now_ms();

        assert_result(relock_lock(lock), RELOCK_OK);
        let_pass(SHORT_MS);
        assert_result(relock_unlock(lock), RELOCK_OK);
        if (now_ms() - began_ms > longest_ms)
            longest_ms = now_ms() - began_ms;
    }
    return longest_ms;
}

struct costs {
    long long scripts, tracked, turned_on, subscribers;
};

static struct costs costs_so_far(struct probe *probe)
{
    return (struct costs){
        .scripts = probe_script_calls(probe),
        .tracked = tracked_count(probe),
        .turned_on = probe_calls(probe, "client|tracking"),
        .subscribers = probe_subscribers(probe, CHANNEL),
    };
}

/* A hold of a slow machine may be no short one, and its check may come late: then again, with
 * tracking turned on. */
static void a_short_hold_costs_no_command(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");
    struct costs expected, costs;
    uint64_t longest_ms, until_ms = deadline_in(3 * SOON_MS);

    assert_true(wait_for_login(f->probe));
    do {
        let_pass(300); /* checks of earlier holds */
        expected = costs_so_far(f->probe);
        expected.scripts += 2LL * N_SHORT;
        longest_ms = hold_often(lock);
        let_pass(300);
        costs = costs_so_far(f->probe);
    } while ((longest_ms >= 90 || memcmp(&costs, &expected, sizeof(costs)) != 0) &&
             now_ms() < until_ms);
    assert_int_equal(costs.scripts, expected.scripts);
    assert_int_equal(costs.tracked, expected.tracked);
    assert_int_equal(costs.turned_on, expected.turned_on);
    assert_int_equal(costs.subscribers, expected.subscribers);
}

/* Commands that tell whether Redis has a hold, in scripts and besides. */
static long long reads_of_holds(struct fixture *f)
{
    return probe_calls(f->probe, kind_now()->is_string ? "getrange" : "hexists");
}

static void a_long_hold_costs_one_read_and_no_script(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");
    long long tracked = tracked_count(f->probe), scripts, reads;

    for (;;) {
        assert_result(relock_lock(lock), RELOCK_OK);
        scripts = probe_script_calls(f->probe);
        reads = reads_of_holds(f);
        if (tracked_count(f->probe) == tracked)
            break;
        assert_result(relock_unlock(lock), RELOCK_OK); /* it was checked already: once more */
        let_pass(300);
        tracked = tracked_count(f->probe);
    }
    assert_true(tracked_wait(f->probe, tracked + 1));
    let_pass(300);
    assert_int_equal(reads_of_holds(f), reads + 1);
    assert_int_equal(probe_script_calls(f->probe), scripts);
    assert_result(relock_unlock(lock), RELOCK_OK);
    let_pass(300);
    assert_int_equal(probe_script_calls(f->probe), scripts + 1);
    assert_int_equal(tracked_count(f->probe), tracked + 1);
}

/* The keys of its levels count, too, so no single command tells whether it is there. */
static void a_long_read_hold_costs_one_script_and_its_release_none(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");
    long long scripts = probe_script_calls(f->probe), tracked = tracked_count(f->probe);

    tracked_hold(f, lock, NULL);
    let_pass(300);
    assert_int_equal(probe_script_calls(f->probe), scripts + 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    let_pass(300);
    assert_int_equal(probe_script_calls(f->probe), scripts + 3);
    assert_int_equal(tracked_count(f->probe), tracked + 1);
}

/* Each of the two writes is reported, and costs one check at most. */
static void a_level_costs_one_check_at_most(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");
    long long before;

    tracked_hold(f, lock, NULL);
    before = tracked_count(f->probe);
    assert_result(relock_lock(lock), RELOCK_OK);
    let_pass(200);
    assert_in_range(tracked_count(f->probe) - before, 0, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    let_pass(200);
    assert_in_range(tracked_count(f->probe) - before, 0, 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Reports that come all the time are answered less and less often. */
static void a_lock_that_changes_all_the_time_is_checked_seldom(void **state)
{
    enum { N = 200 };
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");
    long long before;

    tracked_hold(f, lock, NULL);
    before = tracked_count(f->probe);
    for (int i = 0; i < N; i++) {
        probe_int(f->probe, "PEXPIRE orders %d", (int)NEVER_MS - i);
        let_pass(2);
    }
    print_message("%d changes: %d checks\n", N, (int)(tracked_count(f->probe) - before));
    assert_in_range(tracked_count(f->probe) - before, 1, N / 5);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* How often the I/O thread has slept; of the only client. */
static long io_sleeps(void)
{
    DIR *dir = opendir("/proc/self/task");
    char path[300], line[256];
    long n = 0;

    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        bool is_io = false;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (file && fgets(line, sizeof(line), file)) {
            is_io |= strcmp(line, "Name:\trelock:io\n") == 0;
            if (is_io)
                (void)sscanf(line, "voluntary_ctxt_switches: %ld", &n);
        }
        if (file)
            fclose(file);
    }
    closedir(dir);
    assert_true(n > 0);
    return n;
}

/* The pause lets the I/O thread take its turn when the hold is over. It sleeps about twenty times
 * in a second, and may also wait for the mutex. */
static void a_free_lock_seldom_wakes_the_io_thread(void **state)
{
    enum { N_PAIRS = 200, PAUSE_MS = 5 };
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");
    uint64_t began_ms, took_ms;
    long n;

    assert_true(wait_for_login(f->probe));
    let_pass(300);
    began_ms = now_ms();
    n = io_sleeps();
    for (int i = 0; i < N_PAIRS; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        let_pass(PAUSE_MS);
    }
    n = io_sleeps() - n;
    took_ms = now_ms() - began_ms;
    print_message("%d pairs in %d ms: %ld sleeps\n", N_PAIRS, (int)took_ms, n);
    assert_in_range(n, 0, 15 + took_ms / 30);
}

/* Not even to look for holds that last, after it had such a hold. */
static void a_client_without_holds_does_not_wake_up(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &(struct relock_options){.deadlock_ms = 40});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    char key[64];
    long n;

    (void)snprintf(key, sizeof(key), "relock_waits:{%s}:since", relock_client_id(client));
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(probe_wait_key(f->probe, key));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(probe_wait_no_key(f->probe, key, SOON_MS));
    let_pass(300);
    n = io_sleeps();
    let_pass(1000);
    assert_in_range(io_sleeps() - n, 0, 10);
}

static void a_program_can_do_without(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, RELOCK_NO_TRACKING), "orders");
    long long turned_on = probe_calls(f->probe, "client|tracking");

    assert_result(relock_lock(lock), RELOCK_OK);
    let_pass(400);
    assert_int_equal(probe_calls(f->probe, "client|tracking"), turned_on);
    assert_int_equal(probe_subscribers(f->probe, CHANNEL), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_short_hold_costs_no_command),
        KINDS_TEST(a_long_hold_costs_one_read_and_no_script),
        KINDS_TEST_OF(a_long_hold_costs_one_read_and_no_script, write),
        KINDS_TEST_OF(a_long_read_hold_costs_one_script_and_its_release_none, read),
        KINDS_TEST(a_level_costs_one_check_at_most),
        KINDS_TEST(a_lock_that_changes_all_the_time_is_checked_seldom),
        KINDS_TEST_OF(a_free_lock_seldom_wakes_the_io_thread, reentrant),
        SERVER_TEST(a_client_without_holds_does_not_wake_up),
        KINDS_TEST(a_program_can_do_without),
    };

    return cmocka_run_group_tests(tests, tracked_start, fixture_stop);
}
