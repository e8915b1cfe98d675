/* Pairs of a kept lock that need no mutex, and all that closes its shortcut meanwhile. */
#include "one_hold.h"

#include "base/clock.h"
#include "lock/hold/holds.h"
#include "lock/hold/private.h"
#include "lock/state/lock.h"
#include "lock/state/owner.h"

#include <pthread.h>
#include <relock.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP_MS 3600000
#define PAIRS 1000
#define SOON_S 60
#define LONG_NS 10000000 /* for a hold of a shortcut */

static struct relock_lock handle;
static uint64_t self;
static uint64_t n_takes, n_gives; /* that the statistics are to say */

static void on_lost(const struct relock_lost *lost, void *arg)
{
    (void)lost;
    (void)arg;
}

/* The last level is released, and the lock stays. */
static void keep(void)
{
    hold->count = 0;
    assert_true(relock_cache_keep(&client, hold, relock_clock_now_us()));
}

/* The first time that it is acquired from memory. */
static void reuse(void)
{
    waiters[1].queues_on = NULL;
    relock_shortcut_close(resource);
    relock_cache_give(&client, hold, &waiters[1], relock_clock_now_us());
}

/* The lock is kept, and its shortcut is open. */
static int begin(void **state)
{
    one_hold_begin(state);
    n_takes = n_gives = 0;
    self = relock_owner_self();
    assert_true(relock_owner_watch(self));
    client.take_kept = relock_cache_take_kept;
    client.default_told = (struct relock_told){.on_lost = on_lost, .arg = &client};
    handle = (struct relock_lock){.client = &client, .resource = resource};
    relock_resource_dequeue(resource, &waiters[1]);
    relock_resource_dequeue(resource, &waiters[2]);
    hold->cache_until_ms = resource->taken_ms + KEEP_MS;
    keep();
    assert_false(relock_shortcut_is_open(resource)); /* a lock that is used once has none */
    reuse();
    keep();
    assert_true(relock_shortcut_is_open(resource));
    return 0;
}

static int end(void **state)
{
    relock_shortcut_close(resource);
    if (relock_resource_kept(resource)) {
        relock_cache_drop(&client, hold);
        relock_holds_end(&client, hold);
    } else if (hold->state == RELOCK_HOLD_HELD) {
        finish();
    }
    return one_hold_end(state);
}

static void take(void)
{
    assert_true(relock_shortcut_take(resource, NULL));
    n_takes++;
}

/* Gives the lock, if its shortcut is open, as if no time had passed since it was taken. */
static bool give_at_once(void)
{
    struct relock_shortcut *shortcut = atomic_load(&resource->shortcut);

    while (relock_shortcut_is_open(resource)) {
        atomic_store(&shortcut->since_us, relock_clock_now_us());
        if (relock_shortcut_give(resource))
            return true;
    }
    return false;
}

static void give(void)
{
    if (give_at_once())
        n_gives++;
    else
        keep();
}

static void assert_counts(void)
{
    const struct relock_stats *stats = &client.guarded.stats;
    uint64_t in_buckets = 0;

    relock_shortcut_close_all(&client);
    assert_int_equal(stats->reused, n_takes + 1);
    assert_int_equal(stats->acquires[RELOCK_OK], n_takes);
    assert_int_equal(stats->wait.count, n_takes);
    assert_int_equal(stats->wait.buckets[0], n_takes);
    assert_int_equal(stats->releases[RELOCK_OK], n_gives);
    assert_int_equal(stats->hold.count, n_gives);
    for (int i = 0; i < RELOCK_SHORTCUT_HELD_US; i++)
        in_buckets += stats->hold.buckets[i];
    assert_int_equal(in_buckets, n_gives);
}

static void *make_pairs(void *arg)
{
    (void)arg;
    if (!relock_owner_watch(relock_owner_self()))
        return NULL;
    for (int i = 0; i < PAIRS; i++) {
        if (relock_lock(&handle) != RELOCK_OK || !give_at_once())
            return NULL;
    }
    return &handle;
}

static void a_pair_of_a_kept_lock_needs_no_mutex(void **state)
{
    struct timespec until;
    pthread_t thread;
    void *made = NULL;

    (void)state;
    relock_mutex_lock(&client.mutex);
    assert_int_equal(pthread_create(&thread, NULL, make_pairs, NULL), 0);
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &until), 0);
    until.tv_sec += SOON_S;
    assert_int_equal(pthread_timedjoin_np(thread, &made, &until), 0);
    relock_mutex_unlock(&client.mutex);
    assert_ptr_equal(made, &handle);
    relock_shortcut_close(resource);
    assert_int_equal(client.guarded.stats.reused, PAIRS + 1);
    assert_int_equal(client.guarded.stats.hold.count, PAIRS);
}

static void a_closed_shortcut_makes_the_taker_the_owner(void **state)
{
    struct relock_grant grant;
    uint64_t from_us;

    (void)state;
    client.options.max_hold_ms = KEEP_MS;
    from_us = relock_clock_now_us();
    assert_true(relock_shortcut_take(resource, &grant));
    assert_int_equal(grant.owner, self);
    assert_int_equal(grant.hold_count, 1);
    assert_true(grant.valid_ms > 0 && grant.valid_ms <= LEASE_MS);
    assert_int_equal(hold->state, RELOCK_HOLD_CACHED); /* the structs do not know */
    assert_ptr_equal(relock_resource_find(resource, self), hold);
    assert_int_equal(hold->state, RELOCK_HOLD_HELD);
    assert_int_equal(hold->count, 1);
    assert_true(hold->since_us >= from_us && hold->since_us <= relock_clock_now_us());
    assert_int_equal(hold->cap_ms, hold->since_us / 1000 + KEEP_MS);
    assert_ptr_equal(hold->told, &client.default_told);
    assert_ptr_equal(resource->holder, hold);
    assert_null(relock_resource_kept(resource));
    assert_int_equal(client.guarded.stats.holds, 1);
    assert_int_equal(client.guarded.stats.kept, 0);
    assert_false(relock_shortcut_give(resource));
    assert_false(relock_shortcut_take(resource, NULL));
}

static void a_closed_shortcut_that_nobody_has_taken_leaves_the_lock_kept(void **state)
{
    (void)state;
    assert_ptr_equal(relock_resource_cached(resource), hold);
    assert_int_equal(hold->state, RELOCK_HOLD_CACHED);
    assert_false(relock_shortcut_take(resource, NULL));
}

static void each_pair_counts_once(void **state)
{
    (void)state;
    for (int i = 0; i < PAIRS; i++) {
        take();
        if (i % 7 == 0)
            relock_shortcut_close(resource);
        give();
        if (i % 10 == 0)
            assert_counts();
        if (!relock_shortcut_is_open(resource)) {
            reuse();
            keep();
            n_takes++; /* without the call that counts the rest */
            client.guarded.stats.acquires[RELOCK_OK]++;
            relock_meter_add(&client.guarded.stats.wait, 0);
        }
    }
    assert_true(n_gives > 0);
    assert_counts();
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void *try_to_give(void *arg)
{
    return relock_shortcut_give(resource) ? arg : NULL;
}

static void only_the_thread_that_has_taken_it_gives_it(void **state)
{
    pthread_t thread;
    void *given;

    (void)state;
    take();
    assert_int_equal(pthread_create(&thread, NULL, try_to_give, &handle), 0);
    assert_int_equal(pthread_join(thread, &given), 0);
    assert_null(given);
    assert_false(relock_shortcut_take(resource, NULL)); /* and nobody takes it */
}

static void a_lock_that_is_not_certain_for_long_is_not_taken(void **state)
{
    (void)state;
    relock_shortcut_close(resource);
    reuse();
    hold->cache_until_ms = relock_clock_now_ms() + 1;
    hold->count = 0;
    if (!relock_cache_keep(&client, hold, (hold->cache_until_ms - 1) * 1000))
        fail();
    while (relock_clock_now_ms() < hold->cache_until_ms)
        ;
    assert_true(relock_shortcut_is_open(resource));
    assert_false(relock_shortcut_take(resource, NULL));
}

static void a_lock_is_not_given_when_its_time_is_over(void **state)
{
    struct relock_shortcut *shortcut = atomic_load(&resource->shortcut);

    (void)state;
    take();
    atomic_store(&shortcut->until_us, relock_clock_now_us());
    atomic_store(&shortcut->since_us, relock_clock_now_us());
    assert_false(relock_shortcut_give(resource));
}

static void a_long_hold_is_released_under_the_mutex(void **state)
{
    (void)state;
    take();
    assert_int_equal(nanosleep(&(struct timespec){.tv_nsec = LONG_NS}, NULL), 0);
    assert_false(relock_shortcut_give(resource));
    assert_ptr_equal(relock_resource_find(resource, self), hold);
}

static void a_callback_takes_no_shortcut(void **state)
{
    (void)state;
    relock_callback_enter();
    assert_int_equal(relock_lock(&handle), RELOCK_E_DEADLOCK);
    relock_callback_exit();
    assert_true(relock_shortcut_is_open(resource));
}

static void a_forked_child_takes_no_shortcut(void **state)
{
    int status;
    pid_t child = fork();

    (void)state;
    if (child == 0)
        _exit(relock_lock(&handle) == RELOCK_E_FORKED ? 0 : 1);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_call_with_a_fired_cancel_takes_no_shortcut(void **state)
{
    struct relock_cancel *cancel = NULL;
    struct relock_how how = {0};

    (void)state;
    assert_int_equal(relock_cancel_new(&cancel), RELOCK_OK);
    relock_cancel_fire(cancel);
    how.cancel = cancel;
    assert_int_equal(relock_acquire(&handle, &how, NULL), RELOCK_CANCELLED);
    relock_cancel_free(cancel);
}

static void a_call_with_an_owner_a_lease_or_a_callback_goes_through_the_mutex(void **state)
{
    struct relock_grant grant;

    (void)state;
    assert_int_equal(
        relock_acquire(&handle, &(struct relock_how){.on_lost = on_lost, .arg = &grant}, &grant),
        RELOCK_OK);
    assert_false(relock_shortcut_is_open(resource));
    assert_ptr_equal(hold->told->arg, &grant);
    assert_int_equal(relock_unlock(&handle), RELOCK_OK);
    assert_int_equal(relock_acquire(&handle, &(struct relock_how){.owner = self + 1}, &grant),
                     RELOCK_OK);
    assert_int_equal(grant.owner, self + 1);
    assert_int_equal(relock_release(&handle, self + 1), RELOCK_OK);
}

/* ---- what closes it -------------------------------------------------------------------------- */

static void recall(void)
{
    char number[24];
    int len = snprintf(number, sizeof(number), "%llu", (unsigned long long)hold->number);

    relock_cache_recall(&client, resource, number, (size_t)len);
}

static void a_recall_meets_the_thread_that_has_taken_the_lock(void **state)
{
    (void)state;
    take();
    recall();
    assert_int_equal(hold->state, RELOCK_HOLD_HELD);
    assert_true(hold->recalled);
    hold->count = 0;
    assert_false(relock_cache_keep(&client, hold, relock_clock_now_us()));
}

static void when_recalls_may_be_missed_no_lock_is_taken(void **state)
{
    (void)state;
    take();
    relock_cache_clear(&client);
    assert_int_equal(hold->state, RELOCK_HOLD_HELD);
    assert_true(hold->recalled);
}

static void the_hold_of_a_thread_that_ends_is_found(void **state)
{
    (void)state;
    take();
    assert_ptr_equal(relock_holds_find(&client, self), hold);
}

/* The renewal that is due would verify nothing that comes after it. */
static void a_timer_closes_the_shortcut(void **state)
{
    (void)state;
    take();
    hold->renew_at_ms = RELOCK_NEVER;
    relock_watchdog_fire(&client, hold, relock_clock_now_ms());
    assert_int_equal(hold->state, RELOCK_HOLD_HELD);
}

static void a_shortcut_is_open_only_while_a_renewal_will_follow(void **state)
{
    (void)state;
    relock_shortcut_close(resource);
    reuse();
    hold->command = RELOCK_HOLD_SENT;
    keep();
    assert_false(relock_shortcut_is_open(resource));

    reuse(); /* while a command is in flight: the next one will verify it */
    assert_int_equal(hold->command, RELOCK_HOLD_SENT_BEFORE);
    keep();
    assert_true(relock_shortcut_is_open(resource));

    relock_shortcut_close(resource);
    reuse();
    hold->command = RELOCK_HOLD_NOTHING_SENT;
    hold->renew_at_ms = relock_clock_now_ms() + RENEWAL_MS;
    keep();
    assert_false(relock_shortcut_is_open(resource));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_pair_of_a_kept_lock_needs_no_mutex),
        TEST(a_closed_shortcut_makes_the_taker_the_owner),
        TEST(a_closed_shortcut_that_nobody_has_taken_leaves_the_lock_kept),
        TEST(each_pair_counts_once),
        TEST(only_the_thread_that_has_taken_it_gives_it),
        TEST(a_lock_that_is_not_certain_for_long_is_not_taken),
        TEST(a_lock_is_not_given_when_its_time_is_over),
        TEST(a_long_hold_is_released_under_the_mutex),
        TEST(a_callback_takes_no_shortcut),
        TEST(a_forked_child_takes_no_shortcut),
        TEST(a_call_with_a_fired_cancel_takes_no_shortcut),
        TEST(a_call_with_an_owner_a_lease_or_a_callback_goes_through_the_mutex),
        TEST(a_recall_meets_the_thread_that_has_taken_the_lock),
        TEST(when_recalls_may_be_missed_no_lock_is_taken),
        TEST(the_hold_of_a_thread_that_ends_is_found),
        TEST(a_timer_closes_the_shortcut),
        TEST(a_shortcut_is_open_only_while_a_renewal_will_follow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
