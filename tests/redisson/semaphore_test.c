/* The library and Redisson share the permits of a semaphore. */
#include "duet.h"

#include <stdio.h>
#include <string.h>

#define PERMIT_MAX 64 /* an id in hex, or an answer */

static int take(struct relock_lock *lock, uint64_t n, int64_t wait_ms)
{
    return relock_acquire(lock, &(struct relock_how){.permits = n, .wait_ms = wait_ms}, NULL);
}

struct turn {
    struct relock_lock *lock;
    uint64_t n;
};

static int take_turn(void *arg)
{
    const struct turn *turn = arg;

    return take(turn->lock, turn->n, LONG_MS);
}

/* Redisson's permit. */
static void their_take(struct duet *d, uint64_t lease_ms, char id[PERMIT_MAX])
{
    char order[PERMIT_MAX];

    (void)snprintf(order, sizeof(order), "take orders 0 %llu", (unsigned long long)lease_ms);
    (void)snprintf(id, PERMIT_MAX, "%s", duet_do(d, "ann", order));
    assert_int_equal(strlen(id), 32);
}

static const char *their(struct duet *d, const char *verb, const char *id, const char *more)
{
    char order[2 * PERMIT_MAX];

    (void)snprintf(order, sizeof(order), "%s orders %s%s", verb, id, more);
    return duet_do(d, "ann", order);
}

static void forget(struct duet *d, int n)
{
    struct probe *probe = duet_probe(d, "orders");

    assert_int_equal(probe_int(probe, "GET orders"), n);
    assert_int_equal(probe_int(probe, "ZCARD {orders}:timeout"), 0);
    assert_int_equal(probe_int(probe, "DEL orders"), 1);
}

static void both_have_permits_of_one_semaphore(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    struct relock_permits permits;
    char id[PERMIT_MAX];

    assert_string_equal(duet_do(d, "ann", "set orders 2"), "yes");
    assert_result(relock_semaphore_init(lock, 5, NULL), RELOCK_OK);
    their_take(d, LONG_MS, id);
    assert_result(take(lock, 2, 0), RELOCK_BUSY);
    assert_result(take(lock, 1, 0), RELOCK_OK);
    assert_string_equal(duet_do(d, "ann", "take orders 0 1000"), "no");
    assert_string_equal(duet_do(d, "ann", "free orders"), "0");
    assert_result(relock_semaphore_read(lock, &permits), RELOCK_OK);
    assert_int_equal(permits.n_free, 0);
    assert_int_equal(permits.n_out, 2);
    assert_string_equal(their(d, "extend", id, " 100000"), "yes");
    assert_string_equal(their(d, "give", id, ""), "yes");
    assert_string_equal(their(d, "give", id, ""), "no");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(duet_do(d, "ann", "free orders"), "2");
    forget(d, 2);
}

static void each_release_wakes_the_other(void **state)
{
    struct duet *d = *state;
    struct turn turn = {duet_lock(d, duet_client(d), "orders"), 2};
    struct actor *waiter = actor_start();
    char id[PERMIT_MAX];
    unsigned order;

    assert_result(relock_semaphore_init(turn.lock, 2, NULL), RELOCK_OK);
    their_take(d, LONG_MS, id);
    actor_begin(waiter, take_turn, &turn);
    assert_result(actor_result_within(waiter, 300), ACTOR_BUSY); /* it listens by then */
    assert_string_equal(their(d, "give", id, ""), "yes");
    assert_result(actor_result(waiter), RELOCK_OK);

    order = duet_begin(d, "ann", "take orders 100000 100000");
    let_pass(300); /* it may be subscribed by then; it hears of the permit in either case */
    assert_result(actor_unlock(waiter, turn.lock), RELOCK_OK);
    (void)snprintf(id, sizeof(id), "%s", duet_answer(d, order));
    assert_int_equal(strlen(id), 32);
    assert_string_equal(their(d, "give", id, ""), "yes");
    forget(d, 2);
}

/* Redisson may release a permit of ours by its id; and ours come back like its own. */
static void a_permit_of_ours_is_one_of_theirs(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    unsigned char id[16];
    char hex[PERMIT_MAX];
    struct relock_how how = {.permits = 1, .permit_ids = id};

    assert_result(relock_semaphore_init(lock, 1, NULL), RELOCK_OK);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    for (size_t i = 0; i < sizeof(id); i++)
        (void)snprintf(hex + 2 * i, sizeof(hex) - 2 * i, "%02x", id[i]);
    assert_string_equal(their(d, "give", hex, ""), "yes");
    assert_result(relock_unlock(lock), RELOCK_LOST);
    forget(d, 1);
}

static void a_permit_that_expires_comes_back(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    char id[PERMIT_MAX];

    assert_result(relock_semaphore_init(lock, 1, NULL), RELOCK_OK);
    their_take(d, slow_ms(300), id);
    assert_result(take(lock, 1, LONG_MS), RELOCK_OK);
    assert_string_equal(their(d, "give", id, ""), "no");
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(d, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUET_TEST(both_have_permits_of_one_semaphore),
        DUET_TEST(each_release_wakes_the_other),
        DUET_TEST(a_permit_of_ours_is_one_of_theirs),
        DUET_TEST(a_permit_that_expires_comes_back),
    };

    duet_choose(argc, argv);
    return DUET_TESTS_RUN(tests);
}
