/* The schedule, the names of the locks, and a history that is written to a file and read back. */
#include "history.h"
#include "names.h"
#include "schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define N_SLOTS 4
#define STORM_MS 8000
#define CALM_MS 5000
#define N_FAULTS 5000

static struct schedule with_seed(uint64_t seed)
{
    return (struct schedule){.seed = seed,
                             .n_slots = N_SLOTS,
                             .n_servers = 1,
                             .lease_ms = 1500,
                             .storm_ms = STORM_MS,
                             .calm_ms = CALM_MS};
}

static struct schedule at_hot_locks(void)
{
    struct schedule schedule = with_seed(7);

    schedule.is_hot = true;
    return schedule;
}

static struct schedule in_a_cluster(void)
{
    struct schedule schedule = with_seed(7);

    schedule.is_cluster = true;
    return schedule;
}

static struct schedule at_hot_locks_in_a_cluster(void)
{
    struct schedule schedule = at_hot_locks();

    schedule.is_cluster = true;
    return schedule;
}

static struct schedule of_several_servers(void)
{
    struct schedule schedule = with_seed(7);

    schedule.n_servers = SCHEDULE_MAX_SERVERS;
    return schedule;
}

static bool is_same(struct fault a, struct fault b)
{
    return a.kind == b.kind && a.slot == b.slot && a.at_ms == b.at_ms && a.for_ms == b.for_ms;
}

static void the_same_seed_gives_the_same_schedule(void **state)
{
    struct schedule one = with_seed(7), same = with_seed(7), other = with_seed(8);
    size_t n_others = 0;

    (void)state;
    for (int i = 0; i < N_FAULTS; i++) {
        struct fault fault = schedule_next(&one);

        assert_true(is_same(fault, schedule_next(&same)));
        n_others += !is_same(fault, schedule_next(&other));
    }
    assert_true(n_others > N_FAULTS / 2);
}

static void one_place_is_broken_in_one_way_at_a_time(void **state)
{
    struct schedule schedule = with_seed(7);
    uint64_t whole_ms[1 + N_SLOTS] = {0};

    (void)state;
    for (int i = 0; i < N_FAULTS; i++) {
        struct fault fault = schedule_next(&schedule);

        assert_in_range(1 + fault.slot, 0, N_SLOTS);
        assert_true(fault.at_ms >= whole_ms[1 + fault.slot]);
        whole_ms[1 + fault.slot] = fault.at_ms + fault.for_ms;
    }
}

static void of_several_servers_a_minority_is_broken_at_a_time(void **state)
{
    struct schedule schedule = of_several_servers();
    uint64_t whole_ms[SCHEDULE_MAX_SERVERS] = {0};
    size_t n_both = 0;

    (void)state;
    for (int i = 0; i < N_FAULTS; i++) {
        struct fault fault = schedule_next(&schedule);
        int n_broken = 0;

        if (fault.slot >= 0)
            continue;
        assert_in_range(SCHEDULE_SERVER - fault.slot, 0, SCHEDULE_MAX_SERVERS - 1);
        assert_true(fault.at_ms >= whole_ms[SCHEDULE_SERVER - fault.slot]);
        whole_ms[SCHEDULE_SERVER - fault.slot] = fault.at_ms + fault.for_ms;
        for (int j = 0; j < SCHEDULE_MAX_SERVERS; j++)
            n_broken += whole_ms[j] >= fault.at_ms;
        assert_true(n_broken <= SCHEDULE_MAX_SERVERS / 2);
        n_both += n_broken == SCHEDULE_MAX_SERVERS / 2;
    }
    assert_true(n_both > N_FAULTS / 10);
}

static void a_server_comes_back_empty_only_when_its_leases_are_over(void **state)
{
    struct schedule schedule = of_several_servers();

    (void)state;
    for (int i = 0; i < N_FAULTS; i++) {
        struct fault fault = schedule_next(&schedule);

        assert_true(fault.kind != FAULT_REBIRTH ||
                    fault.for_ms > SCHEDULE_RED_LEASES * schedule.lease_ms);
    }
}

static void a_calm_is_calm_with(struct schedule schedule)
{
    for (int i = 0; i < N_FAULTS; i++) {
        struct fault fault = schedule_next(&schedule);

        assert_true(fault.at_ms % (STORM_MS + CALM_MS) < STORM_MS);
        assert_true(fault.at_ms % (STORM_MS + CALM_MS) + fault.for_ms <= STORM_MS);
    }
}

static void a_calm_is_calm(void **state)
{
    (void)state;
    a_calm_is_calm_with(with_seed(7));
    a_calm_is_calm_with(of_several_servers());
    a_calm_is_calm_with(at_hot_locks());
    a_calm_is_calm_with(in_a_cluster());
    a_calm_is_calm_with(at_hot_locks_in_a_cluster());
}

/* Except those that need several servers, hot locks or a cluster. */
static void every_kind_of_fault_occurs(void **state)
{
    struct schedule one = with_seed(7), several = of_several_servers(), hot = at_hot_locks();
    size_t n[3][FAULT_N_KINDS] = {{0}};

    (void)state;
    for (int i = 0; i < N_FAULTS; i++) {
        n[0][schedule_next(&one).kind]++;
        n[1][schedule_next(&several).kind]++;
        n[2][schedule_next(&hot).kind]++;
    }
    for (int i = 0; i < FAULT_N_KINDS; i++) {
        bool needs_several = i == FAULT_DELAY || i == FAULT_REBIRTH;
        bool needs_heat = i == FAULT_DEAFEN || i == FAULT_DEAFEN_ALL;
        bool needs_cluster = i == FAULT_SEVER || i >= FAULT_UPHEAVAL;

        assert_true(n[0][i] > 0 || needs_several || needs_heat || needs_cluster);
        assert_true(n[1][i] > 0 || needs_heat || needs_cluster);
        assert_true(n[2][i] > 0 || !needs_heat);
    }
}

static void in_a_cluster_nodes_and_workers_are_broken(void **state)
{
    static const enum fault_kind kinds[] = {FAULT_KILL,       FAULT_STOP,         FAULT_CLIENT_KILL,
                                            FAULT_DEAFEN_ALL, FAULT_SCRIPT_FLUSH, FAULT_UPHEAVAL,
                                            FAULT_CUT,        FAULT_STALL,        FAULT_REFUSE};
    struct schedule schedule = in_a_cluster();
    size_t n[FAULT_N_KINDS] = {0}, sum = 0;

    (void)state;
    for (int i = 0; i < N_FAULTS; i++) {
        struct fault fault = schedule_next(&schedule);
        bool is_of_a_worker = fault.kind == FAULT_KILL || fault.kind == FAULT_STOP;

        assert_true(is_of_a_worker == (fault.slot != SCHEDULE_SERVER));
        n[fault.kind]++;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        assert_true(n[kinds[i]] > 0);
        sum += n[kinds[i]];
    }
    assert_int_equal(sum, N_FAULTS);
}

/* No network is broken there. */
static void at_hot_locks_most_faults_hit_single_workers(void **state)
{
    struct schedule schedule = at_hot_locks();
    size_t n[FAULT_N_KINDS] = {0};

    (void)state;
    for (int i = 0; i < N_FAULTS; i++)
        n[schedule_next(&schedule).kind]++;
    assert_true(n[FAULT_KILL] + n[FAULT_STOP] + n[FAULT_DEAFEN] > N_FAULTS * 9 / 10);
    for (int i = FAULT_CUT; i <= FAULT_DELAY; i++)
        assert_int_equal(n[i], 0);
}

static void at_hot_locks_in_a_cluster_slots_move_and_masters_fail(void **state)
{
    static const enum fault_kind of_workers[] = {FAULT_KILL, FAULT_STOP, FAULT_DEAFEN, FAULT_SEVER};
    static const enum fault_kind of_masters[] = {FAULT_MASTER_KILL, FAULT_MASTER_STOP,
                                                 FAULT_HAND_OVER, FAULT_DEAFEN_ALL,
                                                 FAULT_SCRIPT_FLUSH};
    struct schedule schedule = at_hot_locks_in_a_cluster();
    size_t n[FAULT_N_KINDS] = {0}, sum = 0, n_long = 0;

    (void)state;
    for (int i = 0; i < N_FAULTS; i++) {
        struct fault fault = schedule_next(&schedule);

        n[fault.kind]++;
        n_long += fault.kind == FAULT_MOVE && fault.for_ms > schedule.lease_ms / 2;
    }
    for (size_t i = 0; i < sizeof(of_workers) / sizeof(of_workers[0]); i++)
        sum += n[of_workers[i]];
    for (size_t i = 0; i < sizeof(of_masters) / sizeof(of_masters[0]); i++) {
        assert_true(n[of_masters[i]] > 0);
        sum += n[of_masters[i]];
    }
    assert_int_equal(sum + n[FAULT_MOVE], N_FAULTS);
    assert_true(n[FAULT_MOVE] > N_FAULTS / 20);
    assert_true(n_long > n[FAULT_MOVE] / 10);
}

static void at_hot_locks_some_faults_of_workers_hit_the_first_in_line(void **state)
{
    struct schedule schedule = at_hot_locks_in_a_cluster(), other = in_a_cluster();
    size_t n_aimed = 0;

    (void)state;
    for (int i = 0; i < N_FAULTS; i++) {
        struct fault fault = schedule_next(&schedule);

        assert_true(!fault.aims || fault.slot >= 0);
        n_aimed += fault.aims;
        assert_false(schedule_next(&other).aims);
    }
    assert_in_range(n_aimed, N_FAULTS / 3, N_FAULTS / 2);
}

static void each_kind_has_a_busy_and_a_quiet_name_drawn_from_the_seed(void **state)
{
    size_t n_others = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        int n[2][HISTORY_N_SORTS] = {{0}};
        struct names names, same;

        names_draw(&names, NAMES_MIXED, seed);
        names_draw(&same, NAMES_MIXED, seed);
        for (int i = 0; i < NAMES_N; i++)
            n[names_is_quiet(&names, i)][names.sorts[i]]++;
        for (int i = HISTORY_REENTRANT; i <= HISTORY_WRITE; i++)
            assert_true(n[0][i] == 1 && n[1][i] == 1);
        assert_true(n[0][HISTORY_SEMAPHORE] == 1 && n[1][HISTORY_SEMAPHORE] == 1);
        assert_memory_equal(names.sorts, same.sorts, sizeof(names.sorts));
        names_draw(&same, NAMES_MIXED, seed + 1);
        n_others += memcmp(names.sorts, same.sorts, sizeof(names.sorts)) != 0;
    }
    assert_true(n_others > 90);
}

static void one_of_two_hot_locks_is_reentrant_and_the_other_publishes_too(void **state)
{
    size_t n[HISTORY_N_SORTS] = {0}, n_first = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct names names;

        names_draw(&names, NAMES_HOT, seed);
        assert_int_equal(names.n, 2);
        n_first += names.sorts[0] == HISTORY_REENTRANT;
        n[names.sorts[0]]++;
        n[names.sorts[1]]++;
    }
    assert_int_equal(n[HISTORY_REENTRANT], 300);
    assert_in_range(n_first, 100, 200);
    assert_true(n[HISTORY_FENCED] > 70);
    assert_true(n[HISTORY_WRITE] > 70);
    assert_true(n[HISTORY_SEMAPHORE] > 70);
    assert_int_equal(n[HISTORY_FENCED] + n[HISTORY_WRITE] + n[HISTORY_SEMAPHORE], 300);
}

static void every_lock_is_wanted_of(enum names_set set)
{
    size_t n[NAMES_N] = {0};
    struct names names;
    uint64_t seed = 7;

    names_draw(&names, set, 7);
    for (int i = 0; i < 10000; i++)
        n[names_come(&names, i % NAMES_N_HOT, &seed)]++;
    for (int i = 0; i < names.n; i++)
        assert_true(n[i] > 0);
}

static void every_lock_is_wanted(void **state)
{
    (void)state;
    every_lock_is_wanted_of(NAMES_MIXED);
    every_lock_is_wanted_of(NAMES_RED);
    every_lock_is_wanted_of(NAMES_HOT);
}

/* ---- histories ----------------------------------------------------------------------------- */

static const struct history_record record = {
    .kind = HISTORY_LEFT,
    .sort = HISTORY_WRITE,
    .slot = -1,
    .life = 3,
    .thread = 2,
    .lock = 1,
    .hold = 4000000000,
    .from_ns = 1000000001,
    .to_ns = 98765000000000,
    .result = -4,
    .value = INT64_MAX,
    .token = UINT64_MAX,
    .permits = UINT32_MAX,
};

static void every_complete_line_of_a_history_is_read(void **state)
{
    char dir[] = "/tmp/relock-history-XXXXXX", path[64];
    struct history_records records = {0};
    struct history history;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/history.0.1", dir);
    history_open(&history, path);
    history_write(&history, &record);
    history_write(&history, &record);
    assert_int_equal(write(history.fd, "17.5 18.0 claim proc", 20), 20);
    history_close(&history);

    history_read(&records, dir);
    unlink(path);
    rmdir(dir);
    assert_int_equal(records.n, 2);
    for (size_t i = 0; i < records.n; i++) {
        const struct history_record *r = &records.at[i];

        assert_int_equal(r->kind, record.kind);
        assert_int_equal(r->sort, record.sort);
        assert_int_equal(r->slot, record.slot);
        assert_int_equal(r->life, record.life);
        assert_int_equal(r->thread, record.thread);
        assert_int_equal(r->lock, record.lock);
        assert_int_equal(r->hold, record.hold);
        assert_int_equal(r->from_ns, record.from_ns);
        assert_int_equal(r->to_ns, record.to_ns);
        assert_int_equal(r->result, record.result);
        assert_int_equal(r->value, record.value);
        assert_true(r->token == record.token);
        assert_int_equal(r->permits, record.permits);
    }
    history_free(&records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_schedule),
        cmocka_unit_test(one_place_is_broken_in_one_way_at_a_time),
        cmocka_unit_test(of_several_servers_a_minority_is_broken_at_a_time),
        cmocka_unit_test(a_server_comes_back_empty_only_when_its_leases_are_over),
        cmocka_unit_test(a_calm_is_calm),
        cmocka_unit_test(every_kind_of_fault_occurs),
        cmocka_unit_test(in_a_cluster_nodes_and_workers_are_broken),
        cmocka_unit_test(at_hot_locks_most_faults_hit_single_workers),
        cmocka_unit_test(at_hot_locks_in_a_cluster_slots_move_and_masters_fail),
        cmocka_unit_test(at_hot_locks_some_faults_of_workers_hit_the_first_in_line),
        cmocka_unit_test(each_kind_has_a_busy_and_a_quiet_name_drawn_from_the_seed),
        cmocka_unit_test(one_of_two_hot_locks_is_reentrant_and_the_other_publishes_too),
        cmocka_unit_test(every_lock_is_wanted),
        cmocka_unit_test(every_complete_line_of_a_history_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
