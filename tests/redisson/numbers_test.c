/*
 * Latches and semaphores that we and Redisson share. Nobody rechecks, so a waiter that is let
 * through was woken by the other's message.
 */
#include "duet.h"
#include "support/numbers.h"

#include <stdlib.h>

static int end(void **state)
{
    struct duet *d = *state;

    numbers_free();
    probe_int(duet_probe(d, "start"), "DEL start");
    probe_int(duet_probe(d, "jobs"), "DEL jobs");
    return duet_teardown(state);
}

#define NUMBER_DUET_TEST(function) cmocka_unit_test_setup_teardown(function, duet_setup, end)

#define assert_says(d, order, answer) \
    assert_string_equal(player_do((d)->player, "ann", "%s", order), answer)

/* A thread of Redisson's waits, and has subscribed and looked again. */
static unsigned redisson_waits(struct duet *d, const char *order)
{
    unsigned number = player_begin(d->player, "bob", "%s", order);
    uint64_t deadline_ms = deadline_in(SOON_MS);

    while (!player_is_asleep(d->player, "bob") && now_ms() < deadline_ms)
        let_pass(10);
    assert_true(player_is_busy(d->player, number));
    return number;
}

/* ---- latches ------------------------------------------------------------------------------- */

static void each_sees_how_far_the_other_has_counted(void **state)
{
    struct duet *d = *state;
    struct relock_latch *latch = latch_of(duet_client(d), "start");
    uint64_t count;
    bool is;

    assert_says(d, "set latch start 3", "yes");
    assert_result(relock_latch_try_set(latch, 5, &is), RELOCK_OK);
    assert_false(is);
    assert_result(relock_latch_count(latch, &count), RELOCK_OK);
    assert_int_equal(count, 3);
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_says(d, "number latch start", "2");
    assert_says(d, "down latch start", "ok");
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_says(d, "number latch start", "0");
    assert_says(d, "await latch start", "ok");
    assert_int_equal(probe_int(duet_probe(d, "start"), "EXISTS start"), 0);
    assert_result(relock_latch_try_set(latch, 2, &is), RELOCK_OK);
    assert_true(is);
    assert_says(d, "set latch start 7", "no");
    assert_says(d, "await latch start 50", "no");
    assert_says(d, "delete latch start", "yes");
    assert_result(relock_latch_wait(latch, 0, NULL), RELOCK_OK);
}

static void we_let_redissons_waiters_through(void **state)
{
    struct duet *d = *state;
    struct relock_latch *latch = latch_of(duet_client(d), "start");
    unsigned order;

    assert_result(relock_latch_try_set(latch, 2, NULL), RELOCK_OK);
    order = redisson_waits(d, "await latch start");
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_true(player_is_busy(d->player, order));
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_string_equal(player_answer(d->player, order), "ok");
}

/* Its own delete() would leave them asleep. */
static void our_delete_lets_redissons_waiters_through(void **state)
{
    struct duet *d = *state;
    struct relock_latch *latch = latch_of(duet_client(d), "start");
    unsigned order;

    assert_result(relock_latch_try_set(latch, 2, NULL), RELOCK_OK);
    order = redisson_waits(d, "await latch start");
    assert_result(relock_latch_delete(latch, NULL), RELOCK_OK);
    assert_string_equal(player_answer(d->player, order), "ok");
}

static void redisson_lets_our_waiters_through(void **state)
{
    static const char *const last[] = {"down latch start", "delete latch start"};
    struct duet *d = *state;
    struct relock_client *client = duet_client(d);
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct actor *waiting = actor_start();

    for (int i = 0; i < 2; i++) {
        assert_says(d, "set latch start 2", "yes");
        actor_begin(waiting, latch_step, &wait);
        assert_true(wait_for_waiters(client, 1));
        let_pass(300); /* subscribed */
        assert_says(d, "down latch start", "ok");
        assert_true(actor_is_busy(waiting));
        assert_string_equal(player_do(d->player, "ann", "%s", last[i]), i == 0 ? "ok" : "yes");
        assert_result(actor_result(waiting), RELOCK_OK);
    }
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* ---- semaphores ---------------------------------------------------------------------------- */

static void each_takes_of_the_same_permits(void **state)
{
    struct duet *d = *state;
    struct relock_unleased *semaphore = semaphore_of(duet_client(d), "jobs");
    int64_t n;
    bool is;

    assert_says(d, "set unleased jobs 5", "yes");
    assert_result(relock_unleased_try_set(semaphore, 9, &is), RELOCK_OK);
    assert_false(is);
    assert_result(relock_unleased_acquire(semaphore, 3, 0, NULL), RELOCK_OK);
    assert_says(d, "number unleased jobs", "2");
    assert_says(d, "try unleased jobs 3", "no");
    assert_says(d, "try unleased jobs 2", "yes");
    assert_result(relock_unleased_acquire(semaphore, 1, 0, NULL), RELOCK_BUSY);
    assert_result(relock_unleased_release(semaphore, 4), RELOCK_OK);
    assert_says(d, "release unleased jobs 1", "ok");
    assert_result(relock_unleased_available(semaphore, &n), RELOCK_OK);
    assert_int_equal(n, 5);
    assert_says(d, "add unleased jobs -7", "ok");
    assert_result(relock_unleased_available(semaphore, &n), RELOCK_OK);
    assert_int_equal(n, -2);
    assert_result(relock_unleased_add(semaphore, 5), RELOCK_OK);
    assert_says(d, "number unleased jobs", "3");
    assert_says(d, "drain unleased jobs", "3");
    assert_says(d, "release unleased jobs 2", "ok");
    assert_result(relock_unleased_drain(semaphore, &n), RELOCK_OK);
    assert_int_equal(n, 2);
    assert_says(d, "number unleased jobs", "0");
}

static void our_releases_wake_redisson(void **state)
{
    struct duet *d = *state;
    struct relock_unleased *semaphore = semaphore_of(duet_client(d), "jobs");
    unsigned order;

    assert_result(relock_unleased_try_set(semaphore, 1, NULL), RELOCK_OK);
    order = redisson_waits(d, "acquire unleased jobs 2");
    assert_result(relock_unleased_release(semaphore, 1), RELOCK_OK);
    assert_string_equal(player_answer(d->player, order), "ok");
    order = redisson_waits(d, "acquire unleased jobs 2");
    assert_result(relock_unleased_add(semaphore, 3), RELOCK_OK);
    assert_string_equal(player_answer(d->player, order), "ok");
    assert_says(d, "number unleased jobs", "1");
}

static void redissons_releases_wake_us(void **state)
{
    static const char *const gives[] = {"release unleased jobs 2", "add unleased jobs 2"};
    struct duet *d = *state;
    struct relock_client *client = duet_client(d);
    struct permits_wait wait = {semaphore_of(client, "jobs"), 2, RELOCK_FOREVER, NULL};
    struct actor *waiting = actor_start();

    for (int i = 0; i < 2; i++) {
        actor_begin(waiting, permits_step, &wait);
        assert_true(wait_for_waiters(client, 1));
        let_pass(300); /* subscribed */
        assert_says(d, gives[i], "ok");
        assert_result(actor_result(waiting), RELOCK_OK);
    }
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* What an absent number means, and what stays absent, is the same for both. */
static void both_leave_absent_numbers_absent(void **state)
{
    struct duet *d = *state;
    struct relock_client *client = duet_client(d);
    struct relock_unleased *semaphore = semaphore_of(client, "jobs");
    struct relock_latch *latch = latch_of(client, "start");
    bool deleted = true;
    int64_t n = -1;

    assert_says(d, "down latch start", "ok");
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    assert_says(d, "delete latch start", "no");
    assert_result(relock_latch_delete(latch, &deleted), RELOCK_OK);
    assert_false(deleted);
    assert_says(d, "drain unleased jobs", "0");
    assert_result(relock_unleased_drain(semaphore, &n), RELOCK_OK);
    assert_int_equal(n, 0);
    assert_says(d, "try unleased jobs 1", "no");
    assert_says(d, "number unleased jobs", "0");
    assert_int_equal(probe_int(duet_probe(d, "start"), "EXISTS start"), 0);
    assert_int_equal(probe_int(duet_probe(d, "jobs"), "EXISTS jobs"), 0);
}

/* A release keeps the expiry of a semaphore, and added permits end it. */
static void both_treat_the_expiry_alike(void **state)
{
    struct duet *d = *state;
    struct relock_unleased *semaphore = semaphore_of(duet_client(d), "jobs");
    struct probe *probe = duet_probe(d, "jobs");

    for (int i = 0; i < 2; i++) {
        probe_int(probe, "SET jobs 1 PX %d", NEVER_MS);
        if (i == 0)
            assert_says(d, "release unleased jobs 1", "ok");
        else
            assert_result(relock_unleased_release(semaphore, 1), RELOCK_OK);
        assert_true(probe_pttl(probe, "jobs") > 0);
        if (i == 0)
            assert_says(d, "add unleased jobs 1", "ok");
        else
            assert_result(relock_unleased_add(semaphore, 1), RELOCK_OK);
        assert_int_equal(probe_pttl(probe, "jobs"), -1);
        probe_int(probe, "SET jobs 3 PX %d", NEVER_MS);
        if (i == 0)
            assert_says(d, "drain unleased jobs", "3");
        else
            assert_result(relock_unleased_drain(semaphore, &(int64_t){0}), RELOCK_OK);
        assert_int_equal(probe_pttl(probe, "jobs"), -1);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NUMBER_DUET_TEST(each_sees_how_far_the_other_has_counted),
        NUMBER_DUET_TEST(we_let_redissons_waiters_through),
        NUMBER_DUET_TEST(our_delete_lets_redissons_waiters_through),
        NUMBER_DUET_TEST(redisson_lets_our_waiters_through),
        NUMBER_DUET_TEST(each_takes_of_the_same_permits),
        NUMBER_DUET_TEST(our_releases_wake_redisson),
        NUMBER_DUET_TEST(redissons_releases_wake_us),
        NUMBER_DUET_TEST(both_leave_absent_numbers_absent),
        NUMBER_DUET_TEST(both_treat_the_expiry_alike),
    };

    duet_choose(argc, argv);
    return DUET_TESTS_RUN(tests);
}
