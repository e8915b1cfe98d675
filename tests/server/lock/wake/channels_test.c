/*
 * Locks whose names differ only in braces, "orders" and "{orders}", are two locks with one channel.
 * Unless a test says otherwise nothing here ends by time, so a waiter that gets the lock was woken.
 */
#include "support/waiter.h"

#define N_NAMES 2
#define N_ROUNDS 100

static const char *const names[N_NAMES] = {"orders", "{orders}"};

/* Two clients: the first waits for the locks of both names, which the second holds. */
struct scene {
    struct fixture *f;
    struct relock_client *client;
    struct relock_lock *ours[N_NAMES], *theirs[N_NAMES];
    struct actor *waiting[N_NAMES];
    const char *channel;
};

static struct scene new_scene(struct fixture *f, fixture_constructor_fn *constructor,
                              const char *channel)
{
    struct scene scene = {.f = f, .client = patient_client(f, NEVER_MS)};
    struct relock_client *other = patient_client(f, NEVER_MS);

    waiter_open_inbox(f, scene.client);
    scene.channel = channel;
    for (int i = 0; i < N_NAMES; i++) {
        scene.ours[i] = fixture_lock_of(f, scene.client, names[i], constructor);
        scene.theirs[i] = fixture_lock_of(f, other, names[i], constructor);
        scene.waiting[i] = actor_start();
        assert_result(relock_lock(scene.theirs[i]), RELOCK_OK);
    }
    return scene;
}

/* The waiter was refused, subscribed as the first in line, and was refused again. */
static void begins_to_wait_as(struct scene *scene, int i, const struct relock_how *how)
{
    long long before = probe_script_calls(scene->f->probe);
    uint64_t until_ms = deadline_in(SOON_MS);

    actor_begin_acquire(scene->waiting[i], scene->ours[i], how);
    while (probe_script_calls(scene->f->probe) < before + 2 && now_ms() < until_ms)
        let_pass(1);
    assert_int_equal(probe_script_calls(scene->f->probe), before + 2);
    assert_true(probe_wait_subscribers(scene->f->probe, scene->channel, 1));
}

static void begins_to_wait(struct scene *scene, int i)
{
    static const struct relock_how how = {.wait_ms = RELOCK_FOREVER};

    begins_to_wait_as(scene, i, &how);
}

static void is_woken_by_the_release(struct scene *scene, int i)
{
    assert_result(relock_unlock(scene->theirs[i]), RELOCK_OK);
    assert_gets_in(scene->waiting[i], scene->ours[i]);
    assert_int_equal(stats_of(scene->client).rechecks, 0);
}

static void each_is_woken_by_its_release(struct fixture *f, fixture_constructor_fn *constructor,
                                         const char *channel)
{
    for (int first = 0; first < N_NAMES; first++) {
        struct scene scene = new_scene(f, constructor, channel);

        begins_to_wait(&scene, 0);
        begins_to_wait(&scene, 1);
        is_woken_by_the_release(&scene, first);
        assert_true(actor_is_busy(scene.waiting[1 - first]));
        is_woken_by_the_release(&scene, 1 - first);
    }
}

static void two_locks_that_share_a_channel_are_both_woken(void **state)
{
    each_is_woken_by_its_release(*state, relock_lock_new, "redisson_lock__channel:{orders}");
}

static void two_fenced_locks_that_share_a_channel_are_both_woken(void **state)
{
    each_is_woken_by_its_release(*state, relock_fencedlock_new, "redisson_lock__channel:{orders}");
}

static void two_readers_that_share_a_channel_are_both_woken(void **state)
{
    struct fixture *f = *state;
    struct scene scene = new_scene(f, relock_wrlock_new, "redisson_rwlock:{orders}");

    for (int i = 0; i < N_NAMES; i++) {
        scene.ours[i] = fixture_lock_of(f, scene.client, names[i], relock_rdlock_new);
        begins_to_wait(&scene, i);
    }
    is_woken_by_the_release(&scene, 1);
    is_woken_by_the_release(&scene, 0);
}

/* ---- leaving ------------------------------------------------------------------------------- */

/* One leaves, and after it a third lock, with a channel of its own. Channels go in that order, so
 * when that channel is gone, the other lock has left, too. */
static void leaves(struct scene *scene, int leaver)
{
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct relock_lock *last = fixture_lock(scene->f, scene->client, "last");
    struct actor *waiting = actor_start();

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_true(peer_lock(scene->f->probe, "last", PEER, NEVER_MS));
    begins_to_wait_as(scene, leaver, &how);
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(scene->waiting[leaver]), RELOCK_CANCELLED);
    relock_cancel_free(how.cancel);

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    actor_begin_acquire(waiting, last, &how);
    assert_true(probe_wait_subscribers(scene->f->probe, "redisson_lock__channel:{last}", 1));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    assert_true(probe_wait_subscribers(scene->f->probe, "redisson_lock__channel:{last}", 0));
    assert_true(peer_unlock(scene->f->probe, "last", PEER));
    relock_cancel_free(how.cancel);
}

static void a_lock_that_leaves_a_shared_channel_silences_no_other(void **state)
{
    for (int leaver = 0; leaver < N_NAMES; leaver++) {
        struct scene scene = new_scene(*state, relock_lock_new, "redisson_lock__channel:{orders}");

        begins_to_wait(&scene, 1 - leaver);
        leaves(&scene, leaver);
        assert_int_equal(probe_subscribers(scene.f->probe, scene.channel), 1);
        is_woken_by_the_release(&scene, 1 - leaver);
        assert_result(relock_unlock(scene.theirs[leaver]), RELOCK_OK);
    }
}

static void the_subscription_ends_with_its_last_waiter(void **state)
{
    struct scene scene = new_scene(*state, relock_lock_new, "redisson_lock__channel:{orders}");

    for (int i = 0; i < N_NAMES; i++)
        begins_to_wait(&scene, i);
    for (int i = 0; i < N_NAMES; i++)
        is_woken_by_the_release(&scene, i);
    assert_true(probe_wait_subscribers(scene.f->probe, scene.channel, 0));
}

/* The waits of one lock begin and end again and again, and the other lock is still woken. */
static void sharing_a_channel_starves_nobody(void **state)
{
    struct scene scene = new_scene(*state, relock_lock_new, "redisson_lock__channel:{orders}");

    assert_result(relock_unlock(scene.theirs[1]), RELOCK_OK);
    begins_to_wait(&scene, 0);
    for (int n = 0; n < N_ROUNDS; n++) {
        assert_result(relock_lock(scene.theirs[1]), RELOCK_OK);
        actor_begin_lock(scene.waiting[1], scene.ours[1]);
        assert_true(wait_for_waiters(scene.client, 2));
        is_woken_by_the_release(&scene, 1);
    }
    is_woken_by_the_release(&scene, 0);
}

/* ---- queues -------------------------------------------------------------------------------- */

static void two_fair_locks_of_one_client_share_no_queue(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    for (int i = 0; i < N_NAMES; i++) {
        struct relock_lock *fair = fixture_lock_of(f, client, names[i], relock_fairlock_new);
        struct relock_lock *other = NULL;

        log_clear(f->log);
        assert_result(relock_fairlock_new(client, names[1 - i], &other), RELOCK_E_INVALID);
        assert_null(other);
        assert_true(log_wait(f->log, "in Redis both would share one queue", SOON_MS));
        (void)fixture_lock_of(f, fixture_client(f, NULL), names[1 - i], relock_fairlock_new);
        fixture_free_lock(f, fair);
    }
    (void)fixture_lock_of(f, client, "{orders}:1", relock_fairlock_new);
    (void)fixture_lock_of(f, client, "{orders}:2", relock_fairlock_new);
}

static void a_fair_lock_and_one_of_another_kind_share_no_queue(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    for (int i = 0; i < N_NAMES; i++) {
        struct relock_lock *fair = fixture_lock_of(f, client, names[i], relock_fairlock_new);
        struct relock_lock *other = fixture_lock(f, client, names[1 - i]);

        assert_result(relock_lock(fair), RELOCK_OK);
        assert_result(relock_lock(other), RELOCK_OK);
        assert_result(relock_unlock(fair), RELOCK_OK);
        assert_result(relock_unlock(other), RELOCK_OK);
        fixture_free_lock(f, fair);
        fixture_free_lock(f, other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(two_locks_that_share_a_channel_are_both_woken),
        FENCED_TEST(two_fenced_locks_that_share_a_channel_are_both_woken),
        SERVER_TEST(two_readers_that_share_a_channel_are_both_woken),
        SERVER_TEST(a_lock_that_leaves_a_shared_channel_silences_no_other),
        SERVER_TEST(the_subscription_ends_with_its_last_waiter),
        SERVER_TEST(sharing_a_channel_starves_nobody),
        SERVER_TEST(two_fair_locks_of_one_client_share_no_queue),
        SERVER_TEST(a_fair_lock_and_one_of_another_kind_share_no_queue),
    };

    return SERVER_TESTS_RUN(tests);
}
