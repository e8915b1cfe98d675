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
#define WRITE_CHANNEL "redisson_rwlock:{orders}"

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

struct theirs {
    struct duet *d;
    const char *thread;
    unsigned order;
};

static bool is_done_or_asleep(void *arg)
{
    const struct theirs *theirs = arg;

    return !player_is_busy(theirs->d->player, theirs->order) ||
           player_is_asleep(theirs->d->player, theirs->thread);
}

/* Publishes the release of a write lock once more if this thread still waits. Redisson forgets a
 * "1" that arrives between a refusal and the sleep of the thread: docs/wire.md. So no test can
 * require that each release wakes it, only that each is published. Returns the number of messages.
 */
static unsigned publish_again(struct theirs *theirs)
{
    struct duet *d = theirs->d;

    assert_true(wait_until(is_done_or_asleep, theirs, SOON_MS));
    if (!player_is_busy(d->player, theirs->order))
        return 0;
    probe_int(duet_probe(d, "orders"), "%s " WRITE_CHANNEL " 1",
              duet_is_sharded() ? "SPUBLISH" : "PUBLISH");
    return 1;
}

static unsigned n_releases(const char *heard)
{
    static const char release[] = WRITE_CHANNEL " 1\n";
    unsigned n = 0;

    for (; (heard = strstr(heard, release)); heard += strlen(release))
        n++;
    return n;
}

static void begin_theirs(struct theirs *theirs)
{
    theirs->order = duet_begin_wait(theirs->d, theirs->thread, "pass orders 1000");
}

static void release(struct duet *d, struct relock_lock *lock)
{
    if (lock)
        assert_result(relock_unlock(lock), RELOCK_OK);
    else
        assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
}

/* Releases the lock, which `lock` of ours has or, with NULL, ann. Each gets it once and does not
 * come back: so no later release makes up for one that was not woken. */
static void let_all_pass(struct duet *d, struct relock_lock *lock, struct ours *ours, int n_ours,
                         struct theirs *theirs)
{
    bool is_write = duet_is(d, "write");
    struct published *published = published_open(duet_socket(d), duet_is_sharded());
    unsigned n_published = 1 + (unsigned)n_ours + N_THEIRS;
    char *heard;

    release(d, lock);
    for (int i = 0; i < n_ours; i++)
        assert_result(actor_result(ours[i].waiting), RELOCK_OK);
    for (int i = 0; is_write && i < N_THEIRS; i++)
        n_published += publish_again(&theirs[i]);
    for (int i = 0; i < N_THEIRS; i++)
        assert_string_equal(duet_answer(d, theirs[i].order), "ok");
    heard = published_close(published, duet_probe(d, "orders"));
    if (is_write)
        assert_int_equal(n_releases(heard), n_published);
    free(heard);
}

/* Clients of ours, with threads of Redisson between them. */
static void all_waiters_of_both_are_woken(void **state)
{
    struct duet *d = *state;
    struct ours ours[N_OURS];
    struct theirs theirs[N_THEIRS] = {{.d = d, .thread = "bob"}, {.d = d, .thread = "cyd"}};

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
                begin_theirs(&theirs[i - holder]);
        }
        let_all_pass(d, holder == 0 ? NULL : ours[0].lock, ours + holder, N_OURS - holder, theirs);
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
