/* One queue for both libraries, in order of arrival. */
#include "duet.h"
#include "shape.h"
#include "support/child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE "redisson_lock_queue:{orders}"
#define DEADLINES "redisson_lock_timeout:{orders}"
#define N_WAITERS 6
#define RECHECK_MS 500
#define LEASE_MS 4000
#define SHORT_MS 500

struct expected {
    struct duet *d;
    long long n;
};

static bool is_so_long(void *arg)
{
    struct expected *expected = arg;

    return probe_int(duet_probe(expected->d, "orders"), "LLEN " QUEUE) == expected->n;
}

static void wait_for_queue(struct duet *d, long long n)
{
    assert_true(wait_until(is_so_long, &(struct expected){d, n}, SOON_MS));
}

/* A waiter, here or in Redisson. */
struct waiter {
    const char *thread;  /* in Redisson; NULL: here */
    struct actor *actor; /* here */
    unsigned order;      /* in Redisson */
};

static void begin(struct duet *d, struct waiter *waiter, struct relock_lock *lock)
{
    if (waiter->thread) {
        waiter->order = duet_begin(d, waiter->thread, "lock orders 100000");
    } else {
        waiter->actor = actor_start();
        actor_begin_lock(waiter->actor, lock);
    }
}

static bool has_it(struct duet *d, struct waiter *waiter)
{
    if (waiter->thread)
        return strcmp(duet_answer(d, waiter->order), "ok") == 0;
    return actor_result(waiter->actor) == RELOCK_OK;
}

static bool still_waits(struct duet *d, struct waiter *waiter)
{
    return waiter->thread ? player_is_busy(d->player, waiter->order) : actor_is_busy(waiter->actor);
}

static void leave(struct duet *d, struct waiter *waiter, struct relock_lock *lock)
{
    if (waiter->thread)
        assert_string_equal(duet_do(d, waiter->thread, "unlock orders"), "ok");
    else
        assert_result(actor_unlock(waiter->actor, lock), RELOCK_OK);
}

static void the_first_to_come_is_the_first_to_go(struct duet *d, const char *const *threads)
{
    struct relock_client *clients[] = {duet_client_with(d, &(struct relock_options){0}),
                                       duet_client_with(d, &(struct relock_options){0})};
    struct relock_lock *locks[] = {duet_lock(d, clients[0], "orders"),
                                   duet_lock(d, clients[1], "orders")};
    struct waiter waiters[N_WAITERS] = {{0}};

    assert_string_equal(duet_do(d, "holder", "lock orders 100000"), "ok");
    for (int i = 0; i < N_WAITERS; i++) {
        waiters[i].thread = threads[i];
        begin(d, &waiters[i], locks[i % 2]);
        wait_for_queue(d, i + 1);
    }
    assert_string_equal(duet_do(d, "holder", "unlock orders"), "ok");
    for (int i = 0; i < N_WAITERS; i++) {
        assert_true(has_it(d, &waiters[i]));
        for (int k = i + 1; k < N_WAITERS; k++)
            assert_true(still_waits(d, &waiters[k]));
        leave(d, &waiters[i], locks[i % 2]);
    }
}

static void alternating_waiters_are_served_in_order_of_arrival(void **state)
{
    static const char *const threads[N_WAITERS] = {NULL, "ann", NULL, "bob", NULL, "cat"};

    the_first_to_come_is_the_first_to_go(*state, threads);
}

static void groups_of_waiters_are_served_in_order_of_arrival(void **state)
{
    static const char *const threads[N_WAITERS] = {"ann", "bob", NULL, NULL, "cat", NULL};

    the_first_to_come_is_the_first_to_go(*state, threads);
}

/* Both first waiters have the same place, but different deadlines: Redisson's retries once, ours
 * repeatedly. */
static void a_waiter_stands_in_the_same_queue(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    static const char *const threads[] = {"ann", NULL};
    static const char *const rests[] = {"400",
                                        "300"}; /* the lease and 300 s; three times LONG_MS */

    for (int i = 0; i < 2; i++) {
        struct waiter waiter = {.thread = threads[i]};
        char deadlines[128];

        assert_string_equal(duet_do(d, "holder", "lock orders 100000"), "ok");
        begin(d, &waiter, lock);
        wait_for_queue(d, 1);
        assert_memory_equal(shape_of(duet_probe(d, "orders"), QUEUE), QUEUE " list U:N lease ",
                            strlen(QUEUE " list U:N lease "));
        snprintf(deadlines, sizeof(deadlines), DEADLINES " zset U:N=now+%s s lease ", rests[i]);
        assert_memory_equal(shape_of(duet_probe(d, "orders"), DEADLINES), deadlines,
                            strlen(deadlines));
        assert_string_equal(duet_do(d, "holder", "unlock orders"), "ok");
        assert_true(has_it(d, &waiter));
        leave(d, &waiter, lock);
    }
}

static void a_waiter_that_times_out_here_makes_room_for_redisson(void **state)
{
    struct duet *d = *state;
    struct relock_client *client = duet_client(d);
    struct relock_lock *lock = duet_lock(d, client, "orders");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *first = actor_start();
    unsigned ann;

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_string_equal(duet_do(d, "holder", "lock orders 100000"), "ok");
    actor_begin_acquire(first, lock, &how);
    wait_for_queue(d, 1);
    ann = duet_begin(d, "ann", "lock orders");
    wait_for_queue(d, 2);
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(first), RELOCK_CANCELLED);
    relock_cancel_free(how.cancel);
    wait_for_queue(d, 1);
    assert_string_equal(duet_do(d, "holder", "unlock orders"), "ok");
    assert_string_equal(duet_answer(d, ann), "ok");
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
}

static void a_waiter_that_times_out_in_redisson_makes_room_for_us(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    struct actor *second = actor_start();
    unsigned ann;

    assert_string_equal(duet_do(d, "holder", "lock orders 100000"), "ok");
    ann = duet_begin(d, "ann", "try orders 4000 -1");
    wait_for_queue(d, 1);
    actor_begin_lock(second, lock);
    wait_for_queue(d, 2);
    assert_string_equal(duet_answer(d, ann), "no");
    wait_for_queue(d, 1);
    assert_string_equal(duet_do(d, "holder", "unlock orders"), "ok");
    assert_gets_in(second, lock);
}

static int wait_until_killed(struct child *parent, void *arg)
{
    struct duet *d = arg;
    struct relock_client *client =
        duet_child_client(d, &(struct relock_options){.recheck_ms = slow_ms(RECHECK_MS)});
    struct relock_lock *lock;

    child_must(relock_fairlock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(child_await(parent));
    child_must(relock_lock(lock) != RELOCK_OK);
    return EXIT_FAILURE;
}

/* The head has died. Its deadline was short, and Redisson checks it. */
static void our_dead_waiter_keeps_redisson_out_for_a_short_time(void **state)
{
    struct duet *d = *state;
    struct child *child = child_start(wait_until_killed, d);
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    struct relock_how how = {.lease_ms = slow_ms(LEASE_MS)};
    unsigned ann;

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    child_send(child, 0);
    wait_for_queue(d, 1);
    /* Do this before the other waiter comes: it sleeps until the deadline that it finds, and the
     * oldest Redisson sleeps for ever if the deadline is then extended. */
    child_signal(child, SIGKILL);
    assert_int_equal(child_wait(child, SOON_MS), 128 + SIGKILL);
    ann = duet_begin(d, "ann", "lock orders");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(duet_answer(d, ann), "ok");
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
}

/* The timeout of Redisson's waiter is its wait time, four seconds here, added to the remaining
 * lease that it found. */
static void a_dead_waiter_of_redisson_keeps_us_out_until_its_deadline(void **state)
{
    struct duet *d = *state;
    struct relock_options options = {.recheck_ms = RECHECK_MS};
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    struct relock_lock *next = duet_lock(d, duet_client_with(d, &options), "orders");
    struct actor *second = actor_start();

    assert_result(acquire_for(lock, slow_ms(LEASE_MS)), RELOCK_OK);
    duet_begin(d, "ann", "try orders 4000 -1");
    wait_for_queue(d, 1);
    player_kill(d->player);
    actor_begin_lock(second, next);
    wait_for_queue(d, 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(actor_is_busy(second));
    assert_result(actor_result_within(second, LEASE_MS + SOON_MS), RELOCK_OK);
    assert_result(actor_unlock(second, next), RELOCK_OK);
}

static bool is_newest = true;

/* Waits again if the reply came after the lease. */
static int acquire_briefly(void *lock)
{
    return fixture_acquire(lock,
                           &(struct relock_how){.wait_ms = RELOCK_FOREVER, .lease_ms = SHORT_MS});
}

/* No holder releases. Waiters of older versions may sleep past the end of a lease. */
static void waiters_follow_each_other_when_leases_end_without_a_release(void **state)
{
    struct duet *d = *state;
    struct relock_lock *locks[N_WAITERS];
    struct actor *ours[N_WAITERS];
    unsigned ann;

    if (!is_newest)
        skip();
    for (int i = 0; i < N_WAITERS; i++)
        locks[i] = duet_lock(d, duet_client(d), "orders");
    assert_string_equal(duet_do(d, "holder", "lock orders 3000"), "ok");
    ann = duet_begin(d, "ann", "lock orders 500");
    wait_for_queue(d, 1);
    for (int i = 0; i < N_WAITERS; i++) {
        ours[i] = actor_start();
        actor_begin(ours[i], acquire_briefly, locks[i]);
    }
    assert_string_equal(duet_answer(d, ann), "ok");
    for (int i = 0; i < N_WAITERS; i++)
        assert_result(actor_result_within(ours[i], LEASE_MS + SOON_MS), RELOCK_OK);
    assert_true(probe_wait_no_key(duet_probe(d, "orders"), "orders", SOON_MS));
    for (int i = 0; i < N_WAITERS; i++)
        assert_result(actor_unlock(ours[i], locks[i]), RELOCK_LOST);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUET_TEST(alternating_waiters_are_served_in_order_of_arrival),
        DUET_TEST(groups_of_waiters_are_served_in_order_of_arrival),
        DUET_TEST(a_waiter_stands_in_the_same_queue),
        DUET_TEST(a_waiter_that_times_out_here_makes_room_for_redisson),
        DUET_TEST(a_waiter_that_times_out_in_redisson_makes_room_for_us),
        DUET_TEST(our_dead_waiter_keeps_redisson_out_for_a_short_time),
        DUET_TEST(waiters_follow_each_other_when_leases_end_without_a_release),
        DUET_TEST(a_dead_waiter_of_redisson_keeps_us_out_until_its_deadline),
    };

    is_newest = argc < 3 || strcmp(argv[2], "newest") == 0;
    duet_choose(argc, argv);
    return DUET_TESTS_RUN(tests);
}
