/* An earlier and this version of the library on the same locks, in each deployment: while a fleet
 * is upgraded, and goes back. */
#include "fleet.h"

#include "support/line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A lock is free for no longer while somebody waits for it. Waiters do not ask by themselves
 * within minutes, so one that was not woken is later than that by far. */
#define FREE_MS SOON_MS

/* Far below FREE_MS. */
#define RECHECK_MS 1000

/* Of its fair share, each version gets at least so much: in one line, and in a cluster, where the
 * earlier version has none. There, its readers enter behind other readers at once, and all its
 * waiters hear a release of theirs, but of the others only the first: these had 22 to 75 %. */
#define LEAST_PERCENT 25
#define LEAST_OUTSIDE_PERCENT 5

#define CLOCK_MS 10 /* between the release in Redis and here */

#define MIXED_MS 1500 /* twice: during these the shares are counted */
#define SETTLE_MS 50  /* after each process that was replaced */

static uint64_t ms_between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (to_ns - from_ns) / 1000000 : 0;
}

static void start_all(struct fleet *fleet, enum fleet_version even, enum fleet_version odd)
{
    for (int i = 0; i < FLEET_N; i++)
        fleet_start(fleet, i, i % 2 == 0 ? even : odd);
}

static void end_all(struct fleet *fleet)
{
    for (int i = 0; i < FLEET_N; i++)
        fleet_end(fleet, i);
}

/* ---- the history --------------------------------------------------------------------------- */

/* The longest time without a holder. The holds are sorted, and somebody waited until then. */
static uint64_t longest_free_ms(const struct helds *helds, const char *lock, uint64_t until_ns)
{
    uint64_t free_ns = UINT64_MAX, longest_ms = 0;

    for (size_t i = 0; i < helds->n; i++) {
        const struct held *held = &helds->at[i];

        if (strcmp(held->lock, lock) != 0)
            continue;
        if (free_ns < until_ns && ms_between(free_ns, held->from_ns) > longest_ms)
            longest_ms = ms_between(free_ns, held->from_ns);
        if (free_ns == UINT64_MAX || held->to_ns > free_ns)
            free_ns = held->to_ns;
    }
    return longest_ms;
}

static void check_history(struct helds *helds, const char *lock, uint64_t until_ns)
{
    assert_int_equal(held_check(helds, NULL, 0, stderr).impossible, 0);
    assert_no_later(longest_free_ms(helds, lock, until_ns), slow_ms(FREE_MS));
}

/* ---- turns --------------------------------------------------------------------------------- */

/* A writer keeps readers out. */
static const struct fleet_kind *side_of_holder(const struct fleet_kind *kind)
{
    return strcmp(kind->name, "read") == 0 ? kind - 1 : kind;
}

/* How long the lock had been free when this hold began. */
static uint64_t free_before_ms(const struct helds *helds, const struct held *held)
{
    uint64_t to_ns = 0;

    for (size_t i = 0; i < helds->n; i++)
        if (helds->at[i].to_ns <= held->from_ns && helds->at[i].to_ns > to_ns)
            to_ns = helds->at[i].to_ns;
    return ms_between(to_ns, held->from_ns);
}

/* On a busy machine, a waiter in line may let its reservation pass. */
static void check_order(const struct helds *helds, const struct fleet_kind *kind)
{
    for (size_t i = 1; i < helds->n; i++) {
        const struct held *before = &helds->at[i - 1], *held = &helds->at[i];

        if (held->from_ns < before->to_ns &&
            (kind->has_queue || free_before_ms(helds, held) + CLOCK_MS < LINE_RESERVED_MS))
            fail_msg("%s: %s was overtaken by %s", kind->name, before->who, held->who);
    }
}

/* All others wait for the lock of the holder, get it once and do not come back. So no later release
 * makes up for a waiter that was not woken. Of the waiters, `killed` dies; -1: none. */
static void take_turns(struct fleet *fleet, const struct fleet_kind *kind, int holder, int killed)
{
    struct held first = {.who = "holder", .kind = "", .from_ns = held_now_ns()};
    unsigned orders[FLEET_N];
    struct helds helds = {0};
    int n = 0;

    fleet_do(fleet, holder, "lock", side_of_holder(kind));
    for (int i = 0; i < FLEET_N; i++)
        if (i != holder)
            orders[i] = fleet_begin_pass(fleet, i, kind, n++);
    if (killed >= 0)
        fleet_kill(fleet, killed, kind);
    snprintf(first.lock, sizeof(first.lock), "%s", kind->lock);
    first.to_ns = held_now_ns();
    held_add(&helds, &first);
    fleet_do(fleet, holder, "unlock", side_of_holder(kind));
    for (int i = 0; i < FLEET_N; i++) {
        if (i != holder && i != killed) {
            struct held held = fleet_passed(fleet, i, kind, orders[i]);

            held_add(&helds, &held);
        }
    }
    if (fleet_has_order(fleet, kind))
        check_order(&helds, kind);
    check_history(&helds, kind->lock, UINT64_MAX);
    held_free(&helds);
}

static void waiters_of_both_versions_are_all_woken(void **state)
{
    struct fleet *fleet = *state;

    start_all(fleet, FLEET_OLD, FLEET_NEW);
    for (int kind = 0; kind < fleet_n_kinds(); kind++)
        for (int holder = 0; holder < FLEET_VERSIONS; holder++)
            take_turns(fleet, &fleet_kinds[kind], holder, -1);
    end_all(fleet);
}

/* The first of those that wait. In a cluster, the earlier version does not know the line: it wakes
 * only the first in it. If that one was killed, the others find the lock free by their own retries.
 */
static void a_waiter_that_is_killed_delays_none_of_the_other_version(void **state)
{
    struct fleet *fleet = *state;

    if (fleet->c)
        fleet->recheck_ms = RECHECK_MS;
    start_all(fleet, FLEET_OLD, FLEET_NEW);
    for (int kind = 0; kind < fleet_n_kinds(); kind++) {
        for (int holder = 0; holder < FLEET_VERSIONS; holder++) {
            int killed = holder == 0 ? 1 : 0;

            take_turns(fleet, &fleet_kinds[kind], holder, killed);
            fleet_forget_queue(fleet, &fleet_kinds[kind]);
            fleet_start(fleet, killed, (enum fleet_version)killed);
        }
    }
    end_all(fleet);
}

/* ---- deadlocks ----------------------------------------------------------------------------- */

struct pair {
    struct player **players;
    const unsigned *orders;
};

static bool is_one_answered(void *arg)
{
    const struct pair *pair = arg;

    return !player_is_busy(pair->players[0], pair->orders[0]) ||
           !player_is_busy(pair->players[1], pair->orders[1]);
}

/* Each has a lock that the other wants. */
static void a_deadlock_of_both_versions_is_broken(void **state)
{
    const struct fleet_kind *kind = &fleet_kinds[0];
    struct fleet *fleet = *state;
    struct player *players[FLEET_VERSIONS];
    unsigned orders[FLEET_VERSIONS];
    int refused, other;

    for (int i = 0; i < FLEET_VERSIONS; i++) {
        fleet_start(fleet, i, (enum fleet_version)i);
        players[i] = fleet->members[i].player;
        assert_string_equal(player_do(players[i], "ann", "lock %s %d", kind->name, i), "0");
    }
    for (int i = 0; i < FLEET_VERSIONS; i++)
        orders[i] = player_begin(players[i], "ann", "lock %s %d", kind->name, 1 - i);
    assert_true(wait_until(is_one_answered, &(struct pair){players, orders}, SOON_MS));
    refused = player_is_busy(players[0], orders[0]) ? 1 : 0;
    other = 1 - refused;
    assert_int_equal(strtol(player_answer(players[refused], orders[refused]), NULL, 10),
                     RELOCK_E_DEADLOCK);
    assert_string_equal(player_do(players[refused], "ann", "unlock %s %d", kind->name, refused),
                        "0");
    assert_string_equal(player_answer(players[other], orders[other]), "0");
    for (int i = 0; i < FLEET_VERSIONS; i++)
        assert_string_equal(player_do(players[other], "ann", "unlock %s %d", kind->name, i), "0");
    for (int i = 0; i < FLEET_VERSIONS; i++)
        fleet_end(fleet, i);
}

/* ---- what the earlier version does not have ---------------------------------------------- */

#define PERMITS "pages"
#define N_PERMITS 2 /* set by the workers of this version */
#define WORK_US 3000

static bool is_new(int i)
{
    return i % 2 == 1;
}

/* The most permits that were out at the same time. */
static int most_permits(const struct helds *helds)
{
    int most = 0;

    for (size_t i = 0; i < helds->n; i++) {
        int n = 0;

        for (size_t j = 0; j < helds->n; j++)
            n += strcmp(helds->at[j].kind, "semaphore") == 0 &&
                 helds->at[j].from_ns <= helds->at[i].from_ns &&
                 helds->at[j].to_ns > helds->at[i].from_ns;
        most = n > most ? n : most;
    }
    return most;
}

/* The processes of this version share permits, while all contend for locks. */
static void permits_are_shared_beside_the_earlier_version(void **state)
{
    struct fleet *fleet = *state;
    char whos[FLEET_N][16];
    unsigned orders[FLEET_N];

    start_all(fleet, FLEET_OLD, FLEET_NEW);
    for (int i = 0; i < FLEET_N; i++) {
        struct fleet_member *member = &fleet->members[i];

        snprintf(whos[i], sizeof(whos[i]), "%s", member->who);
        fleet_contend(fleet, i);
        if (is_new(i))
            orders[i] = player_begin(member->player, "permits", "contend semaphore " PERMITS " %d",
                                     WORK_US);
    }
    let_pass(MIXED_MS);
    for (int i = 0; i < FLEET_N; i++) {
        int result = -1;

        assert_string_equal(player_do(fleet->members[i].player, "main", "stop"), "0");
        if (!is_new(i))
            continue;
        assert_int_equal(sscanf(player_answer(fleet->members[i].player, orders[i]), "%d", &result),
                         1);
        assert_result(result, RELOCK_OK);
    }
    end_all(fleet);
    assert_int_equal(held_check(&fleet->helds, NULL, 0, stderr).impossible, 0);
    assert_in_range(most_permits(&fleet->helds), 1, N_PERMITS);
    for (int i = 1; i < FLEET_N; i += 2)
        assert_true(held_count(&fleet->helds, whos[i], "semaphore") > 1);
    assert_int_equal(probe_int(fleet_probe(fleet, PERMITS), "GET " PERMITS), N_PERMITS);
    assert_int_equal(probe_int(fleet_probe(fleet, PERMITS), "DEL " PERMITS), 1);
}

/* It takes the name for that of a lock. Each process has another kind, as a client refuses a name
 * for two kinds. */
static void the_earlier_version_leaves_a_semaphore_as_it_is(void **state)
{
    static const char *const of_locks[] = {"reentrant", "fenced", "write"};
    struct fleet *fleet = *state;
    struct probe *probe = fleet_probe(fleet, PERMITS);

    fleet_start(fleet, 0, FLEET_NEW);
    assert_string_equal(player_do(fleet->members[0].player, "ann", "lock semaphore " PERMITS), "0");
    for (int i = 0; i < 3; i++) {
        const char *answer;

        fleet_start(fleet, i + 1, FLEET_OLD);
        answer = player_do(fleet->members[i + 1].player, "ann", "lock %s " PERMITS, of_locks[i]);
        assert_int_equal(strtol(answer, NULL, 10), RELOCK_E_SERVER);
        fleet_end(fleet, i + 1);
    }
    assert_int_equal(probe_int(probe, "GET " PERMITS), N_PERMITS - 1);
    assert_int_equal(probe_int(probe, "ZCARD {" PERMITS "}:timeout"), 1);
    assert_string_equal(player_do(fleet->members[0].player, "ann", "unlock semaphore " PERMITS),
                        "0");
    fleet_end(fleet, 0);
    assert_int_equal(probe_int(probe, "DEL " PERMITS), 1);
}

/* ---- upgrades ------------------------------------------------------------------------------ */

static void replace(struct fleet *fleet, int from, int to, enum fleet_version version)
{
    for (int i = from; i < to; i++) {
        fleet_end(fleet, i);
        fleet_start(fleet, i, version);
        fleet_contend(fleet, i);
        let_pass(SETTLE_MS);
    }
}

struct window {
    uint64_t from_ns, to_ns;
};

static struct window let_mix(void)
{
    struct window window = {.from_ns = held_now_ns()};

    let_pass(MIXED_MS);
    window.to_ns = held_now_ns();
    return window;
}

static bool is_in(const struct held *held, const struct window windows[2])
{
    return (held->from_ns >= windows[0].from_ns && held->from_ns < windows[0].to_ns) ||
           (held->from_ns >= windows[1].from_ns && held->from_ns < windows[1].to_ns);
}

/* Half of the processes had each version, and each process had one and then the other. */
static void check_shares(const struct fleet *fleet, const struct fleet_kind *kind,
                         const struct window windows[2])
{
    double least = fleet->c ? LEAST_OUTSIDE_PERCENT : LEAST_PERCENT, percent;
    unsigned long n[FLEET_VERSIONS] = {0};

    for (size_t i = 0; i < fleet->helds.n; i++) {
        const struct held *held = &fleet->helds.at[i];

        if (strcmp(held->kind, kind->name) == 0 && is_in(held, windows))
            n[strncmp(held->who, "old", 3) == 0 ? FLEET_OLD : FLEET_NEW]++;
    }
    percent = 200.0 * (double)n[FLEET_OLD] / (double)(n[FLEET_OLD] + n[FLEET_NEW]);
    printf("%-9s %6lu holds, of its share: old %3.0f %%, new %3.0f %%\n", kind->name,
           n[FLEET_OLD] + n[FLEET_NEW], percent, 200 - percent);
    assert_true(percent >= least);
    assert_true(percent <= 200 - least);
}

static void check_upgrade(struct fleet *fleet, const struct window windows[2], uint64_t until_ns)
{
    assert_int_equal(held_check(&fleet->helds, NULL, 0, stderr).impossible, 0);
    printf("longest wait: old %" PRIu64 " ms, new %" PRIu64 " ms\n",
           fleet->longest_wait_ms[FLEET_OLD], fleet->longest_wait_ms[FLEET_NEW]);
    for (int kind = 0; kind < fleet_n_kinds(); kind++) {
        const char *lock = fleet_kinds[kind].lock;
        uint64_t free_ms = longest_free_ms(&fleet->helds, lock, until_ns);

        printf("%-9s free for at most %" PRIu64 " ms\n", lock, free_ms);
        assert_no_later(free_ms, slow_ms(FREE_MS));
    }
    for (int kind = 0; kind < fleet_n_kinds(); kind++)
        check_shares(fleet, &fleet_kinds[kind], windows);
}

/* One process after the other, while all contend. */
static void a_fleet_can_be_upgraded_and_go_back(void **state)
{
    struct fleet *fleet = *state;
    struct window windows[2];
    uint64_t until_ns;

    start_all(fleet, FLEET_OLD, FLEET_OLD);
    for (int i = 0; i < FLEET_N; i++)
        fleet_contend(fleet, i);
    replace(fleet, 0, FLEET_N / 2, FLEET_NEW);
    windows[0] = let_mix();
    replace(fleet, FLEET_N / 2, FLEET_N, FLEET_NEW);
    replace(fleet, 0, FLEET_N / 2, FLEET_OLD);
    windows[1] = let_mix();
    replace(fleet, FLEET_N / 2, FLEET_N, FLEET_OLD);
    until_ns = held_now_ns();
    end_all(fleet);
    check_upgrade(fleet, windows, until_ns);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(waiters_of_both_versions_are_all_woken),
        FLEET_TEST(a_waiter_that_is_killed_delays_none_of_the_other_version),
        FLEET_TEST(a_deadlock_of_both_versions_is_broken),
        FLEET_TEST(permits_are_shared_beside_the_earlier_version),
        FLEET_TEST(the_earlier_version_leaves_a_semaphore_as_it_is),
        FLEET_TEST(a_fleet_can_be_upgraded_and_go_back),
    };

    fleet_choose(argc, argv);
    return FLEET_TESTS_RUN(tests);
}
