/* One holder at a time, here or in Redisson, for each kind of lock. */
#include "duet.h"
#include "shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void a_redisson_holder_excludes_us(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");

    assert_string_equal(duet_do(d, "ann", "lock orders 100000"), "ok");
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_string_equal(duet_do(d, "ann", "lock orders 100000"), "ok");
    assert_string_equal(duet_do(d, "ann", "count orders"), "2");
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void our_holder_excludes_redisson(void **state)
{
    struct duet *d = *state;
    struct relock_client *client = duet_client(d);
    struct relock_lock *lock = duet_lock(d, client, "orders");
    uint64_t since_ms = now_ms();

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_string_equal(duet_do(d, "ann", "try orders"), "no");
    assert_string_equal(duet_do(d, "ann", "try orders 1000 -1"), "no");
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "not-owner");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(duet_do(d, "ann", "try orders"), "no");
    assert_result(relock_unlock(lock), RELOCK_OK);
    duet_assert_kept(d, stats_of(client).kept > 0, since_ms);
    /* It recalls nothing, so it waits until the end of keep_ms. */
    assert_string_equal(duet_do(d, "ann", duet_keeps(d) ? "try orders 10000 -1" : "try orders"),
                        "yes");
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
}

static void a_release_by_redisson_wakes_us(void **state)
{
    struct duet *d = *state;
    struct relock_client *client = duet_client(d);
    struct relock_lock *lock = duet_lock(d, client, "orders");
    struct actor *waiting = actor_start();

    assert_string_equal(duet_do(d, "ann", "lock orders 100000"), "ok");
    actor_begin_lock(waiting, lock);
    assert_true(duet_sleeps(d, client));
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(d->kind->publishes ? stats_of(client).rechecks : 0, 0);
    assert_string_equal(duet_do(d, "ann", "try orders"), "no");
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

static void our_release_wakes_redisson(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    unsigned waiting;

    assert_result(relock_lock(lock), RELOCK_OK);
    waiting = duet_begin_wait(d, "ann", "lock orders");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(duet_answer(d, waiting), "ok");
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
}

/* Two threads in Redisson and two here, each waiting for the previous one. */
static void the_lock_goes_round(void **state)
{
    struct duet *d = *state;
    struct relock_client *client = duet_client(d);
    struct relock_lock *lock = duet_lock(d, client, "orders");
    struct actor *waiting = actor_start();
    unsigned bob;

    assert_string_equal(duet_do(d, "ann", "lock orders 100000"), "ok");
    for (int i = 0; i < 5; i++) {
        actor_begin_lock(waiting, lock);
        assert_true(wait_for_waiters(client, 1));
        assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
        assert_result(actor_result(waiting), RELOCK_OK);
        bob = duet_begin_wait(d, "bob", "lock orders 100000");
        assert_result(actor_unlock(waiting, lock), RELOCK_OK);
        assert_string_equal(duet_answer(d, bob), "ok");

        actor_begin_lock(waiting, lock);
        assert_true(wait_for_waiters(client, 1));
        assert_string_equal(duet_do(d, "bob", "unlock orders"), "ok");
        assert_result(actor_result(waiting), RELOCK_OK);
        bob = duet_begin_wait(d, "ann", "lock orders 100000");
        assert_result(actor_unlock(waiting, lock), RELOCK_OK);
        assert_string_equal(duet_answer(d, bob), "ok");
    }
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
}

#define N_OURS 3
#define N_THEIRS 2

struct ours {
    struct relock_client *client;
    struct relock_lock *lock;
    struct actor *waiting;
};

static void begin_ours(struct duet *d, struct ours *ours)
{
    actor_begin(ours->waiting, actor_take_turn, ours->lock);
    assert_true(duet_sleeps(d, ours->client));
}

/* Clients of ours, with threads of Redisson between them. Each gets the lock once and does not come
 * back: so no later release makes up for one that was not woken. */
static void all_waiters_of_both_are_woken(void **state)
{
    static const char *const threads[N_THEIRS] = {"bob", "cyd"};
    struct duet *d = *state;
    struct ours ours[N_OURS];
    unsigned theirs[N_THEIRS];

    for (int i = 0; i < N_OURS; i++) {
        struct relock_client *client = duet_client(d);

        ours[i] = (struct ours){client, duet_lock(d, client, "orders"), actor_start()};
    }
    for (int holder = 0; holder < 2; holder++) {
        if (holder == 0)
            assert_string_equal(duet_do(d, "ann", "lock orders 100000"), "ok");
        else
            assert_result(relock_lock(ours[0].lock), RELOCK_OK);
        for (int i = holder; i < N_OURS; i++) {
            begin_ours(d, &ours[i]);
            if (i - holder < N_THEIRS)
                theirs[i - holder] = duet_begin_wait(d, threads[i - holder], "pass orders 1000");
        }
        if (holder == 0)
            assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
        else
            assert_result(relock_unlock(ours[0].lock), RELOCK_OK);
        for (int i = holder; i < N_OURS; i++)
            assert_result(actor_result(ours[i].waiting), RELOCK_OK);
        for (int i = 0; i < N_THEIRS; i++)
            assert_string_equal(duet_answer(d, theirs[i]), "ok");
    }
}

static void our_forced_unlock_is_a_loss_for_redisson(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    unsigned waiting;

    assert_string_equal(duet_do(d, "ann", "lock orders 100000"), "ok");
    waiting = duet_begin_wait(d, "bob", "lock orders");
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_string_equal(duet_answer(d, waiting), "ok");
    assert_string_equal(duet_do(d, "ann", "mine orders"), "no");
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "not-owner");
    assert_string_equal(duet_do(d, "bob", "unlock orders"), "ok");
}

static void a_forced_unlock_by_redisson_is_a_loss_for_us(void **state)
{
    struct duet *d = *state;
    struct relock_client *holder = duet_watched_client(d), *client = duet_client(d);
    struct relock_lock *lock = duet_lock(d, holder, "orders");
    struct relock_lock *next = duet_lock(d, client, "orders");
    struct actor *waiting = actor_start();
    uint64_t since_ms;

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiting, next);
    assert_true(duet_sleeps(d, client));
    since_ms = now_ms();
    assert_string_equal(duet_do(d, "ann", "force orders"), "yes");
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_true(losses_wait(d->f->losses, 1, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(actor_unlock(waiting, next), RELOCK_OK);
    duet_assert_kept(d, duet_says_yes(d, "ann", "force orders"), since_ms);
}

static void each_library_can_query_the_others_hold(void **state)
{
    struct duet *d = *state;
    struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
    struct relock_holder holder;
    uint64_t since_ms;
    bool locked;

    assert_string_equal(duet_do(d, "ann", "lock orders 100000"), "ok");
    assert_string_equal(duet_do(d, "ann", "lock orders 100000"), "ok");
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_int_equal(strcspn(holder.id, ":"), 36);
    assert_non_null(strchr(holder.id, ':'));
    assert_int_equal(holder.hold_count, 2);
    assert_int_equal(holder.n_holders, 1);
    assert_true(holder.ttl_ms > LONG_MS / 2);
    assert_result(relock_is_locked(lock, &locked), RELOCK_OK);
    assert_true(locked);
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");

    since_ms = now_ms();
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_string_equal(duet_do(d, "ann", "locked orders"), "yes");
    assert_string_equal(duet_do(d, "ann", "mine orders"), "no");
    assert_string_equal(duet_do(d, "ann", "count orders"), "0");
    assert_true(atoll(duet_do(d, "ann", "ttl orders")) > LONG_MS / 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    duet_assert_kept(d, duet_says_yes(d, "ann", "locked orders"), since_ms);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUET_TEST(a_redisson_holder_excludes_us),
        DUET_TEST(our_holder_excludes_redisson),
        DUET_TEST(a_release_by_redisson_wakes_us),
        DUET_TEST(our_release_wakes_redisson),
        DUET_TEST(the_lock_goes_round),
        DUET_TEST(all_waiters_of_both_are_woken),
        DUET_TEST(our_forced_unlock_is_a_loss_for_redisson),
        DUET_TEST(a_forced_unlock_by_redisson_is_a_loss_for_us),
        DUET_TEST(each_library_can_query_the_others_hold),
    };

    duet_choose(argc, argv);
    return DUET_TESTS_RUN(tests);
}
